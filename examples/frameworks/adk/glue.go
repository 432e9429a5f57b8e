package main

import (
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolutils"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
	"github.com/helmkernel/helm/guardian"
)

// A guard makes calls for the users of the agent. who returns the caller that a user is.
type guard struct {
	office *office.Office
	who    func(user string) helm.Caller
}

// call judges the arguments as ADK decoded them: a duplicate key is gone by then.
func (g guard) call(ctx agent.Context, name string, args any) (map[string]any, error) {
	raw, err := office.Args(args)
	if err != nil {
		return nil, err
	}
	d, r := g.office.Guard(ctx, helm.Intent{Tool: name, Args: raw, Caller: g.who(ctx.UserID()),
		Session: office.Session(ctx.AppName(), ctx.UserID(), ctx.SessionID())})
	text, failed := d.ForModel(r)
	if failed {
		return map[string]any{"error": text}, nil
	}
	return map[string]any{"output": text}, nil
}

// unknown is for tools that the agent does not have, and leaves all other errors to ADK.
func (g guard) unknown(ctx agent.Context, t tool.Tool, args map[string]any, _ error) (map[string]any, error) {
	if _, ok := t.(guarded); ok {
		return nil, nil
	}
	return g.call(ctx, t.Name(), args)
}

// A guarded tool is one of the policy.
type guarded struct {
	guard
	guardian.Tool
}

func (g guarded) Name() string        { return g.Tool.Name }
func (g guarded) Description() string { return office.Description(g.Tool) }
func (g guarded) IsLongRunning() bool { return false }

func (g guarded) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: g.Name(), Description: g.Description(), ParametersJsonSchema: g.Input}
}

func (g guarded) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	return toolutils.PackTool(req, g)
}

func (g guarded) Run(ctx agent.Context, args any) (map[string]any, error) {
	return g.call(ctx, g.Name(), args)
}

// config returns the agent's tools.
func (g guard) config(c llmagent.Config) llmagent.Config {
	for _, t := range g.office.Tools() {
		c.Tools = append(c.Tools, guarded{g, t})
	}
	c.OnToolErrorCallbacks = append(c.OnToolErrorCallbacks, g.unknown)
	return c
}
