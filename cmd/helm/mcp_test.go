package main

import (
	"context"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// notesServer is a small MCP server: notes in a file. Its argument is what it says of a tool.
func notesServer() {
	about := "Add a line to the notes"
	if len(os.Args) > 1 {
		about = os.Args[1]
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	type line struct {
		Text string `json:"text"`
	}
	answer := func(text string, err error) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, err
	}
	sdk.AddTool(s, &sdk.Tool{Name: "add_note", Description: about},
		func(_ context.Context, _ *sdk.CallToolRequest, l line) (*sdk.CallToolResult, any, error) {
			f, err := os.OpenFile("notes.txt", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			_, err = f.WriteString(l.Text + "\n")
			return answer("added", err)
		})
	sdk.AddTool(s, &sdk.Tool{Name: "delete_notes", Description: "Delete all notes"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return answer("deleted", os.Remove("notes.txt"))
		})
	sdk.AddTool(s, &sdk.Tool{Name: "read_notes", Description: "Read all notes"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			b, err := os.ReadFile("notes.txt")
			return answer(strings.TrimSpace(string(b)), err)
		})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}
