package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/integrations/genkit/internal/script"
)

// By the way "plugin" Genkit made the tools, and Use alone guards them; by "direct" there is no
// model; "alone" is without Use.
func TestAdapterSuite(t *testing.T) {
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name: "genkit", Kinds: []string{"plain", "multipart"}, Ways: []string{"plugin", "direct", "alone"},
		Turn: turn, Resume: resume, Lacks: map[string]string{
			"04-keys":    "Genkit decodes arguments before any hook: of a repeated name the last is judged",
			"05-numbers": "Genkit decodes arguments before any hook: the nearest double is judged",
			"07-alias":   "a tool of Genkit has one name, and no other is looked up",
			"08-streams": "a tool of Genkit returns once: none streams",
		},
	})
}

// A play is a turn, to be resumed.
type play struct {
	turn   helmtest.Turn
	g      *genkit.Genkit
	m      *script.Model
	tools  map[string]ai.Tool
	said   *ai.ModelResponse
	before int // results that the model was told before
}

func turn(ctx context.Context, t helmtest.Turn) helmtest.Answer {
	if t.Alias != nil {
		return helmtest.Answer{Err: fmt.Errorf("a tool has one name: %w", errors.ErrUnsupported)}
	}
	p := &play{turn: t, g: genkit.Init(ctx), m: &script.Model{Last: t.Text}, tools: map[string]ai.Tool{}}
	for _, step := range t.Model {
		var calls []script.Call
		for _, c := range step {
			calls = append(calls, script.Call{Ref: c.ID, Tool: c.Tool, Args: string(c.Args)})
		}
		p.m.Steps = append(p.m.Steps, calls)
	}
	p.m.Define(p.g)
	for _, s := range t.Tools {
		if err := p.define(s, t.Way == "plugin"); err != nil {
			return helmtest.Answer{Err: err}
		}
	}
	for _, s := range t.Late {
		genkitTool(p.g, s) // registered, and not offered
	}
	if t.Way == "direct" {
		return p.direct(ctx)
	}
	return p.generate(ctx, ai.WithPrompt("Go on."))
}

func (p *play) define(s *helmtest.ScriptedTool, plugin bool) (err error) {
	var schema map[string]any
	if err := json.Unmarshal(s.Schema, &schema); err != nil {
		return err
	}
	switch in := ai.WithInputSchema(schema); {
	case plugin:
		p.tools[s.Name] = genkitTool(p.g, s)
	case s.Kind == "multipart":
		p.tools[s.Name], err = DefineMultipartTool(p.turn.Kernel, p.g, s.Name, s.Description, multipart(s), in)
	default:
		p.tools[s.Name], err = DefineTool(p.turn.Kernel, p.g, s.Name, s.Description, plain(s), in)
	}
	return err
}

// genkitTool makes a tool of Genkit's own.
func genkitTool(g *genkit.Genkit, s *helmtest.ScriptedTool) ai.Tool {
	if s.Kind == "multipart" {
		return genkit.DefineMultipartTool(g, s.Name, s.Description, multipart(s))
	}
	return genkit.DefineTool(g, s.Name, s.Description, plain(s))
}

func plain(s *helmtest.ScriptedTool) ai.ToolFunc[any, string] {
	return func(tc *ai.ToolContext, in any) (string, error) {
		args, err := json.Marshal(in)
		if err != nil {
			return "", err
		}
		return s.Run(tc, args)
	}
}

func multipart(s *helmtest.ScriptedTool) ai.MultipartToolFunc[any] {
	run := plain(s)
	return func(tc *ai.ToolContext, in any) (*ai.MultipartToolResponse, error) {
		text, err := run(tc, in)
		if err != nil {
			return nil, err
		}
		return &ai.MultipartToolResponse{Output: text, Content: []*ai.Part{ai.NewTextPart("a part")}}, nil
	}
}

// generate runs Genkit's loop.
func (p *play) generate(ctx context.Context, o ...ai.GenerateOption) (a helmtest.Answer) {
	var tools []ai.ToolRef
	for _, t := range p.tools {
		tools = append(tools, t)
	}
	use := []ai.Middleware{}
	if p.turn.Way != "alone" {
		use = append(use, Use(p.turn.Kernel))
	}
	if p.turn.Hook != nil {
		use = append(use, later(p.turn.Hook))
	}
	o = append(o, ai.WithModelName("script"), ai.WithTools(tools...), ai.WithUse(use...), ai.WithMaxTurns(1000))
	p.said, a.Err = genkit.Generate(ctx, p.g, o...)
	if a.Err != nil {
		return a
	}
	a.State = p
	for _, part := range p.said.Interrupts() {
		q, err := Pending(part)
		if err != nil {
			return helmtest.Answer{Err: err}
		}
		a.Pending = append(a.Pending, q)
	}
	if a.Pending == nil {
		a.Text = p.said.Text()
	}
	told := p.m.Told()
	for _, t := range told[p.before:] {
		a.Shown = append(a.Shown, helmtest.Shown{Call: t.Ref, Text: shown(t)})
	}
	if p.said.FinishReason == "interrupted" {
		for _, part := range p.said.Message.Content { // Genkit keeps the results of the others
			if out, ok := part.Metadata["pendingOutput"]; ok {
				text := shown(script.Told{Output: out, Content: contentOf(part)})
				a.Shown = append(a.Shown, helmtest.Shown{Call: part.ToolRequest.Ref, Text: text})
			}
		}
	}
	return a
}

// later is middleware that changes arguments.
func later(hook func([]byte) []byte) ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, p *ai.ToolParams, next ai.ToolNext) (
			*ai.MultipartToolResponse, error) {
			args, err := json.Marshal(p.Request.Input)
			if err != nil {
				return nil, err
			}
			r := *p.Request
			r.Input = json.RawMessage(hook(args))
			return next(ctx, &ai.ToolParams{Request: &r, Tool: p.Tool})
		}}, nil
	})
}

// shown is the text of a text, and the canonical form of any other result.
func shown(t script.Told) string {
	text, ok := t.Output.(string)
	if ok && t.Content == nil {
		return text
	}
	var v any = t.Output
	if t.Content != nil {
		v = ai.MultipartToolResponse{Output: t.Output, Content: t.Content}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var tree crypto.Tree
	if tree.Parse(b, crypto.Limits{Bytes: 1 << 24, Depth: 100}) != nil {
		return "no strict JSON"
	}
	return string(tree.Root().Append(nil))
}

func resume(ctx context.Context, a helmtest.Answer, r helmtest.Reply) helmtest.Answer {
	p := a.State.(*play)
	o := &ai.RestartOptions{ResumedMetadata: true}
	var payload map[string]any
	if json.Unmarshal(r.Payload, &payload) == nil {
		o.ResumedMetadata = payload
	}
	if r.Args != nil {
		var args any
		if err := json.Unmarshal(r.Args, &args); err != nil {
			return helmtest.Answer{Err: err}
		}
		o.ReplaceInput = args
	}
	for _, part := range p.said.Interrupts() {
		if part.ToolRequest.Ref != r.Call {
			continue
		}
		again := p.tools[part.ToolRequest.Name].Restart(part, o)
		p.before = len(p.m.Told())
		next := &play{turn: p.turn, g: p.g, m: p.m, tools: p.tools, before: p.before}
		history := p.said.History()
		for _, m := range history {
			if strings.TrimSpace(string(m.Role)) == "" {
				return helmtest.Answer{Err: errors.New("a message has no role")}
			}
		}
		return next.generate(ctx, ai.WithMessages(history...), ai.WithToolRestarts(again))
	}
	return helmtest.Answer{Err: fmt.Errorf("no such interrupt: %w", errors.ErrUnsupported)}
}

// direct calls the tools without a model.
func (p *play) direct(ctx context.Context) helmtest.Answer {
	a := helmtest.Answer{Text: p.turn.Text}
	for _, step := range p.turn.Model {
		for _, c := range step {
			t := p.tools[c.Tool]
			if t == nil {
				continue
			}
			made, err := t.RunRawMultipart(ctx, json.RawMessage(c.Args))
			if err != nil {
				return helmtest.Answer{Err: err}
			}
			a.Shown = append(a.Shown, helmtest.Shown{Call: c.ID,
				Text: shown(script.Told{Output: made.Output, Content: made.Content})})
		}
	}
	return a
}
