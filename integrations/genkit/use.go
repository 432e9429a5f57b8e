package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/firebase/genkit/go/ai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/internal/adapt"
)

// Use returns the middleware that has all tool calls of a Generate judged by k, those of tools that
// plugins and other middleware made too. Tools of [DefineTool] with the same kernel are judged
// once. A call of a tool that was not offered to the model, registered or not, is judged and not
// run, unless k has a driver of its own for it (helm.Options.Drivers); Genkit would run it if it is
// registered, and end Generate if not.
//
// To that end such a call goes to a tool helm:unknown that Use adds. Other middleware, and the
// callback of a stream, see it under this name; the model and the history do not.
//
// A Generate with a nil k, or with Use twice, is an error of Genkit's. The middleware is safe for
// concurrent use.
func Use(k *helm.Kernel) ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		if k == nil {
			return nil, errNoKernel
		}
		u := &use{kernel: k}
		router := ai.NewTool(unknown, "", func(tc *ai.ToolContext, to routed) (*ai.MultipartToolResponse, error) {
			return nil, errors.New("no model is offered this tool")
		})
		return &ai.Hooks{
			Tools: []ai.Tool{router}, WrapGenerate: u.generate, WrapModel: u.model, WrapTool: u.tool,
		}, nil
	})
}

// unknown is the name of the tool that calls of tools go to that were not offered.
const unknown = "helm:unknown"

// A routed call is one of a tool that was not offered.
type routed struct {
	Tool  string `json:"tool"`
	Input any    `json:"input"`
}

// A use is the state of one Generate.
type use struct {
	kernel  *helm.Kernel
	returns atomic.Bool // the host makes the calls

	mu       sync.Mutex
	contents map[string][]*ai.Part // of the calls of this step, by reference; none if two have one
}

func (u *use) generate(ctx context.Context, p *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
	u.returns.Store(p.Options != nil && p.Options.ReturnToolRequests)
	u.mu.Lock()
	u.contents = map[string][]*ai.Part{} // a model may use a reference again
	u.mu.Unlock()
	made, err := next(ctx, p)
	if made == nil {
		return made, err
	}
	made.Message = changed(restored(made.Message, map[string]earlier{}), u.keep)
	if made.Request != nil {
		made.Request = u.request(made.Request)
	}
	return made, err
}

// request returns a request as the model is to see it.
func (u *use) request(of *ai.ModelRequest) *ai.ModelRequest {
	r := *of
	r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t *ai.ToolDefinition) bool {
		return t != nil && t.Name == unknown
	})
	r.Messages = slices.Clone(r.Messages)
	calls := map[string]earlier{}
	for i, m := range r.Messages {
		r.Messages[i] = restored(m, calls)
	}
	return &r
}

func (u *use) model(ctx context.Context, p *ai.ModelParams, next ai.ModelNext) (*ai.ModelResponse, error) {
	request := u.request(p.Request)
	offered := map[string]bool{}
	for _, t := range request.Tools {
		if t != nil {
			offered[t.Name] = true
		}
	}
	made, err := next(ctx, &ai.ModelParams{Request: request, Callback: p.Callback})
	if err != nil || made == nil || u.returns.Load() {
		return made, err
	}
	made.Message = changed(made.Message, func(part *ai.Part) *ai.Part {
		if !part.IsToolRequest() || part.ToolRequest == nil || offered[part.ToolRequest.Name] {
			return nil
		}
		to := *part.ToolRequest
		to.Name, to.Input = unknown, map[string]any{"tool": to.Name, "input": to.Input}
		rerouted := *part
		rerouted.ToolRequest = &to
		return &rerouted
	})
	return made, err
}

// tool puts the guarded tool in a tool's place, for the innermost call: so the arguments are judged
// that all middleware has made.
func (u *use) tool(ctx context.Context, p *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
	guarded := &guardedTool{Tool: p.Tool, routes: p.Tool.Name() == unknown}
	guarded.governed = governed{kernel: u.kernel, name: p.Tool.Name(), run: guarded.inner}
	shown := p.Tool.Definition()
	guarded.multipart, _ = shown.Metadata["multipart"].(bool)
	if _, d, err := adapt.Published(shown.Name, shown.Description, shown.InputSchema); err == nil {
		guarded.definition = d // else none, and no policy that pins one lets it run
	}
	made, err := next(ctx, &ai.ToolParams{Request: p.Request, Tool: guarded})
	var content []*ai.Part
	if err == nil && made != nil {
		content = made.Content
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, another := u.contents[p.Request.Ref]; another {
		content = nil // nobody can tell whose it is
	}
	u.contents[p.Request.Ref] = content
	return made, err
}

// kept is where the history has the content of a tool that ran next to an interrupted call: Genkit
// keeps the output alone.
const kept = "helm:content"

// keep returns the request of such a tool with the content.
func (u *use) keep(part *ai.Part) *ai.Part {
	if _, pending := part.Metadata["pendingOutput"]; !pending || !part.IsToolRequest() || part.ToolRequest == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	content := u.contents[part.ToolRequest.Ref]
	if content == nil {
		return nil
	}
	with := *part
	with.Metadata = maps.Clone(part.Metadata)
	with.Metadata[kept] = content
	return &with
}

// A guardedTool is a tool for one call.
type guardedTool struct {
	ai.Tool
	governed
	routes bool // it is helm:unknown
}

var _ ai.Tool = (*guardedTool)(nil)

func (t *guardedTool) Name() string { return t.Tool.Name() }

// inner runs the tool itself, which may be guarded itself.
func (t *guardedTool) inner(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	ctx = context.WithValue(ctx, permitKey{}, &permit{kernel: t.kernel, tool: t.name, args: args})
	made, err := t.Tool.RunRawMultipart(ctx, args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(made)
}

// RunRawMultipart has the call judged and run.
func (t *guardedTool) RunRawMultipart(ctx context.Context, input any) (*ai.MultipartToolResponse, error) {
	g := &t.governed
	if t.routes {
		to, _ := input.(map[string]any)
		name, _ := to["tool"].(string)
		g, input = &governed{kernel: t.kernel, name: name}, to["input"]
	}
	args, err := json.Marshal(input)
	if err != nil {
		args = json.RawMessage(`"no JSON"`) // which is denied
	}
	shown, err := g.call(ctx, args)
	if err != nil {
		return nil, err
	}
	made := new(ai.MultipartToolResponse)
	return made, json.Unmarshal(shown, made)
}

// RunRaw is RunRawMultipart without content.
func (t *guardedTool) RunRaw(ctx context.Context, input any) (any, error) {
	made, err := t.RunRawMultipart(ctx, input)
	if err != nil {
		return nil, err
	}
	return made.Output, nil
}

// An earlier call is one that a message before has.
type earlier struct {
	name    string     // that the model used, if the call was rerouted
	content []*ai.Part // that Genkit dropped
}

// restored returns a message with the calls that were rerouted, and their results, under the names
// that the model used, and with content that Genkit dropped. Calls has those of the messages
// before, by their references.
func restored(m *ai.Message, calls map[string]earlier) *ai.Message {
	return changed(m, func(part *ai.Part) *ai.Part {
		switch {
		case part.IsToolRequest() && part.ToolRequest != nil:
			call := earlier{content: contentOf(part)}
			to, ok := part.ToolRequest.Input.(map[string]any)
			name, named := to["tool"].(string)
			if part.ToolRequest.Name == unknown && ok && named {
				call.name = name
			}
			calls[part.ToolRequest.Ref] = call
			if call.name == "" {
				return nil
			}
			back, was := *part, *part.ToolRequest
			was.Name, was.Input = name, to["input"]
			back.ToolRequest = &was
			return &back
		case part.IsToolResponse() && part.ToolResponse != nil:
			call := calls[part.ToolResponse.Ref]
			back, was := *part, *part.ToolResponse
			if was.Name == unknown && call.name != "" {
				was.Name = call.name
			}
			if len(was.Content) == 0 {
				was.Content = call.content
			}
			back.ToolResponse = &was
			return &back
		}
		return nil
	})
}

// contentOf returns the content that keep put into a request, or nil.
func contentOf(part *ai.Part) (content []*ai.Part) {
	in, ok := part.Metadata[kept]
	if !ok {
		return nil
	}
	b, err := json.Marshal(in) // it may have been through JSON
	if err != nil || json.Unmarshal(b, &content) != nil {
		return nil
	}
	return content
}

// changed returns a message whose parts are changed, or the message itself if none is.
func changed(m *ai.Message, change func(*ai.Part) *ai.Part) *ai.Message {
	if m == nil {
		return nil
	}
	var all []*ai.Part
	for i, part := range m.Content {
		if part == nil {
			continue
		}
		if p := change(part); p != nil {
			if all == nil {
				all = slices.Clone(m.Content)
			}
			all[i] = p
		}
	}
	if all == nil {
		return m
	}
	return &ai.Message{Role: m.Role, Metadata: maps.Clone(m.Metadata), Content: all}
}
