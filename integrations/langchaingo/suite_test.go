package langchaingo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/integrations/langchaingo/internal/script"
)

// The agent reads calls as functions. By the way "text" another one reads them out of a text, and
// by the way "direct" there is none.
func TestAdapterSuite(t *testing.T) {
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name: "langchaingo", Kinds: []string{"text"}, Ways: []string{"text agent", "direct"}, Turn: turn,
		Lacks: map[string]string{"08-streams": "a tool of langchaingo returns one text: none streams"},
	})
}

// A scripted tool is one of the suite's.
type scripted struct{ *helmtest.ScriptedTool }

func (s scripted) Name() string        { return s.ScriptedTool.Name }
func (s scripted) Description() string { return s.ScriptedTool.Description }

func (s scripted) Call(ctx context.Context, input string) (string, error) {
	return s.Run(ctx, []byte(input))
}

func listOf(list []*helmtest.ScriptedTool) (all []tools.Tool) {
	for _, t := range list {
		all = append(all, scripted{t})
	}
	return all
}

func turn(ctx context.Context, t helmtest.Turn) (a helmtest.Answer) {
	m := &script.Model{Last: t.Text, Text: t.Way == "text agent"}
	var ids []string
	for _, step := range t.Model {
		var calls []script.Call
		for _, c := range step {
			calls = append(calls, script.Call{Tool: c.Tool, Input: string(c.Args)})
			ids = append(ids, c.ID)
		}
		m.Steps = append(m.Steps, calls)
		if m.Text && len(calls) > 1 {
			return helmtest.Answer{Err: fmt.Errorf("an agent reads one call out of a text: %w", errors.ErrUnsupported)}
		}
	}
	list := listOf(t.Tools)
	if t.Way == "direct" {
		return direct(ctx, t, list)
	}
	inner := agents.NewOpenAIFunctionsAgent(m, list)
	var planner agents.Agent = inner
	if m.Text {
		planner = agents.NewOneShotAgent(m, list)
	}
	agent, err := Agent(t.Kernel, hooked{planner, func(a *schema.AgentAction) {
		if name, ok := t.Alias[a.Tool]; ok {
			a.Tool = name
		}
	}})
	if err != nil {
		return helmtest.Answer{Err: err}
	}
	inner.Tools = append(inner.Tools, listOf(t.Late)...)
	if t.Hook != nil {
		agent = hooked{agent, func(a *schema.AgentAction) { a.ToolInput = string(t.Hook([]byte(a.ToolInput))) }}
	}
	executor := agents.NewExecutor(agent, agents.WithMaxIterations(len(t.Model)+1))
	a.Text, a.Err = chains.Run(ctx, executor, "Go on.")
	for i, told := range m.Told() {
		a.Shown = append(a.Shown, helmtest.Shown{Call: ids[i], Text: told})
	}
	return a
}

// A hooked agent changes what another one plans.
type hooked struct {
	agents.Agent
	change func(*schema.AgentAction)
}

func (h hooked) Plan(
	ctx context.Context, steps []schema.AgentStep, inputs map[string]string, o ...chains.ChainCallOption,
) ([]schema.AgentAction, *schema.AgentFinish, error) {
	actions, finish, err := h.Agent.Plan(ctx, steps, inputs, o...)
	for i := range actions {
		h.change(&actions[i])
	}
	return actions, finish, err
}

// direct calls the guarded tools without an agent, and what is no tool not at all.
func direct(ctx context.Context, t helmtest.Turn, list []tools.Tool) helmtest.Answer {
	a := helmtest.Answer{Text: t.Text}
	for _, step := range t.Model {
		for _, c := range step {
			for _, of := range list {
				if of.Name() != c.Tool {
					continue
				}
				g, err := Tool(t.Kernel, of)
				if err != nil {
					return helmtest.Answer{Err: err}
				}
				told, err := g.Call(ctx, string(c.Args))
				if err != nil {
					return helmtest.Answer{Err: err}
				}
				a.Shown = append(a.Shown, helmtest.Shown{Call: c.ID, Text: told})
			}
		}
	}
	return a
}
