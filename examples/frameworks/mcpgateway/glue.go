package main

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
	"github.com/helmkernel/helm/executor"
)

// gateway is the middleware of a server that has no tools of its own. It serves one connection of
// one caller, over a connection of its own to the server that has the tools.
func gateway(o *office.Office, upstream *mcp.ClientSession, who helm.Caller, session string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			switch r := request.(type) {
			case *mcp.ListToolsRequest:
				return list(o, published(ctx, upstream)), nil
			case *mcp.CallToolRequest:
				in := helm.Intent{Tool: r.Params.Name, Args: r.Params.Arguments, Caller: who, Session: session}
				if t, ok := published(ctx, upstream)[in.Tool]; ok {
					in.Driver = t
				}
				return result(o.Guard(ctx, in))
			}
			return next(ctx, method, request)
		}
	}
}

// list returns the tools that the policy declares and the other server has, as pinned if they are
// pinned. What the model reads of them is the policy's: no words of the other server reach it.
func list(o *office.Office, published map[string]remote) *mcp.ListToolsResult {
	l := &mcp.ListToolsResult{Tools: []*mcp.Tool{}}
	for _, t := range o.Tools() {
		there, ok := published[t.Name]
		if ok && (t.Definition == contracts.Digest{} || t.Definition == there.definition) {
			l.Tools = append(l.Tools, &mcp.Tool{Name: t.Name, Description: office.Description(t), InputSchema: t.Input})
		}
	}
	return l
}

// result returns what the model is told.
func result(d helm.Decision, r helm.Receipt) (*mcp.CallToolResult, error) {
	if r.Output != nil {
		var released mcp.CallToolResult
		return &released, json.Unmarshal(r.Output, &released)
	}
	text, _ := d.ForModel(r)
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// A remote tool is a driver that declares the definition which its server publishes now.
type remote struct {
	upstream   *mcp.ClientSession
	definition contracts.Digest
}

// published asks the other server for its tools. If it does not answer there are none, and a call
// is denied because it has no driver.
func published(ctx context.Context, upstream *mcp.ClientSession) map[string]remote {
	tools := make(map[string]remote)
	for t, err := range upstream.Tools(ctx, nil) {
		if err != nil {
			return nil
		}
		text, _ := json.Marshal(t) // it came as JSON
		definition, _ := contracts.DefinitionOf(text)
		tools[t.Name] = remote{upstream, definition}
	}
	return tools
}

func (r remote) Definition() contracts.Digest { return r.definition }

func (r remote) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	// A []byte would be sent in base64, and Arguments takes any.
	made, err := r.upstream.CallTool(ctx, &mcp.CallToolParams{Name: c.Tool, Arguments: json.RawMessage(c.Args)})
	if err != nil {
		return executor.Result{}, err
	}
	output, err := json.Marshal(made)
	return executor.Result{Output: output, Failed: made.IsError || made.NeedsInput()}, err
}
