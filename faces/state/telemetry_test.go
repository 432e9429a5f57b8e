package state

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// panicking is a Telemetry whose methods panic, the end of a call included.
type panicking struct{ early bool }

func (panicking) Tell(Fact) { panic("tell") }

func (p panicking) Call(ctx context.Context, _ ToolCall) (context.Context, func(string)) {
	if p.early {
		panic("call")
	}
	return ctx, func(string) { panic("done") }
}

func (panicking) Carry(context.Context) map[string]string { panic("carry") }

func (panicking) Answered(context.Context, ModelAnswer) { panic("answered") }

// empty is a Telemetry that returns nothing.
type empty struct{ panicking }

func (empty) Call(context.Context, ToolCall) (context.Context, func(string)) { return nil, nil }

// carrying is a Telemetry that carries what it should not.
type carrying struct{ empty }

func (carrying) Carry(context.Context) map[string]string {
	return map[string]string{"traceparent": "00-a", "tracestate": "", "Authorization": "secret", "Host": "elsewhere"}
}

// Nothing but a trace context goes with a request.
func TestContainedCarry(t *testing.T) {
	t.Parallel()
	assert.Equal(t, map[string]string{"traceparent": "00-a"}, Contained(carrying{}).Carry(t.Context()))
}

func TestContained(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	for name, of := range map[string]Telemetry{
		"none": nil, "late": panicking{}, "early": panicking{early: true}, "empty": empty{},
		"twice": Contained(panicking{}),
	} {
		c := Contained(of)
		assert.NotPanics(t, func() {
			c.Tell(Fact{Kind: Unknown})
			assert.Nil(t, c.Carry(ctx))
			c.Answered(ctx, ModelAnswer{})
			within, done := c.Call(ctx, ToolCall{Tool: "pay"})
			require.NotNil(t, within, name)
			assert.Equal(t, "mine", within.Value(key{}), name)
			require.NotNil(t, done, name)
			done("")
			done("TOOL_ERROR")
		}, name)
	}
}
