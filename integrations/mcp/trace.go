package mcp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/faces/state"
)

// traceKeys are those of the trace context of W3C, in _meta and, capitalised, in headers.
var traceKeys = []string{"traceparent", "tracestate"}

// rpcID is the header in which the id of a request reaches the handler, to which the SDK does not
// tell it. What a client sends there is dropped.
const rpcID = "Helm-Rpc-Id"

// refusedUnjudged is the code of a call that is not judged, because its caller had too many denied.
const refusedUnjudged = "helm_unavailable"

// maxTraced is how much of an id, or of a trace context, is told.
const maxTraced = 512

// carry sets the headers by which the span of an HTTP request, and the id of the request in its
// body, reach the handler: the context of a session is that of its first request.
func (g *Gateway) carry(r *http.Request, id any) {
	r.Header.Del(rpcID)
	if s := requestID(id); s != "" {
		r.Header.Set(rpcID, s)
	}
	if carried := g.tell.Carry(r.Context()); carried != nil {
		for _, key := range traceKeys {
			r.Header.Del(key)
			if carried[key] != "" {
				r.Header.Set(key, carried[key])
			}
		}
	}
}

// requestID returns the id of a request as a text; "" if it is none.
func requestID(id any) string {
	switch id := id.(type) {
	case string:
		if len(id) <= maxTraced && strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
			return id
		}
	case float64:
		return strconv.FormatFloat(id, 'f', -1, 64)
	case int64:
		return strconv.FormatInt(id, 10)
	}
	return ""
}

// traced returns what a span of a call says of it. The trace context is that of _meta or, if it has
// none, that of the HTTP request.
func (c *client) traced(r *sdk.CallToolRequest) state.ToolCall {
	var header http.Header
	if r.Extra != nil {
		header = r.Extra.Header
	}
	from := func(key string) string { s, _ := r.Params.Meta[key].(string); return s }
	if from(traceKeys[0]) == "" {
		from = header.Get
	}
	carried := map[string]string{}
	for _, key := range traceKeys {
		if value := from(key); value != "" && len(value) <= maxTraced {
			carried[key] = value
		}
	}
	return state.ToolCall{Tool: r.Params.Name, Session: c.id, Protocol: r.ProtocolVersion(),
		Request: header.Get(rpcID), Carried: carried}
}

// spanned returns the driver that runs a call within a span, if the telemetry has such: the
// server's spans are below it then.
func (g *Gateway) spanned(f *forward) (d executor.Driver) {
	spans, ok := g.options.Telemetry.(interface {
		Driver(executor.Driver) (executor.Driver, error)
	})
	if !ok {
		return f
	}
	defer func() {
		if recover() != nil || d == nil {
			d = f
		}
	}()
	d, _ = spans.Driver(f)
	return d
}

// begin says that the call is given to the kernel now.
func (f *forward) begin() { f.asked = time.Now() }

// judged tells how long the decision took, once: when the driver is called or, if it is not, when
// the kernel has answered.
func (f *forward) judged() {
	if f.decided.CompareAndSwap(false, true) {
		f.tell.Tell(state.Fact{Kind: state.Judged, Took: time.Since(f.asked)})
	}
}
