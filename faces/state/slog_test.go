package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// logged returns the lines that Slog wrote of events, without their times.
func logged(t *testing.T, level slog.Level, events ...helm.Event) (lines []map[string]any) {
	t.Helper()
	var b bytes.Buffer
	observe := Slog(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level})))
	for _, e := range events {
		observe(t.Context(), e)
	}
	for line := range strings.Lines(b.String()) {
		m := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		require.Contains(t, m, "time")
		delete(m, "time")
		lines = append(lines, m)
	}
	return lines
}

func TestSlogSaysOfEachEventWhatIsKnown(t *testing.T) {
	t.Parallel()
	lines := logged(t, slog.LevelInfo,
		helm.Event{Tool: "pay", Session: "s", ID: "s/3", Verdict: contracts.Allow, Reason: contracts.ReasonAllow,
			Rule: "P1:none:all", Index: 7},
		helm.Event{Tool: "pay", Session: "s", ID: "s/4", Reason: contracts.ReasonSchemaViolation, Why: "/sum: no integer",
			Index: 8},
		helm.Event{Tool: "pay", Session: "s", Reason: contracts.ReasonKernelSealed, Why: "sealed", Err: errors.New("disk")},
		helm.Event{Tool: "pay", Session: "s", Reason: contracts.ReasonFailClosedError, Why: "full"},
		helm.Event{Tool: "pay", Session: "s", Reason: contracts.ReasonIdempotencyConflict, Why: "its own key", Repeat: true},
		helm.Event{Tool: "pay", Session: "s", ID: "s/3", Late: true},
		helm.Event{Why: "checkpoint", Err: errors.New("the token was pulled")},
	)
	assert.Equal(t, []map[string]any{
		{"level": "INFO", "msg": "call", "tool": "pay", "session": "s", "verdict": "ALLOW",
			"decision": "s/3", "reason": "ALLOW", "rule": "P1:none:all", "receipt": 7.0},
		{"level": "WARN", "msg": "call", "tool": "pay", "session": "s", "verdict": "DENY",
			"decision": "s/4", "reason": "SCHEMA_VIOLATION", "receipt": 8.0},
		{"level": "ERROR", "msg": "call not recorded", "tool": "pay", "session": "s", "verdict": "DENY",
			"reason": "KERNEL_SEALED", "error": "disk"},
		{"level": "ERROR", "msg": "call not recorded", "tool": "pay", "session": "s", "verdict": "DENY",
			"reason": "FAIL_CLOSED_ERROR"},
		{"level": "WARN", "msg": "call", "tool": "pay", "session": "s", "verdict": "DENY",
			"reason": "IDEMPOTENCY_CONFLICT", "repeat": true},
		{"level": "INFO", "msg": "abandoned driver ended", "tool": "pay", "session": "s", "decision": "s/3"},
		{"level": "ERROR", "msg": "checkpoint failed", "error": "the token was pulled"},
	}, lines)
}

func TestSlogFollowsTheLevelOfItsLogger(t *testing.T) {
	t.Parallel()
	allow := helm.Event{Tool: "pay", Session: "s", ID: "s/3", Verdict: contracts.Allow, Reason: contracts.ReasonAllow}
	assert.Empty(t, logged(t, slog.LevelWarn, allow))
	assert.NotPanics(t, func() { Slog(nil)(context.Background(), allow) })
}

// TestSlogOfAKernel makes calls with a word in arguments, outputs and the tool's error, which no
// line may have, and a handler that panics, which no call may notice.
func TestSlogOfAKernel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const word = "xyzzy"
	f.write("policy.yaml", `helm: policy/v1
layer: P1
bundle: {name: none, version: 2}
tools:
  pay: {effect: write, input: {type: object, properties: {sum: {type: string}}}}
rules: [{id: all, allow: [pay]}]
`)
	c, err := ReadConfig(f.dir + "/helm.yaml")
	require.NoError(t, err)
	var b bytes.Buffer
	observe, panics := Slog(slog.New(slog.NewTextHandler(&b, nil))), false
	s, err := Open(t.Context(), c, Options{
		Drivers: map[string]helm.Driver{"pay": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if panics {
				return nil, errors.New(word)
			}
			return json.RawMessage(`"` + word + `"`), nil
		})},
		Observe: func(ctx context.Context, e helm.Event) {
			observe(ctx, e)
			if panics {
				panic("the handler")
			}
		},
	})
	require.NoError(t, err)
	defer s.Close(context.WithoutCancel(t.Context()))
	call := func(tool, args string) contracts.ReasonCode {
		d, _ := s.Kernel().Guard(t.Context(), helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: "s"})
		return d.Reason
	}
	args := `{"sum": "` + word + `"}`
	assert.Equal(t, contracts.ReasonAllow, call("pay", args))
	assert.Equal(t, contracts.ReasonSchemaViolation, call("pay", `{"`+word+`": 1}`))
	assert.Equal(t, contracts.ReasonToolNotFound, call("other", args))
	panics = true
	assert.Equal(t, contracts.ReasonToolError, call("pay", args))
	assert.Equal(t, 4, strings.Count(b.String(), "\n"), b.String())
	assert.NotContains(t, b.String(), word)
}
