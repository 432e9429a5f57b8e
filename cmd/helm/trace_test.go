package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/mcp"
	helmotel "github.com/helmkernel/helm/integrations/otel"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const tracePolicy = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  read: {effect: read, input: {type: object, properties: {a: {type: string}}}}
  fail: {effect: read, input: {type: object, properties: {a: {type: string}}}}
  never: {effect: read, input: {type: object, properties: {a: {type: string}}}}
rules:
  - {id: most, allow: [read, fail]}
`

// A tracing is a client, a gateway and a server whose spans one collector has.
type tracing struct {
	*testing.T
	spans   *tracetest.InMemoryExporter
	tracer  trace.Tracer
	tell    *helmotel.Telemetry
	gateway *mcp.Gateway
	kernel  *helm.Kernel
}

// numbered numbers traces and spans, so that they sort as they began.
type numbered struct{ n atomic.Uint64 }

func (c *numbered) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	binary.BigEndian.PutUint64(t[8:], c.n.Add(1))
	return t, c.NewSpanID(ctx, t)
}

func (c *numbered) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], c.n.Add(1))
	return s
}

// server is an MCP server with spans of its own, below the trace context that _meta has.
func (x *tracing) server() string {
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	for _, name := range []string{"read", "fail", "never"} {
		tool := &sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		server.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			from := propagation.MapCarrier{}
			for _, key := range []string{"traceparent", "tracestate"} {
				if s, ok := r.Params.Meta[key].(string); ok {
					from[key] = s
				}
			}
			ctx := propagation.TraceContext{}.Extract(context.Background(), from)
			_, span := x.tracer.Start(ctx, "the server's "+name, trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
			return &sdk.CallToolResult{IsError: name == "fail",
				Content: []sdk.Content{&sdk.TextContent{Text: secretWord}}}, nil
		})
	}
	served := httptest.NewServer(sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	x.Cleanup(served.Close)
	return served.URL
}

func newTracing(t *testing.T) *tracing {
	t.Helper()
	x := &tracing{T: t, spans: tracetest.NewInMemoryExporter()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(x.spans), sdktrace.WithIDGenerator(new(numbered)))
	x.tracer = provider.Tracer("test")
	var err error
	x.tell, err = helmotel.New(helmotel.Options{TracerProvider: provider})
	require.NoError(t, err)
	doc, err := policy.Parse("shop.yaml", []byte(tracePolicy))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	x.kernel, err = helm.New(helm.Options{Policy: p, Key: key, Origin: "trace", Store: proofgraph.NewMemory(),
		Observe: x.tell.Observe})
	require.NoError(t, err)
	t.Cleanup(func() { x.kernel.Close() })
	x.gateway, err = mcp.NewGateway(mcp.GatewayOptions{Kernel: x.kernel, Telemetry: x.tell, Session: "s",
		Servers: []mcp.Server{{Name: "shop", URL: x.server()}}})
	require.NoError(t, err)
	t.Cleanup(func() { x.gateway.Close() })
	return x
}

// story makes the calls of a client, each within a span that goes on in _meta.
func (x *tracing) story(c *sdk.ClientSession) trace.TraceID {
	x.Helper()
	ctx, root := x.tracer.Start(x.Context(), "the client")
	defer root.End()
	for i, tool := range []string{"read", "fail", "never", "none", "read"} {
		within, span := x.tracer.Start(ctx, fmt.Sprintf("%d %s", i+1, tool), trace.WithSpanKind(trace.SpanKindClient))
		carried := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(within, carried)
		args := `{"a":"` + secretWord + `"}`
		if i == 4 {
			args = `{"b":"` + secretWord + `"}` // the schema has no b
		}
		_, err := c.CallTool(x.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args),
			Meta: sdk.Meta{"traceparent": carried["traceparent"]}})
		require.NoError(x, err)
		span.End()
	}
	return root.SpanContext().TraceID()
}

// text returns the spans of a trace as a tree, without ids.
func (x *tracing) text(of trace.TraceID) string {
	all := x.spans.GetSpans()
	slices.SortFunc(all, func(a, b tracetest.SpanStub) int {
		return strings.Compare(a.SpanContext.SpanID().String(), b.SpanContext.SpanID().String())
	})
	var b strings.Builder
	var write func(parent trace.SpanID, indent string)
	write = func(parent trace.SpanID, indent string) {
		for _, s := range all {
			if s.Parent.SpanID() != parent || s.SpanContext.TraceID() != of {
				continue
			}
			fmt.Fprintf(&b, "%s%s, %s\n", indent, s.Name, s.SpanKind)
			for _, a := range s.Attributes {
				if a.Key != "mcp.session.id" && a.Key != "jsonrpc.request.id" {
					fmt.Fprintf(&b, "%s  | %s=%s\n", indent, a.Key, a.Value.Emit())
					continue
				}
				assert.NotEmpty(x, a.Value.Emit())
				fmt.Fprintf(&b, "%s  | %s\n", indent, a.Key)
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  ! %s", indent, e.Name)
				for _, a := range e.Attributes {
					fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.Emit())
				}
				b.WriteByte('\n')
			}
			write(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	write(trace.SpanID{}, "")
	return b.String()
}

// TestOneTrace: over stdio the spans of client, gateway, kernel and server are one trace.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	x := newTracing(t)
	near, far := sdk.NewInMemoryTransports()
	done := make(chan struct{})
	go func() { defer close(done); _ = x.gateway.Run(context.Background(), far) }()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "model", Version: "1"}, nil).Connect(t.Context(), near, nil)
	require.NoError(t, err)
	of := x.story(c)
	require.NoError(t, c.Close())
	<-done
	for _, s := range x.spans.GetSpans() {
		assert.Equal(t, of, s.SpanContext.TraceID(), s.Name)
	}
	text := x.text(of)
	assert.NotContains(t, text, secretWord)
	const name = "testdata/trace.txt"
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "go test -run TestOneTrace -update, in cmd/helm")
}

// TestOneTraceOverHTTP: over HTTP too, and the span of each request is linked. A client that says
// nothing in _meta has its calls below the span of its HTTP request.
func TestOneTraceOverHTTP(t *testing.T) {
	t.Parallel()
	x := newTracing(t)
	who, err := auth.New(auth.Options{})
	require.NoError(t, err)
	h, err := x.gateway.Handler(mcp.HandlerOptions{Auth: who})
	require.NoError(t, err)
	front := httptest.NewServer(x.tell.Handler(h))
	defer front.Close()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "model", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: front.URL + "/mcp", MaxRetries: -1}, nil)
	require.NoError(t, err)
	of := x.story(c)
	text := x.text(of)
	for _, name := range []string{"tools/call read, server", "execute_tool read, internal", "the server's read, server",
		"the server's fail, server"} {
		assert.Contains(t, text, name)
	}
	assert.Equal(t, 3, strings.Count(text, "helm.verdict=DENY"), text)
	x.spans.Reset()
	_, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "read", Arguments: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	front.Close()
	var call, below tracetest.SpanStub
	for _, s := range x.spans.GetSpans() {
		switch s.Name {
		case "tools/call read":
			call = s
		case "the server's read":
			below = s
		}
	}
	require.True(t, call.Parent.IsValid())
	assert.Equal(t, call.SpanContext.TraceID(), below.SpanContext.TraceID())
	posts := 0
	for _, s := range x.spans.GetSpans() {
		if s.SpanContext.SpanID() == call.Parent.SpanID() {
			assert.Equal(t, http.MethodPost, s.Name)
			posts++
		}
	}
	assert.Equal(t, 1, posts, "the request that the call came by")
}
