package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	helmmcp "github.com/helmkernel/helm/integrations/mcp"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const shop = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  refund: {effect: write, input: {type: object, required: [amount], properties: {amount: {type: integer}}}}
rules:
  - {id: small, allow: refund, when: {arg: /amount, le: 50}}
`

// A server of the official SDK under guard: what is allowed runs, what is not is a result that the
// client's model reads, and a tool that is not there leaves a receipt, too.
func ExampleMiddleware() {
	ctx := context.Background()
	k := must(helm.New(helm.Options{Policy: must(guardian.Compile(must(policy.Parse("shop.yaml", []byte(shop))))),
		Key: must(crypto.GenerateKey()), Store: proofgraph.NewMemory()}))
	defer k.Close()
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "refund", InputSchema: json.RawMessage(`{"type":"object"}`)}, refund)
	server.AddReceivingMiddleware(helmmcp.Middleware(k, helmmcp.Options{
		Caller: func(context.Context, sdk.Request) (helm.Caller, error) { return helm.Caller{ID: "bob"}, nil },
	}))

	here, there := sdk.NewInMemoryTransports()
	must(server.Connect(ctx, there, nil))
	client := must(sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, here, nil))
	defer client.Close()
	for _, call := range []sdk.CallToolParams{
		{Name: "refund", Arguments: json.RawMessage(`{"amount":40}`)},
		{Name: "refund", Arguments: json.RawMessage(`{"amount":4000}`)},
		{Name: "drop_all"},
	} {
		r := must(client.CallTool(ctx, &call))
		text := r.Content[0].(*sdk.TextContent).Text
		reason, _, _ := strings.Cut(text, ". ")
		fmt.Println(r.IsError, reason)
	}
	// Output:
	// false paid back
	// true refund was denied: NO_POLICY_DEFINED
	// true drop_all was denied: DENY_TOOL_NOT_FOUND
}

func refund(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "paid back"}}}, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
