package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// List returns the tools of a server, {"tools": […]}: each entry as the server says it, in
// canonical form, of which its digest is. Those that are there twice, or are no strict JSON, are
// left out. The server is started for it, or connected to, and left again.
func List(ctx context.Context, s Server) (json.RawMessage, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	u := newUpstream(s, func(*upstream, *listing, *listing) {})
	defer u.close()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	l, err := u.connect(ctx)
	var list *listing
	if err == nil {
		list, err = read(ctx, l)
	}
	if said := (*jsonrpc.Error)(nil); errors.As(err, &said) {
		err = fmt.Errorf("it answered with error %d", said.Code)
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: the tools of server %s: %w", s.Name, err)
	}
	tools := []json.RawMessage{}
	for _, name := range list.order {
		if t, ok := list.tools[name]; ok {
			tools = append(tools, t.entry)
		}
	}
	return encode(map[string]any{"tools": tools})
}
