package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// A hearer counts facts.
type hearer map[state.Kind]int

func (h hearer) Tell(f state.Fact) {
	h[f.Kind]++
	if f.Kind == state.Judged && (f.Took <= 0 || f.Took > time.Minute) {
		h[0]++
	}
	panic("tell")
}

func (hearer) Call(ctx context.Context, _ state.ToolCall) (context.Context, func(string)) {
	return ctx, func(string) {}
}
func (hearer) Carry(context.Context) map[string]string     { return nil }
func (hearer) Answered(context.Context, state.ModelAnswer) {}

// TestTelemetry: a call that is handed over is judged in a known time, and a report of one that is
// not open is told.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	h := hearer{}
	x := newActor(t, func(o *Options, _ *auth.Options) { o.Telemetry = h })
	id := x.permit(x.ann, wished("mail", `{}`, "run", "caller"))
	assert.Equal(t, hearer{state.Judged: 1}, h)
	x.send(x.ann, "POST", "/api/v1/guard", wished("none", `{}`, "run", "caller")).is(403)
	assert.Equal(t, hearer{state.Judged: 2}, h)
	x.send(x.ann, "POST", "/api/v1/calls/"+id+"/outcome", `{"output":"1"}`).is(200)
	assert.Equal(t, hearer{state.Judged: 2}, h)
	x.send(x.ann, "POST", "/api/v1/calls/"+id[:63]+"x/outcome", `{"output":"1"}`).is(404)
	assert.Equal(t, hearer{state.Judged: 2, state.Unknown: 1}, h)
}
