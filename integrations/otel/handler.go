package otel

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// propagator reads and writes traceparent and tracestate. Baggage may hold anything and is left
// alone.
var propagator propagation.TraceContext

// Handler returns a handler that serves each request within a server's span: below the client's, if
// a header traceparent names it. The span has the method and the status; the path is not in it,
// which may have ids. A proxy that was given t calls it "chat" and the model. If next panics the
// span ends, and the panic goes on. The ResponseWriter of next is an http.Flusher; whatever else
// that of the server can do is reached by an http.ResponseController.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.serve(r)
		if span == nil {
			next.ServeHTTP(w, r)
			return
		}
		a := &answer{ResponseWriter: w}
		whole := false
		defer func() { a.end(span, whole) }()
		next.ServeHTTP(a, r.WithContext(ctx))
		whole = true
	})
}

// methods are those that a span's name may be.
var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions,
	http.MethodPatch,
}

// A serverKey is the context key of the server's span.
type serverKey struct{}

// serve begins the span of a request. If the provider fails there is none.
func (t *Telemetry) serve(r *http.Request) (ctx context.Context, span trace.Span) {
	if !t.traces {
		return nil, nil
	}
	defer func() {
		if recover() != nil {
			ctx, span = nil, nil
		}
	}()
	name := r.Method
	if !slices.Contains(methods, name) {
		name = "_OTHER"
	}
	ctx = propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(keyHTTPMethod.String(name)))
	return context.WithValue(ctx, serverKey{}, span), span
}

// An answer knows the status of what is answered.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if final := status >= 200 || status == http.StatusSwitchingProtocols; final && a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush sends what was written, if the server can.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// FlushError is Flush with an error.
func (a *answer) FlushError() error { return http.NewResponseController(a.ResponseWriter).Flush() }

func (a *answer) end(span trace.Span, whole bool) {
	defer drop()
	switch {
	case !whole:
		failed(span, "panic")
	case a.status == 0:
		a.status = http.StatusOK
	}
	if a.status != 0 {
		span.SetAttributes(keyHTTPStatus.Int(a.status))
	}
	if whole && a.status >= 500 {
		failed(span, strconv.Itoa(a.status))
	}
	span.End()
}
