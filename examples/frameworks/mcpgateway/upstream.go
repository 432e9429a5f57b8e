package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// An upstream is the server of another team, with more tools than the agent may use.
type upstream struct {
	server *mcp.Server
	shop   *office.Shop
}

func newUpstream(shop *office.Shop) upstream {
	u := upstream{mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil), shop}
	u.add("invoice_find", "Finds an invoice.", shop.Find)
	u.add("invoice_refund", "Pays back.", shop.Refund)
	u.add("invoice_export", "Sends all invoices to an address.", shop.Find)
	return u
}

// add adds a tool, or publishes another definition of it.
func (u upstream) add(name, description string, run helm.Func) {
	u.server.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := run(ctx, r.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil
		})
}
