package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/helmtest"
)

// TestAdapterSuite tries Middleware with a server and a client of the SDK. The protocol has no
// model and no loop: the client makes the calls of one answer side by side.
func TestAdapterSuite(t *testing.T) {
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "mcp: Middleware",
		Kinds: []string{"plain", "typed"},
		Ways:  []string{"another session of the server"},
		Turn:  turnOfServer,
		Lacks: map[string]string{
			"08-streams": "a tool of MCP returns one result: it has no stream",
		},
	})
}

func turnOfServer(ctx context.Context, t helmtest.Turn) helmtest.Answer {
	for _, step := range t.Model {
		for _, c := range step {
			if !json.Valid(c.Args) {
				return helmtest.Answer{Err: fmt.Errorf("such a message is no JSON: %w", errors.ErrUnsupported)}
			}
		}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	for _, x := range t.Tools {
		addScripted(server, x)
	}
	server.AddReceivingMiddleware(Middleware(t.Kernel, Options{
		Caller:  func(context.Context, sdk.Request) (helm.Caller, error) { return t.Identity.Caller, nil },
		Session: func(context.Context, sdk.Request) (string, error) { return t.Identity.Session, nil },
	}))
	if t.Hook != nil || t.Alias != nil {
		server.AddReceivingMiddleware(changes(t))
	}
	for _, x := range t.Late {
		addScripted(server, x)
	}
	session, err := connectTo(ctx, server)
	if err == nil && t.Way != "" {
		session, err = connectTo(ctx, server)
	}
	if err != nil {
		return helmtest.Answer{Err: err}
	}
	defer session.Close()
	a := helmtest.Answer{Text: t.Text}
	for _, step := range t.Model {
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, c := range step {
			all.Go(func() {
				shown, err := callTool(ctx, session, c)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					a.Err = errors.Join(a.Err, err)
					return
				}
				a.Shown = append(a.Shown, shown)
			})
		}
		all.Wait()
	}
	return a
}

// connectTo returns a client's session with a server. The server's handlers run under ctx.
func connectTo(ctx context.Context, server *sdk.Server) (*sdk.ClientSession, error) {
	near, far := sdk.NewInMemoryTransports()
	// The transport outlives the host's context, so that the client can tell the server that a call
	// was canceled.
	if _, err := server.Connect(context.WithoutCancel(ctx), far, nil); err != nil {
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil)
	return client.Connect(context.WithoutCancel(ctx), near, nil)
}

// changes is a middleware that the host installs after the guard's.
func changes(t helmtest.Turn) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if call, ok := r.(*sdk.CallToolRequest); ok {
				if t.Hook != nil {
					call.Params.Arguments = t.Hook(call.Params.Arguments)
				}
				if name, ok := t.Alias[call.Params.Name]; ok {
					call.Params.Name = name
				}
			}
			return next(ctx, method, r)
		}
	}
}

func addScripted(server *sdk.Server, x *helmtest.ScriptedTool) {
	tool := &sdk.Tool{Name: x.Name, Description: x.Description, InputSchema: x.Schema}
	if x.Kind == "plain" {
		server.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			out, err := x.Run(ctx, r.Params.Arguments)
			return text(out), err
		})
		return
	}
	sdk.AddTool(server, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in map[string]any) (
		*sdk.CallToolResult, any, error,
	) {
		args, err := json.Marshal(in)
		if err != nil {
			return nil, nil, err
		}
		out, err := x.Run(ctx, args)
		return text(out), nil, err
	})
}

func callTool(ctx context.Context, session *sdk.ClientSession, c helmtest.Call) (s helmtest.Shown, err error) {
	s.Call = c.ID
	params := &sdk.CallToolParams{Name: c.Tool, Arguments: json.RawMessage(c.Args)}
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return s, err
	}
	s.Failed = result.IsError
	if _, judged := result.Meta["helmkernel/verdict"]; judged {
		s.Text = result.Content[0].(*sdk.TextContent).Text
		return s, nil
	}
	b, err := encode(result)
	if err != nil {
		return s, err
	}
	form, _, err := canonical(b)
	s.Text = string(form)
	return s, err
}
