package otel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

// remote is the trace context of a client.
const (
	remoteTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	remoteSpan  = "00f067aa0ba902b7"
	traceparent = "00-" + remoteTrace + "-" + remoteSpan + "-01"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	w := newWorld(t, tell, c)
	server := httptest.NewServer(tell.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/call":
			assert.Equal(t, contracts.ReasonAllow, w.guard(r.Context(), "look", args))
			tell.Answered(r.Context(), state.ModelAnswer{Model: "gpt-9 " + secret, Calls: 2, Denied: 1,
				Input: 7, Output: 9, FirstByte: time.Second, Held: time.Second})
			_, err := io.WriteString(rw, "done")
			assert.NoError(t, err)
		case "/stream":
			rw.WriteHeader(http.StatusEarlyHints)
			rw.WriteHeader(http.StatusTeapot)
			assert.NoError(t, http.NewResponseController(rw).Flush())
			rw.(http.Flusher).Flush()
			assert.NoError(t, http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Minute)))
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/error":
			http.Error(rw, secret, http.StatusBadGateway)
		}
	})))
	defer server.Close()
	get := func(method, path string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Traceparent", traceparent)
		r.Header.Set("Baggage", "key="+secret)
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	get(http.MethodPost, "/call")
	get(http.MethodGet, "/stream")
	get("SECRET", "/nothing/"+secret)
	get(http.MethodPost, "/panic") // a GET would be repeated
	get(http.MethodGet, "/error")
	require.Eventually(t, func() bool { return len(c.spans.GetSpans()) == 6 }, 5*time.Second, time.Millisecond)
	for _, s := range c.spans.GetSpans() {
		assert.Equal(t, remoteTrace, s.SpanContext.TraceID().String(), s.Name)
		if s.SpanKind == trace.SpanKindServer {
			assert.Equal(t, remoteSpan, s.Parent.SpanID().String(), s.Name)
		}
	}
	golden(t, "handler.txt", c.text())
}

// TestHandlerOfABrokenTracer serves as if there were none.
func TestHandlerOfABrokenTracer(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"tracer": {TracerProvider: brokenTraces{}}, "spans": {TracerProvider: halfTraces{}},
		"none": {MeterProvider: brokenMetrics{}},
	} {
		tell, err := New(o)
		require.NoError(t, err)
		served := httptest.NewRecorder()
		tell.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tell.Answered(r.Context(), state.ModelAnswer{Model: "m"})
			w.WriteHeader(http.StatusAccepted)
		})).ServeHTTP(served, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, http.StatusAccepted, served.Code, name)
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
			tell.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).
				ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}, name)
	}
}
