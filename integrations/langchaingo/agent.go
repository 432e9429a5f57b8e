package langchaingo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm"
)

// Agent returns an agent all of whose tools are under guard: those that a has when Agent is called.
// Tools that it gets later are as unknown as any that it does not have. An executor of langchaingo
// answers a call of an unknown tool by itself. With Agent it is judged: the model is told of the
// denial, and it has a receipt.
//
// To that end the action of an unknown tool goes to a tool of Agent's own. So a callbacks.Handler,
// and intermediate steps that the executor returns, show it as one of the tool helm:unknown, with
// the name and the input, in quotes, as its input. The agent itself sees its steps as it planned
// them.
//
// It is an error if k or a is nil, if a tool cannot be guarded, or if two have names that differ by
// case alone: the executor runs the last of them, whichever the model asked for. A tool that wraps
// a guarded one is guarded again, and its calls have two receipts. The agent is safe for concurrent
// use if a is.
func Agent(k *helm.Kernel, a agents.Agent) (agents.Agent, error) {
	switch {
	case k == nil:
		return nil, errNoKernel
	case isNil(a):
		return nil, errors.New("helm/langchaingo: there is no agent")
	}
	if _, twice := a.(*agent); twice {
		return nil, errors.New("helm/langchaingo: the agent is guarded already")
	}
	g := &agent{Agent: a, known: map[string]bool{}}
	for _, t := range a.GetTools() {
		if _, ok := t.(*guarded); !ok {
			var err error
			if t, err = Tool(k, t); err != nil {
				return nil, err
			}
		}
		key := strings.ToUpper(t.Name()) // as the executor looks it up
		if g.known[key] || key == strings.ToUpper(unknown) {
			return nil, fmt.Errorf("helm/langchaingo: the agent has two tools named %s, upper and lower case being one",
				t.Name())
		}
		g.known[key] = true
		g.tools = append(g.tools, t)
	}
	g.tools = append(g.tools, router{k})
	return g, nil
}

// unknown is the name of the tool that calls of unknown tools go to.
const unknown = "helm:unknown"

type agent struct {
	agents.Agent
	tools []tools.Tool
	known map[string]bool // by names in upper case
}

// GetTools returns the tools for the executor. The model is shown those of the agent within.
func (a *agent) GetTools() []tools.Tool { return slices.Clone(a.tools) }

// Plan has the agent plan, and reroutes what it plans for tools that it does not have.
func (a *agent) Plan(
	ctx context.Context, steps []schema.AgentStep, inputs map[string]string, o ...chains.ChainCallOption,
) ([]schema.AgentAction, *schema.AgentFinish, error) {
	steps = slices.Clone(steps)
	for i := range steps {
		if steps[i].Action.Tool == unknown {
			steps[i].Action.Tool, steps[i].Action.ToolInput = planned(steps[i].Action.ToolInput)
		}
	}
	actions, finish, err := a.Agent.Plan(ctx, steps, inputs, o...)
	actions = slices.Clone(actions)
	for i, action := range actions {
		if !a.known[strings.ToUpper(action.Tool)] {
			actions[i].Tool = unknown
			actions[i].ToolInput = strconv.Quote(action.Tool) + " " + strconv.Quote(action.ToolInput)
		}
	}
	return actions, finish, err
}

// planned returns the name and the input that an agent planned, from the input of a rerouted
// action.
func planned(input string) (tool, toolInput string) {
	quoted, err := strconv.QuotedPrefix(input)
	if err != nil {
		return unknown, input
	}
	tool, err = strconv.Unquote(quoted)
	if err != nil {
		return unknown, input
	}
	toolInput, err = strconv.Unquote(strings.TrimPrefix(input[len(quoted):], " "))
	if err != nil {
		return unknown, input
	}
	return tool, toolInput
}

// A router has calls of unknown tools judged. No model can call it: by its name it is unknown.
type router struct{ kernel *helm.Kernel }

func (router) Name() string        { return unknown }
func (router) Description() string { return "" }

func (r router) Call(ctx context.Context, input string) (string, error) {
	tool, toolInput := planned(input)
	toolInput = strings.TrimSuffix(toolInput, "\nObservation:") // as the executor does
	return guard(ctx, r.kernel, helm.Intent{Tool: tool, Args: arguments(toolInput)}), nil
}
