// Command mcpserver shows HELM in an MCP server: a middleware judges each call of the server's own
// tools. The client plays the model.
//
//	go run ./mcpserver
package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/mcpmodel"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

func main() { office.Main(office.OpenUnbound, play) }

func play(ctx context.Context, o *office.Office) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	server.AddReceivingMiddleware(guard(o, office.Bob(), "bob/connection-1"))
	tools := o.Shop.Drivers()
	for _, t := range o.Tools() {
		server.AddTool(&mcp.Tool{Name: t.Name, Description: office.Description(t), InputSchema: t.Input},
			handler(tools[t.Name].(helm.Func)))
	}
	client, err := mcpmodel.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer client.Close()
	return mcpmodel.Play(ctx, client, o.Script)
}

// handler returns a tool of the shop as a handler of the SDK.
func handler(tool helm.Func) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := tool(ctx, r.Params.Arguments)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil
	}
}
