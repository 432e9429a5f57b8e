// Package mcpmodel is a client with a model that plays a script.
package mcpmodel

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// Connect connects a client to a server in this process.
func Connect(ctx context.Context, server *mcp.Server) (*mcp.ClientSession, error) {
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		return nil, err
	}
	return mcp.NewClient(&mcp.Implementation{Name: "model", Version: "1"}, nil).Connect(ctx, near, nil)
}

// Play reads the tools and makes the calls of a script.
func Play(ctx context.Context, client *mcp.ClientSession, script *office.Script) error {
	list, err := client.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	if len(list.Tools) != 2 || list.Tools[0].Description == "" {
		return errors.New("the model gets no tools")
	}
	told := ""
	for {
		call, ok, err := script.Next(told)
		if err != nil || !ok {
			return err
		}
		result, err := client.CallTool(ctx, &mcp.CallToolParams{Name: call.Tool, Arguments: json.RawMessage(call.Args)})
		if err != nil {
			return err
		}
		text, ok := result.Content[0].(*mcp.TextContent)
		if !ok {
			return errors.New("the result is no text")
		}
		told = text.Text
	}
}
