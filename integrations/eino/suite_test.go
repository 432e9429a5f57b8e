package eino_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/helmtest"
	helmeino "github.com/helmkernel/helm/integrations/eino"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
)

// The further ways to a tool: the agent's stream, an agent of the package adk, a ToolsNode alone, a
// call of the wrapped tool without any of them.
const (
	byStream = "a stream of the agent"
	byADK    = "a ChatModelAgent"
	byNode   = "a ToolsNode alone"
	direct   = "a direct call"
)

func TestAdapterSuite(t *testing.T) {
	s := suite{t}
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "eino v0.9.13",
		Kinds: []string{plain, streaming, enhanced, enhancedStream},
		Ways:  []string{byStream, byADK, byNode, direct},
		Turn:  s.turn, Resume: s.resume,
	})
}

type suite struct{ t *testing.T }

// config returns the configuration of an agent: that of Config, but for aliases, with which it goes
// without a middleware.
func (s suite) config(t helmtest.Turn) (compose.ToolsNodeConfig, error) {
	c := compose.ToolsNodeConfig{ToolAliases: map[string]compose.ToolAliasConfig{}}
	for alias, of := range t.Alias {
		c.ToolAliases[of] = compose.ToolAliasConfig{NameAliases: append(c.ToolAliases[of].NameAliases, alias)}
	}
	for _, x := range t.Tools {
		c.Tools = append(c.Tools, scripted(x))
	}
	if t.Alias == nil {
		var err error
		if c, err = helmeino.Config(t.Kernel, c); err != nil {
			return c, err
		}
	} else {
		for i, x := range c.Tools {
			var err error
			if c.Tools[i], err = helmeino.Tool(t.Kernel, x); err != nil {
				return c, err
			}
		}
		c.UnknownToolsHandler = helmeino.UnknownTool(t.Kernel)
	}
	if t.Hook != nil {
		c.ToolCallMiddlewares = append(c.ToolCallMiddlewares, hooked(t.Hook))
	}
	return c, nil
}

// scripted makes a tool of the framework from one of the suite.
func scripted(x *helmtest.ScriptedTool) tool.BaseTool {
	var input *jsonschema.Schema
	if err := json.Unmarshal(x.Schema, &input); err != nil {
		panic(err)
	}
	i := &info{schema.ToolInfo{Name: x.Name, Desc: x.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(input)}}
	switch x.Kind {
	case plain:
		return struct {
			*info
			runs
		}{i, runs{func(ctx context.Context, args string) (string, error) { return x.Run(ctx, []byte(args)) }}}
	case streaming:
		return struct {
			*info
			streams
		}{i, streams{func(ctx context.Context, args string) (*schema.StreamReader[string], error) {
			return send(ctx, x, args, func(text string) string { return text }), nil
		}}}
	case enhanced:
		return struct {
			*info
			runsParts
		}{i, runsParts{func(ctx context.Context, args string) (*schema.ToolResult, error) {
			text, err := x.Run(ctx, []byte(args))
			if err != nil {
				return nil, err
			}
			return parts(text), nil
		}}}
	}
	return struct {
		*info
		streamsParts
	}{i, streamsParts{func(ctx context.Context, args string) (*schema.StreamReader[*schema.ToolResult], error) {
		return send(ctx, x, args, parts), nil
	}}}
}

func send[T any](
	ctx context.Context, x *helmtest.ScriptedTool, args string, of func(string) T,
) *schema.StreamReader[T] {
	r, w := schema.Pipe[T](0)
	chunks := x.Stream(ctx, []byte(args))
	go func() {
		defer w.Close()
		for text, err := range chunks {
			if w.Send(of(text), err) {
				return
			}
		}
	}()
	return r
}

// hooked is a middleware that changes arguments.
func hooked(hook func([]byte) []byte) compose.ToolMiddleware {
	changed := func(in *compose.ToolInput) *compose.ToolInput {
		in.Arguments = string(hook([]byte(in.Arguments)))
		return in
	}
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
				return next(ctx, changed(in))
			}
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
				return next(ctx, changed(in))
			}
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
				return next(ctx, changed(in))
			}
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
				return next(ctx, changed(in))
			}
		},
	}
}

func steps(t helmtest.Turn) (all [][]schema.ToolCall) {
	for _, step := range t.Model {
		var list []schema.ToolCall
		for _, c := range step {
			list = append(list, script.Call(c.ID, c.Tool, string(c.Args)))
		}
		all = append(all, list)
	}
	return all
}

func (s suite) turn(ctx context.Context, t helmtest.Turn) helmtest.Answer {
	if t.Repeat {
		return helmtest.Answer{Err: fmt.Errorf("a ToolsNode repeats no call: %w", errors.ErrUnsupported)}
	}
	c, err := s.config(t)
	if err != nil {
		return helmtest.Answer{Err: err}
	}
	switch t.Way {
	case byADK:
		return s.adk(ctx, t, c)
	case byNode, direct:
		return s.alone(ctx, t, c)
	}
	var options []compose.Option
	if t.Late != nil {
		all := slices.Clone(c.Tools)
		for _, x := range t.Late {
			all = append(all, scripted(x))
		}
		options = append(options, compose.WithToolsNodeOption(compose.WithToolList(all...)))
	}
	a := newAgent(s.t, c, steps(t)...)
	a.model.Say(t.Text)
	// Several streams of enhanced tools in one step are a data race of Eino's own: see doc.go.
	streamed := t.Way == byStream || len(t.Tools) > 0 && t.Tools[0].Kind == streaming
	return a.answer(ctx, streamed, options...)
}

// A paused turn waits for an answer.
type paused struct {
	agent    *agent
	streamed bool
	ids      map[string]string // of interrupts, by the ID of the call
}

// answer runs the agent on.
func (a *agent) answer(ctx context.Context, streamed bool, options ...compose.Option) helmtest.Answer {
	before := len(a.model.Shown())
	message, err := a.run(ctx, streamed, options...)
	answer := helmtest.Answer{Err: err, Shown: shown(a.model.Shown()[before:])}
	if i, ok := compose.ExtractInterruptInfo(err); ok {
		p := &paused{agent: a, streamed: streamed, ids: map[string]string{}}
		answer.Err, answer.State, answer.Shown = nil, p, append(answer.Shown, kept(i)...)
		for _, point := range i.InterruptContexts {
			q := request(a.t, point.Info)
			answer.Pending = append(answer.Pending, q)
			p.ids[point.Address[len(point.Address)-1].SubID] = point.ID
		}
		return answer
	}
	if message != nil {
		answer.Text = message.Content
	}
	return answer
}

// kept returns the results of other calls of an interrupted turn: the framework keeps them, and
// shows them to the model with the rest.
func kept(i *compose.InterruptInfo) (all []helmtest.Shown) {
	for _, sub := range i.SubGraphs {
		all = append(all, kept(sub)...)
	}
	for _, extra := range i.RerunNodesExtra {
		of, ok := extra.(*compose.ToolsInterruptAndRerunExtra)
		if !ok {
			continue
		}
		for _, call := range of.ToolCalls {
			m := schema.ToolMessage(of.ExecutedTools[call.ID], call.ID, schema.WithToolName(call.Function.Name))
			result, isEnhanced := of.ExecutedEnhancedTools[call.ID]
			if isEnhanced {
				m.UserInputMultiContent, _ = result.ToMessageInputParts()
			}
			if _, isPlain := of.ExecutedTools[call.ID]; isPlain || isEnhanced {
				all = append(all, shown([]*schema.Message{m})...)
			}
		}
	}
	return all
}

func (s suite) resume(ctx context.Context, a helmtest.Answer, r helmtest.Reply) helmtest.Answer {
	p := a.State.(*paused)
	if r.Args != nil && !p.agent.store.replace(p.agent.model.Call(r.Call), string(r.Args)) {
		return helmtest.Answer{Err: errors.ErrUnsupported}
	}
	ctx = compose.ResumeWithData(ctx, p.ids[r.Call], r.Payload)
	return p.agent.answer(ctx, p.streamed)
}

// replace puts other arguments into a checkpoint, as one who may write to its store.
func (c *checkpoints) replace(args, other string) (replaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, b := range c.m {
		for range 4 {
			had, has := []byte(args), []byte(other)
			args, other = quoted(args), quoted(other)
			if bytes.Contains(b, had) {
				replaced = true
				b = bytes.ReplaceAll(b, had, has)
			}
		}
		c.m[key] = b
	}
	return replaced
}

// quoted is a text as JSON has it, without the quotes.
func quoted(text string) string {
	b := crypto.AppendString(nil, text)
	return string(b[1 : len(b)-1])
}

// words are those of Decision.ForModel about a call without a result.
var words = regexp.MustCompile(`^[\w.:@/-]+ (was denied|has no result): [A-Z_]+\. `)

// shown returns what the model was shown. The parts of an enhanced result stand for the result,
// unless they are words of a denial.
func shown(messages []*schema.Message) (all []helmtest.Shown) {
	for _, m := range messages {
		text := m.Content
		if len(m.UserInputMultiContent) == 1 && m.UserInputMultiContent[0].Type == schema.ChatMessagePartTypeText {
			text = m.UserInputMultiContent[0].Text
			if !words.MatchString(text) {
				text = canonical(parts(text))
			}
		}
		all = append(all, helmtest.Shown{Call: m.ToolCallID, Text: text})
	}
	return all
}

func canonical(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth}); err != nil {
		return string(b)
	}
	return string(tree.Root().Append(nil))
}

func (s suite) adk(ctx context.Context, t helmtest.Turn, c compose.ToolsNodeConfig) helmtest.Answer {
	m := script.New(t.Text, steps(t)...)
	a, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Name: "desk", Description: "A desk.", Model: m,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: c}})
	if err != nil {
		return helmtest.Answer{Err: err}
	}
	answer := helmtest.Answer{}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: a}).Query(ctx, "please")
	for {
		e, ok := events.Next()
		if !ok {
			break
		}
		answer.Err = errors.Join(answer.Err, e.Err)
		if e.Output != nil && e.Output.MessageOutput != nil && e.Output.MessageOutput.Message != nil {
			answer.Text = e.Output.MessageOutput.Message.Content
		}
	}
	answer.Shown = shown(m.Shown())
	return answer
}

// alone makes the calls without an agent.
func (s suite) alone(ctx context.Context, t helmtest.Turn, c compose.ToolsNodeConfig) helmtest.Answer {
	n, err := compose.NewToolNode(ctx, &c)
	answer := helmtest.Answer{Text: t.Text, Err: err}
	for _, list := range steps(t) {
		var messages []*schema.Message
		if t.Way == byNode {
			messages, err = n.Invoke(ctx, schema.AssistantMessage("", list))
			answer.Err = errors.Join(answer.Err, err)
		} else {
			for _, call := range list {
				messages = append(messages, s.directly(ctx, t, c, call))
			}
		}
		answer.Shown = append(answer.Shown, shown(messages)...)
	}
	return answer
}

func (s suite) directly(
	ctx context.Context, t helmtest.Turn, c compose.ToolsNodeConfig, call schema.ToolCall,
) *schema.Message {
	at := slices.IndexFunc(t.Tools, func(x *helmtest.ScriptedTool) bool { return x.Name == call.Function.Name })
	m := schema.ToolMessage("", call.ID, schema.WithToolName(call.Function.Name))
	args := call.Function.Arguments
	var err error
	result := &schema.ToolResult{}
	switch x := c.Tools[at].(type) {
	case tool.InvokableTool:
		m.Content, err = x.InvokableRun(ctx, args)
	case tool.StreamableTool:
		var r *schema.StreamReader[string]
		if r, err = x.StreamableRun(ctx, args); err == nil {
			m.Content, err = r.Recv()
		}
	case tool.EnhancedInvokableTool:
		result, err = x.InvokableRun(ctx, &schema.ToolArgument{Text: args})
	case tool.EnhancedStreamableTool:
		var r *schema.StreamReader[*schema.ToolResult]
		if r, err = x.StreamableRun(ctx, &schema.ToolArgument{Text: args}); err == nil {
			result, err = r.Recv()
		}
	}
	if err == nil {
		m.UserInputMultiContent, err = result.ToMessageInputParts()
	}
	if err != nil {
		m.Content = "error: " + err.Error()
	}
	return m
}
