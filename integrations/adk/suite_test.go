package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/loopagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/plugin/retryandreflect"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/integrations/adk"
	"github.com/helmkernel/helm/integrations/adk/internal/script"
)

func TestAdapterSuite(t *testing.T) {
	const decoded = "the client of the model decodes arguments before ADK has them: "
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "adk",
		Kinds: []string{plainKind, streamedKind},
		Ways:  []string{"toolset", "sub-agent"},
		Turn:  turn, Resume: resume,
		Lacks: map[string]string{
			"04-keys":    decoded + "of a duplicate key the last is left",
			"05-numbers": decoded + "what a double does not hold is rounded, and what is no JSON object ends the run",
		},
	})
}

const (
	plainKind    = "plain"
	streamedKind = "streamed"
)

// A desk is the conversation of a turn.
type desk struct {
	turn   helmtest.Turn
	runner *runner.Runner
	model  *script.Model
	asked  map[string]string // by the id of a call that of the request for its confirmation
}

// framework returns a tool of ADK made of one of the suite's.
func framework(s *helmtest.ScriptedTool) (tool.Tool, error) {
	c := functiontool.Config{Name: s.Name, Description: s.Description}
	if s.Kind == streamedKind {
		return functiontool.NewStreaming(c, func(ctx agent.Context, args map[string]any) iter.Seq2[string, error] {
			b, err := json.Marshal(args)
			if err != nil {
				return func(yield func(string, error) bool) { yield("", err) }
			}
			return s.Stream(ctx, b)
		})
	}
	return functiontool.New(c, func(ctx agent.Context, args map[string]any) (string, error) {
		b, err := json.Marshal(args)
		if err != nil {
			return "", err
		}
		return s.Run(ctx, b)
	})
}

func frameworks(list []*helmtest.ScriptedTool) (all []tool.Tool, err error) {
	for _, s := range list {
		t, err := framework(s)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// open makes the agent and its runner.
func open(t helmtest.Turn) (*desk, error) {
	var steps []script.Step
	for _, calls := range t.Model {
		var step script.Step
		for _, c := range calls {
			step = append(step, script.Call{ID: c.ID, Tool: c.Tool, Args: string(c.Args)})
		}
		steps = append(steps, step)
	}
	d := &desk{turn: t, model: script.New(t.Text, steps...), asked: map[string]string{}}
	config := llmagent.Config{Name: "clerk", Model: d.model}
	late := &set{}
	own, err := frameworks(t.Tools)
	if err != nil {
		return nil, err
	}
	if t.Way == "toolset" {
		late.tools = own
		own = nil
	}
	for _, one := range own {
		g, err := adk.Tool(t.Kernel, one)
		if err != nil {
			return nil, err
		}
		config.Tools = append(config.Tools, g)
	}
	toolset, err := adk.Toolset(t.Kernel, late)
	if err != nil {
		return nil, err
	}
	config.Toolsets = []tool.Toolset{toolset}
	d.hooks(&config)
	var root agent.Agent
	if root, err = llmagent.New(config); err != nil {
		return nil, err
	}
	if t.Way == "sub-agent" {
		root, err = loopagent.New(loopagent.Config{MaxIterations: 1,
			AgentConfig: agent.Config{Name: "loop", SubAgents: []agent.Agent{root}}})
		if err != nil {
			return nil, err
		}
	}
	guard, err := adk.Plugin(t.Kernel)
	if err != nil {
		return nil, err
	}
	plugins := []*plugin.Plugin{guard}
	if t.Repeat {
		again, err := retryandreflect.New()
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, again)
	}
	d.runner, err = runner.New(runner.Config{AppName: "desk", Agent: root, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: plugins}})
	if err != nil {
		return nil, err
	}
	added, err := frameworks(t.Late)
	late.tools = append(late.tools, added...)
	return d, err
}

// hooks installs what is called after the adapter.
func (d *desk) hooks(c *llmagent.Config) {
	if hook := d.turn.Hook; hook != nil {
		c.BeforeToolCallbacks = append(c.BeforeToolCallbacks,
			func(_ agent.Context, _ tool.Tool, args map[string]any) (map[string]any, error) {
				b, err := json.Marshal(args)
				if err != nil {
					return nil, err
				}
				clear(args)
				return nil, json.Unmarshal(hook(b), &args)
			})
	}
	if d.turn.Alias != nil {
		c.BeforeModelCallbacks = append(c.BeforeModelCallbacks,
			func(_ agent.Context, r *model.LLMRequest) (*model.LLMResponse, error) {
				for alias, name := range d.turn.Alias {
					r.Tools[alias] = r.Tools[name]
				}
				return nil, nil
			})
	}
}

func turn(ctx context.Context, t helmtest.Turn) helmtest.Answer {
	d, err := open(t)
	if err != nil {
		return helmtest.Answer{Err: err}
	}
	return d.say(ctx, hello())
}

func resume(ctx context.Context, a helmtest.Answer, r helmtest.Reply) helmtest.Answer {
	d, ok := a.State.(*desk)
	if !ok || d.asked[r.Call] == "" {
		return helmtest.Answer{Err: errors.ErrUnsupported}
	}
	if r.Args != nil {
		return helmtest.Answer{Err: fmt.Errorf("%w: ADK resumes the call of the session", errors.ErrUnsupported)}
	}
	var payload any
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		return helmtest.Answer{Err: err}
	}
	return d.say(ctx, confirm(d.asked[r.Call], map[string]any{"confirmed": true, "payload": payload}))
}

// say has the agent run, and reports what is new.
func (d *desk) say(ctx context.Context, msg *genai.Content) helmtest.Answer {
	a := helmtest.Answer{State: d}
	for e, err := range d.runner.Run(ctx, "ann", "chat", msg, agent.RunConfig{}) {
		if err != nil {
			a.Err = err
			return a
		}
		if e.Content == nil {
			continue
		}
		a.Text = ""
		for _, part := range e.Content.Parts {
			if f := part.FunctionResponse; f != nil {
				a.Shown = append(a.Shown, shown(f, d.streams(f.Name)))
			}
			if q, call, ok := request(part.FunctionCall); ok {
				d.asked[call] = part.FunctionCall.ID
				a.Pending = append(a.Pending, q)
			}
			a.Text += part.Text
		}
	}
	return a
}

// streams reports whether a tool is a streaming one.
func (d *desk) streams(name string) bool {
	for _, s := range append(slices.Clone(d.turn.Tools), d.turn.Late...) {
		if s.Name == name || d.turn.Alias[name] == s.Name {
			return s.Kind == streamedKind
		}
	}
	return false
}

// shown returns what the model is shown: an error's text, the text of a stream, or a value.
func shown(f *genai.FunctionResponse, streamed bool) helmtest.Shown {
	s := helmtest.Shown{Call: f.ID}
	if streamed {
		if text, ok := f.Response["result"].(string); ok && len(f.Response) == 1 {
			s.Text = text
			return s
		}
	}
	if text, ok := f.Response["error"].(string); ok && len(f.Response) == 1 {
		s.Text = text
		return s
	}
	b, err := json.Marshal(f.Response)
	if err != nil {
		s.Text = err.Error()
		return s
	}
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: 128}); err != nil {
		s.Text = err.Error()
		return s
	}
	s.Text = string(tree.Root().Append(nil))
	return s
}

// request returns what ADK asks the user for, and the call that it is about.
func request(f *genai.FunctionCall) (q contracts.ApprovalRequest, call string, ok bool) {
	if f == nil || f.Name != toolconfirmation.FunctionCallName {
		return q, "", false
	}
	c, ok := f.Args["toolConfirmation"].(toolconfirmation.ToolConfirmation)
	original, err := toolconfirmation.OriginalCallFrom(f)
	if !ok || err != nil {
		return q, "", false
	}
	b, err := json.Marshal(c.Payload)
	if err != nil {
		return q, "", false
	}
	var p struct{ Helm contracts.ApprovalRequest }
	err = json.Unmarshal(b, &p)
	return p.Helm, original.ID, err == nil
}
