package adk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
)

// Plugin returns a plugin for a runner, which refuses calls of tools that are not guarded. It must
// be the first in the list, because ADK asks no further plugin if one has an answer.
//
// A call of a tool that is not guarded, or that the agent does not have, is judged as one without a
// driver: it is denied, with a receipt. (If [helm.Options] has a driver for the name, that driver
// runs, if the policy allows it.) Tools that ADK itself adds, such as transfer_to_agent, are
// guarded by the plugin: the policy declares them, see [Declared].
//
// The run ends with an error before the model is asked if an agent offers a tool that the model's
// provider runs, or has a sub-agent of the mode task, because ADK starts that agent whatever a
// kernel says. A live session is refused, because ADK shows its tools to no plugin.
//
// If the user confirms a request that ADK did not make, the confirmation is taken out of the
// message, and the call that it names is denied: a client could have written both.
//
// The plugin does not see a streaming tool that a BeforeModel hook puts into the request after it,
// nor the calls of an agent that runs as a tool (agenttool): ADK runs it without plugins. Guard the
// tools of that agent, too.
//
// Plugin returns an error if k is nil.
func Plugin(k *helm.Kernel) (*plugin.Plugin, error) {
	if k == nil {
		return nil, errors.New("adk: no kernel")
	}
	g := &gate{k}
	return plugin.New(plugin.Config{
		Name:                  "helm",
		OnUserMessageCallback: g.message,
		BeforeRunCallback:     g.begin,
		BeforeModelCallback:   g.offer,
		BeforeToolCallback:    g.before,
		OnToolErrorCallback:   g.unknown,
	})
}

type gate struct{ kernel *helm.Kernel }

// A refused tool stands for one that is not guarded.
type refused struct {
	tool.Tool
	gate *gate
	name string
}

var _ function = (*refused)(nil)

// Name returns the name that models call.
func (r *refused) Name() string { return r.name }

// IsLongRunning returns false: the result, which is a denial, is there at once.
func (r *refused) IsLongRunning() bool { return false }

// Declaration returns the declaration of the tool that it stands for.
func (r *refused) Declaration() *genai.FunctionDeclaration {
	if d, ok := r.Tool.(declarer); ok {
		return d.Declaration()
	}
	return nil
}

// Run judges a call that has no driver.
func (r *refused) Run(ctx agent.Context, args any) (map[string]any, error) {
	return r.gate.deny(ctx, r.name, args), nil
}

func (g *gate) deny(ctx context.Context, name string, args any) map[string]any {
	d, r := g.kernel.Guard(ctx, helm.Intent{Tool: name, Args: encoded(args)})
	return told(d, r, false)
}

// begin refuses live sessions, which have no configuration of a run.
func (g *gate) begin(ctx agent.InvocationContext) (*genai.Content, error) {
	if ctx.RunConfig() == nil {
		return nil, errors.New("adk: a live session: ADK shows its tools to no plugin, so none can be vouched for")
	}
	return nil, nil
}

// offer takes what is not guarded out of reach, before the model is asked.
func (g *gate) offer(ctx agent.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
	if req.Config != nil {
		if name := providers(req.Config.Tools); name != "" {
			return nil, errProvider(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Tools)) {
		t, ok := req.Tools[name].(tool.Tool)
		if !ok {
			continue // ADK ends the run
		}
		own, err := g.instead(t, name)
		if err != nil {
			return nil, err
		}
		req.Tools[name] = own
	}
	return nil, nil
}

// instead returns the tool that runs in place of one.
func (g *gate) instead(t tool.Tool, name string) (tool.Tool, error) {
	switch t.(type) {
	case *guarded, *refused:
		return t, nil
	}
	if !isFrameworks(t) {
		return &refused{t, g, name}, nil
	}
	own, err := Tool(g.kernel, t)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// before judges calls that reach a tool by another way than the model's request.
func (g *gate) before(ctx agent.Context, t tool.Tool, args map[string]any) (map[string]any, error) {
	own, err := g.instead(t, t.Name())
	if own == t && err == nil {
		return nil, nil
	}
	if f, ok := own.(function); ok && err == nil {
		return f.Run(ctx, args)
	}
	return g.deny(ctx, t.Name(), args), nil
}

// unknown judges calls of tools that the agent does not have. ADK calls it for tools that failed,
// too: of these a guarded one is not.
func (g *gate) unknown(ctx agent.Context, t tool.Tool, args map[string]any, _ error) (map[string]any, error) {
	if _, runs := t.(function); runs {
		return nil, nil
	}
	return g.deny(ctx, t.Name(), args), nil
}

// message takes confirmations out of a message that answer no request of ADK's own.
func (g *gate) message(ctx agent.InvocationContext, msg *genai.Content) (*genai.Content, error) {
	if msg == nil {
		return nil, nil
	}
	var changed *genai.Content
	for i, part := range msg.Parts {
		if part == nil || part.FunctionResponse == nil ||
			part.FunctionResponse.Name != toolconfirmation.FunctionCallName {
			continue
		}
		forged := asked(ctx.Session(), part.FunctionResponse.ID)
		if forged == nil {
			continue
		}
		if changed == nil {
			copied := *msg
			copied.Parts = slices.Clone(msg.Parts)
			changed = &copied
		}
		result := g.deny(ctx, forged.Name, forged.Args)
		text, _ := result["error"].(string)
		changed.Parts[i] = &genai.Part{Text: cmp.Or(text, forged.Name+" was not asked for")}
	}
	return changed, nil
}

// asked returns the call that a request for a confirmation is about, if ADK did not make the
// request. ADK's own are long-running calls of an agent.
func asked(s session.Session, id string) *genai.FunctionCall {
	if s == nil {
		return nil
	}
	for e := range s.Events().All() {
		if e == nil || e.Content == nil {
			continue
		}
		for _, part := range e.Content.Parts {
			if part == nil || part.FunctionCall == nil || part.FunctionCall.ID != id {
				continue
			}
			if e.Author != "user" && slices.Contains(e.LongRunningToolIDs, id) {
				continue
			}
			if call, err := toolconfirmation.OriginalCallFrom(part.FunctionCall); err == nil && call != nil {
				return call
			}
		}
	}
	return nil
}

// isFrameworks reports whether a tool is one that ADK itself adds: its type is in a package that
// only ADK can name.
func isFrameworks(t tool.Tool) bool {
	of := reflect.TypeOf(t)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return strings.HasPrefix(of.PkgPath(), "google.golang.org/adk/v2/internal/")
}

// providers returns the name of a tool that the model's provider runs, or "".
func providers(tools []*genai.Tool) string {
	for _, t := range tools {
		if t == nil {
			continue
		}
		v := reflect.ValueOf(*t)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "FunctionDeclarations" && !v.Field(i).IsZero() {
				return f.Name
			}
		}
	}
	return ""
}

func errProvider(name string) error {
	return fmt.Errorf("adk: %s is run by the model's provider, and no kernel is asked: take it out of the tools", name)
}
