package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm/contracts"
)

// The methods that are calls of tools by Govern.
const (
	readResource = "resources/read"
	getPrompt    = "prompts/get"
)

// reserved reports whether a tool's name is that of a method that is a call.
func (g *Gateway) reserved(name string) bool {
	if !g.options.Govern {
		return false
	}
	for _, s := range g.options.Servers {
		if name == s.Name+"__"+readResource || name == s.Name+"__"+getPrompt {
			return true
		}
	}
	return false
}

// governed answers what concerns resources and prompts. Subscriptions are not known. Without Govern
// the lists are empty, for a client that asks though nothing is offered, and nothing else is known.
func (c *client) governed(ctx context.Context, r sdk.Request) (result sdk.Result, known bool, err error) {
	switch q := r.(type) {
	case *sdk.ListResourcesRequest:
		result, err = c.list(ctx, q.ProtocolVersion() >= stateless, "resources/list", "resources", "uri", readResource)
	case *sdk.ListResourceTemplatesRequest:
		result, err = c.list(ctx, q.ProtocolVersion() >= stateless,
			"resources/templates/list", "resourceTemplates", "uriTemplate", readResource)
	case *sdk.ListPromptsRequest:
		result, err = c.list(ctx, q.ProtocolVersion() >= stateless, "prompts/list", "prompts", "name", getPrompt)
	case *sdk.ReadResourceRequest:
		if !c.gateway.options.Govern {
			return nil, false, nil
		}
		if q.Params == nil {
			return nil, true, refusal(jsonrpc.CodeInvalidParams, "no resource")
		}
		result, err = c.method(ctx, q.ProtocolVersion() >= stateless, c.publisher(ctx, q.Params.URI), readResource,
			map[string]any{"uri": q.Params.URI})
	case *sdk.GetPromptRequest:
		if !c.gateway.options.Govern {
			return nil, false, nil
		}
		if q.Params == nil {
			return nil, true, refusal(jsonrpc.CodeInvalidParams, "no prompt")
		}
		u, own := c.find(q.Params.Name)
		args := map[string]any{"name": own}
		if q.Params.Arguments != nil {
			args["arguments"] = q.Params.Arguments
		}
		result, err = c.method(ctx, false, u, getPrompt, args)
	default:
		return nil, false, nil
	}
	return result, true, err
}

// An item is an entry of a list, of a server.
type item struct {
	key string
	raw json.RawMessage
	of  *upstream
}

// items returns the entries of the servers whose method the caller may call. What is no strict JSON
// is left out, and so are all that have one key.
func (c *client) items(ctx context.Context, method, member, key, tool string) (list []item) {
	p := c.gateway.options.Kernel.Policy()
	if p == nil || !c.gateway.options.Govern {
		return nil
	}
	callable := map[string]bool{}
	for _, t := range p.Callable(c.caller) {
		callable[t.Name] = t.Definition == contracts.Digest{} // a method has none
	}
	count := map[string]int{}
	for _, u := range c.upstreams {
		if !callable[u.server.Name+"__"+tool] {
			continue
		}
		l, err := u.tools(ctx)
		if err != nil {
			continue
		}
		reading, cancel := context.WithTimeout(ctx, readTime)
		entries, _, err := collect(reading, l.line, method, member)
		cancel()
		if err != nil {
			continue
		}
		for _, entry := range entries {
			raw, members, err := canonical(entry)
			var own string
			if err != nil || json.Unmarshal(members[key], &own) != nil {
				continue
			}
			x := item{own, raw, u}
			if key == "name" && c.gateway.options.Prefix {
				x.key = c.gateway.name(u.server, own)
				if members[key], err = encode(x.key); err != nil {
					continue
				}
				if x.raw, err = encode(members); err != nil {
					continue
				}
			}
			count[x.key]++
			list = append(list, x)
		}
	}
	once := list[:0]
	for _, x := range list {
		if count[x.key] == 1 {
			once = append(once, x)
		}
	}
	return once
}

func (c *client) list(ctx context.Context, since bool, method, member, key, tool string) (sdk.Result, error) {
	all := &toolList{ListToolsResult: &sdk.ListToolsResult{}, member: member, tools: []json.RawMessage{}, since: since}
	for _, x := range c.items(ctx, method, member, key, tool) {
		all.tools = append(all.tools, x.raw)
	}
	return all, nil
}

// publisher returns the server that a resource is read from: the only one, or the only one that
// lists it.
func (c *client) publisher(ctx context.Context, uri string) *upstream {
	if len(c.upstreams) == 1 {
		return c.upstreams[0]
	}
	for _, x := range c.items(ctx, "resources/list", "resources", "uri", readResource) {
		if x.key == uri {
			return x.of
		}
	}
	return nil
}

// method judges a method as the call of a tool, and answers with the result as it was recorded.
func (c *client) method(
	ctx context.Context, since bool, u *upstream, method string, of map[string]any,
) (sdk.Result, error) {
	limits := c.gateway.options.Limits
	if limits != nil && !limits.MayAsk(c.caller) {
		return nil, refusal(jsonrpc.CodeInvalidRequest, "too many calls were denied: try again in a minute")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args, err := encode(of)
	if err != nil {
		return nil, err
	}
	tool := method // of no server, which no policy allows
	if u != nil {
		tool = u.server.Name + "__" + method
	}
	d, r, _ := c.guard(ctx, tool, args, &forward{tell: c.gateway.tell, upstream: u, method: method, cancel: cancel})
	if limits != nil && r.Record.Outcome == contracts.Denied {
		limits.Denied(c.caller)
	}
	if d.Err() != nil || r.Output == nil {
		text, _ := d.ForModel(r)
		return nil, refusal(jsonrpc.CodeInvalidRequest, text)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Output, &members); err != nil {
		return nil, err
	}
	members["resultType"] = json.RawMessage(`"complete"`)
	if since {
		members["ttlMs"], members["cacheScope"] = json.RawMessage("0"), json.RawMessage(`"private"`)
	}
	b, err := encode(members)
	return &written{&sdk.CallToolResult{}, b}, err
}
