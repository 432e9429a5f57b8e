package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
)

// Options say what the server knows and a client cannot say of itself.
type Options struct {
	// Caller returns who makes a request. Nothing of it may come from arguments, or from what the
	// client says of itself. An error refuses the request. Nil: all are anonymous.
	Caller func(ctx context.Context, r sdk.Request) (helm.Caller, error)

	// Session returns the session of a request. Nil: one for each caller and connection. A
	// connection over stdio has no id, and counts as the only one of its Middleware.
	Session func(ctx context.Context, r sdk.Request) (string, error)

	// Pass are further methods that go to the server unguarded, such as resources/read.
	Pass []string
}

// passed are the methods that concern the connection, and no tool.
var passed = []string{
	"initialize", "notifications/initialized", "notifications/cancelled", "notifications/progress", "ping",
	"server/discover",
}

// Middleware returns what has k judge the calls of a server's tools.
//
// The output of a call is the whole result, in canonical form. If the policy pins an output it is
// the structured content alone, and the client gets that, and its JSON as a text. A result that is
// an error is TOOL_ERROR, and its receipt has the digest of what the model is told. A denial is a
// result too, with isError and, in _meta, "helmkernel/verdict".
//
// If the policy pins the definition of a tool, the server's own entry in tools/list must have that
// digest: one that was changed is neither shown nor called.
func Middleware(k *helm.Kernel, o Options) sdk.Middleware {
	m := &guard{kernel: k, options: o, own: "mcp-" + strings.ToLower(rand.Text())}
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			switch {
			case method == "tools/call":
				return m.call(ctx, next, r)
			case method == "tools/list":
				return m.list(ctx, next, r)
			case slices.Contains(passed, method), slices.Contains(o.Pass, method):
				return next(ctx, method, r)
			}
			return nil, refusal(jsonrpc.CodeMethodNotFound, method+" is not guarded, and not passed on")
		}
	}
}

type guard struct {
	kernel  *helm.Kernel
	options Options
	own     string // the session of a connection without an id
}

// who returns whose request it is, and in which session.
func (g *guard) who(ctx context.Context, r sdk.Request) (c helm.Caller, session string, err error) {
	if g.options.Caller != nil {
		if c, err = g.options.Caller(ctx, r); err != nil {
			return c, "", err
		}
	}
	if g.options.Session != nil {
		session, err = g.options.Session(ctx, r)
		return c, session, err
	}
	connection := g.own
	if s := r.GetSession(); s != nil && s.ID() != "" {
		connection = s.ID()
	}
	b, err := json.Marshal([]string{c.ID, c.Tenant, connection})
	return c, "mcp:" + contracts.Hashed(string(b)), err
}

func (g *guard) call(ctx context.Context, next sdk.MethodHandler, r sdk.Request) (sdk.Result, error) {
	request, ok := r.(*sdk.CallToolRequest)
	if !ok || request.Params == nil {
		return nil, refusal(jsonrpc.CodeInvalidParams, "no call of a tool")
	}
	caller, session, err := g.who(ctx, r)
	if err != nil {
		return nil, errWho
	}
	args := request.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}") // the protocol lets them out
	}
	t := &tool{guard: g, next: next, request: request, structured: g.pinsOutput(request.Params.Name)}
	if _, pinned := g.definition(request.Params.Name); pinned {
		t.definition = digests(ctx, next, r)[request.Params.Name]
	}
	in := helm.Intent{Tool: request.Params.Name, Args: args, Caller: caller, Session: session, Driver: t}
	d, receipt := g.kernel.Guard(ctx, in)
	return told(d, receipt, t.structured)
}

func (g *guard) definition(name string) (contracts.Digest, bool) {
	if p := g.kernel.Policy(); p != nil {
		return p.Definition(name)
	}
	return contracts.Digest{}, false
}

func (g *guard) pinsOutput(name string) bool {
	p := g.kernel.Policy()
	return p != nil && p.HasOutput(name)
}

// A tool is the driver of one call: the server itself.
type tool struct {
	guard      *guard
	next       sdk.MethodHandler
	request    *sdk.CallToolRequest
	structured bool
	definition contracts.Digest
}

var _ executor.Defined = (*tool)(nil)

// Definition returns the digest of the server's own entry.
func (t *tool) Definition() contracts.Digest { return t.definition }

var errNoResult = errors.New("the server has no result of the tool")

// Run passes the call on, with the bytes that were judged.
func (t *tool) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	request, params := *t.request, *t.request.Params
	request.Params, params.Arguments = &params, c.Args
	made, err := t.next(ctx, "tools/call", &request)
	if err != nil {
		return executor.Result{}, err
	}
	result, ok := made.(*sdk.CallToolResult)
	if !ok || result == nil || result.NeedsInput() {
		return executor.Result{}, errNoResult
	}
	if err := ctx.Err(); err != nil && result.IsError {
		// The SDK makes a result of the error of a typed handler, that of its context too. What
		// such a call did is not known.
		return executor.Result{}, err
	}
	if t.structured && !result.IsError {
		output, err := json.Marshal(result.StructuredContent)
		return executor.Result{Output: output}, err
	}
	output, err := json.Marshal(result)
	return executor.Result{Output: output, Failed: result.IsError}, err
}

// list shows the tools that some call of the caller may be allowed to.
func (g *guard) list(ctx context.Context, next sdk.MethodHandler, r sdk.Request) (sdk.Result, error) {
	caller, _, err := g.who(ctx, r)
	if err != nil {
		return nil, errWho
	}
	made, err := next(ctx, "tools/list", r)
	if err != nil {
		return nil, err
	}
	all, ok := made.(*sdk.ListToolsResult)
	p := g.kernel.Policy()
	if !ok || p == nil {
		return nil, refusal(jsonrpc.CodeInternalError, "there is no list of tools")
	}
	callable := map[string]guardian.Tool{}
	for _, t := range p.Callable(caller) {
		callable[t.Name] = t
	}
	shown := *all
	shown.Tools = []*sdk.Tool{}
	for _, t := range all.Tools {
		c, ok := callable[t.Name]
		if ok && (c.Definition == (contracts.Digest{}) || c.Definition == digest(t)) {
			shown.Tools = append(shown.Tools, t)
		}
	}
	return &shown, nil
}

// digests returns the definitions of the server's tools. A list that cannot be read has none, and
// then nothing that is pinned is called.
func digests(ctx context.Context, next sdk.MethodHandler, r sdk.Request) map[string]contracts.Digest {
	call := r.(*sdk.CallToolRequest)
	found := map[string]contracts.Digest{}
	cursor := ""
	for range 1000 { // pages
		params := &sdk.ListToolsParams{Cursor: cursor}
		request := &sdk.ListToolsRequest{Session: call.Session, Params: params, Extra: call.Extra}
		made, err := next(ctx, "tools/list", request)
		list, ok := made.(*sdk.ListToolsResult)
		if err != nil || !ok {
			return nil
		}
		for _, t := range list.Tools {
			found[t.Name] = digest(t)
		}
		if cursor = list.NextCursor; cursor == "" {
			return found
		}
	}
	return nil
}

func digest(t *sdk.Tool) contracts.Digest {
	b, err := json.Marshal(t)
	if err != nil {
		return contracts.Digest{}
	}
	d, err := contracts.DefinitionOf(b)
	if err != nil {
		return contracts.Digest{}
	}
	return d
}
