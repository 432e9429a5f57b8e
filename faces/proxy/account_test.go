package proxy

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// A hearer keeps what it is told, and panics.
type hearer struct {
	mu      sync.Mutex
	facts   []state.Fact
	answers []state.ModelAnswer
}

func (h *hearer) Tell(f state.Fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = append(h.facts, f)
	panic("tell")
}

func (h *hearer) Call(ctx context.Context, _ state.ToolCall) (context.Context, func(string)) {
	return ctx, func(string) {}
}

func (h *hearer) Carry(context.Context) map[string]string {
	return map[string]string{"traceparent": "00-of-this-request"}
}

func (h *hearer) Answered(_ context.Context, a state.ModelAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = append(h.answers, a)
	panic("answered")
}

// count returns how often such a fact was told, and forgets it. The name is "" for any.
func (h *hearer) count(k state.Kind, name string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, f := range h.facts {
		if f.Kind == k && (name == "" || f.Name == name) {
			n += 1 + f.More
			h.facts[i].Kind = 0
		}
	}
	return n
}

// answer returns the one answer that was told, and forgets it.
func (h *hearer) answer(t *testing.T) state.ModelAnswer {
	t.Helper()
	var a state.ModelAnswer
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.answers) != 1 {
			return false
		}
		a, h.answers = h.answers[0], nil
		return true
	}, 5*time.Second, time.Millisecond)
	return a
}

func newHeard(t *testing.T) (*bureau, *hearer) {
	t.Helper()
	h := &hearer{}
	b := newBureau(t, func(o *Options, ao *auth.Options) {
		o.Telemetry = h
		ao.Refused = func(code string) { h.Tell(state.Fact{Kind: state.Refused, Name: code}) }
	})
	b.desk.Watch(state.WatchOf(h))
	return b, h
}

// TestAnswered has each API, plain and streamed, and compares what is told of it.
func TestAnswered(t *testing.T) {
	t.Parallel()
	b, h := newHeard(t)
	call := func(id, args string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"read","arguments":"` + args + `"}}`
	}
	const tools = `"tools":[{"type":"function","function":{"name":"read"}}]`
	checked := func(a state.ModelAnswer) state.ModelAnswer {
		assert.Positive(t, a.FirstByte)
		assert.Less(t, a.Held, time.Minute)
		a.FirstByte, a.Held = 0, 0
		return a
	}
	want := state.ModelAnswer{Model: "gpt-9", Input: 7, Output: 9, Calls: 2, Denied: 1}

	b.says(`{"id":"c","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[%s,%s]}}],`+
		`"usage":{"prompt_tokens":7,"completion_tokens":9}}`, call("k1", "{}"), call("k2", `{\"b\":1}`))
	a := b.ask("/v1/chat/completions", `{"model":"gpt-9","messages":[{"role":"user","content":"hi"}],`+tools+`}`,
		"Traceparent", "00-of-the-client", "Helm-Session", "s")
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, want, checked(h.answer(t)))
	assert.Equal(t, "00-of-this-request", b.last().header.Get("Traceparent"))
	assert.Equal(t, 2, h.count(state.Judged, ""))
	assert.Equal(t, 1, h.count(state.Opened, ""))

	b.streams(
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0,"+
			"\"id\":\"k3\",\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}}]}\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
		"data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n",
		"data: [DONE]\n\n")
	a = b.ask("/v1/chat/completions",
		`{"model":"gpt-9","stream":true,"messages":[{"role":"user","content":"hi"}],`+tools+`}`)
	require.Equal(t, 200, a.status, a.body)
	want.Calls, want.Denied = 1, 0
	assert.Equal(t, want, checked(h.answer(t)))

	b.says("%s", `{"id":"resp_1","object":"response","status":"completed","output":[`+readCall1+`],`+
		`"usage":{"input_tokens":7,"output_tokens":9}}`)
	a = b.ask(responsesPath, `{"model":"gpt-9","input":"hi","tools":[`+readEntry+`]}`)
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, want, checked(h.answer(t)))

	b.streams("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\","+
		"\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n",
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},"+
			"\"usage\":{\"output_tokens\":9}}\n\n",
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	a = b.ask("/v1/messages", `{"model":"gpt-9","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, a.status, a.body)
	want.Calls = 0
	assert.Equal(t, want, checked(h.answer(t)))
	assert.Zero(t, h.count(state.Refused, ""))
}

// TestHeldBack has the provider wait in the midst of a call, whose events are held back.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	b, h := newHeard(t)
	const wait = 50 * time.Millisecond
	b.mu.Lock()
	b.provider = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"k","type":"function",` +
				`"function":{"name":"read","arguments":"{"}}]}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`,
		} {
			_, err := w.Write([]byte("data: " + e + "\n\n"))
			assert.NoError(t, err)
			assert.NoError(t, http.NewResponseController(w).Flush())
			time.Sleep(wait)
		}
	}
	b.mu.Unlock()
	a := b.ask("/v1/chat/completions", `{"model":"gpt-9","stream":true,"messages":[{"role":"user","content":"hi"}],`+
		`"tools":[{"type":"function","function":{"name":"read"}}]}`)
	require.Equal(t, 200, a.status, a.body)
	told := h.answer(t)
	assert.GreaterOrEqual(t, told.Held, wait)
	assert.Positive(t, told.FirstByte)
}

// TestFactsOfAProxy are refusals by their code, and results of calls that are not open.
func TestFactsOfAProxy(t *testing.T) {
	t.Parallel()
	b, h := newHeard(t)
	b.says(`{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a"}}]}`)
	a := b.ask("/v1/chat/completions", `{"model":"m","messages":[{"role":"tool","tool_call_id":"x1","content":"1"},`+
		`{"role":"tool","tool_call_id":"x2","content":"1"},{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, 2, h.count(state.Unknown, ""))
	assert.Equal(t, "m", h.answer(t).Model)

	assert.Equal(t, 400, b.ask("/v1/chat/completions", `[]`).status)
	assert.Equal(t, 1, h.count(state.Refused, "helm_bad_request"))
	assert.Equal(t, 404, b.ask("/v1/elsewhere", `{}`).status)
	assert.Equal(t, 1, h.count(state.Refused, "helm_not_found"))
	b.says(`<html>`)
	assert.Equal(t, 502, b.ask("/v1/chat/completions", `{"model":"m","messages":[]}`).status)
	assert.Equal(t, 1, h.count(state.Refused, "helm_upstream"))
	h.answer(t)
	b.streams("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", "data: <\n\n")
	a = b.ask("/v1/chat/completions", `{"model":"m","stream":true,"messages":[]}`)
	assert.Contains(t, a.body, "helm_upstream")
	assert.Equal(t, 1, h.count(state.Refused, "helm_upstream"), "in a stream that had begun")
	assert.Zero(t, h.count(state.Refused, ""))
}
