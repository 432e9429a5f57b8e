package openai

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// Run judges the calls of the first choice of a completion, runs those that are allowed, and
// returns the messages that answer them, in the order of the calls; none if there was no call. They
// follow the completion's own message. Other choices are alternatives, and nothing of them runs.
//
// Run makes no error of a denial or of a tool that fails: the message says so. A context that has
// ended, a nil kernel and nil tools are denials.
func Run(
	ctx context.Context, k *helm.Kernel, tools *Tools, completion *openai.ChatCompletion,
) []openai.ChatCompletionMessageParamUnion {
	if completion == nil || len(completion.Choices) == 0 {
		return nil
	}
	choice := &completion.Choices[0]
	var calls []call
	if f := choice.Message.FunctionCall; f.Name != "" || f.Arguments != "" {
		calls = append(calls, call{kind: legacyCall, name: f.Name, text: f.Arguments,
			lossy: lossy(f.JSON.Arguments.Raw()) || lossy(f.JSON.Name.Raw())})
	}
	for i := range choice.Message.ToolCalls {
		calls = append(calls, chatCall(&choice.Message.ToolCalls[i]))
	}
	whole := map[string]bool{"stop": true, "tool_calls": true, "function_call": true}[choice.FinishReason]
	texts := tools.run(ctx, k, calls, whole)
	var out []openai.ChatCompletionMessageParamUnion
	for i, c := range calls {
		if c.kind == legacyCall {
			m := &openai.ChatCompletionFunctionMessageParam{Name: c.name, Content: openai.String(texts[i])}
			out = append(out, openai.ChatCompletionMessageParamUnion{OfFunction: m})
			continue
		}
		out = append(out, openai.ToolMessage(texts[i], c.id))
	}
	return out
}

// RunResponse is [Run] for a response: it returns the input items that answer its calls of
// functions and custom tools.
func RunResponse(
	ctx context.Context, k *helm.Kernel, tools *Tools, response *responses.Response,
) []responses.ResponseInputItemUnionParam {
	if response == nil {
		return nil
	}
	var calls []call
	for i := range response.Output {
		if c, ok := itemCall(&response.Output[i]); ok {
			calls = append(calls, c)
		}
	}
	texts := tools.run(ctx, k, calls, response.Status == responses.ResponseStatusCompleted)
	var out []responses.ResponseInputItemUnionParam
	for i, c := range calls {
		if item, ok := c.answer(texts[i]); ok {
			out = append(out, item)
		}
	}
	return out
}

type kind int

const (
	functionCall kind = iota
	customCall
	legacyCall
	noCall // of a type that nobody knows

	localShell // these are denied
	shell
	applyPatch
	computer
	mcpApproval
)

// A call is one that an answer has.
type call struct {
	kind     kind
	id, name string
	text     string // arguments or input, as the model wrote them
	lossy    bool   // and as the client has changed them
	cut      bool   // they may be incomplete
	caller   responses.ResponseOutputItemUnionCaller
}

func chatCall(c *openai.ChatCompletionMessageToolCallUnion) call {
	f, x := &c.Function, &c.Custom
	function, custom := f.Name != "" || f.Arguments != "", x.Name != "" || x.Input != ""
	made := call{kind: noCall, id: c.ID, name: f.Name}
	switch {
	case function && custom:
	case custom && c.Type == "custom":
		made.kind, made.name, made.text = customCall, x.Name, x.Input
		made.lossy = lossy(x.JSON.Input.Raw()) || lossy(x.JSON.Name.Raw())
	case custom:
		made.name = x.Name
	case c.Type == "function" || c.Type == "":
		made.kind, made.text = functionCall, f.Arguments
		made.lossy = lossy(f.JSON.Arguments.Raw()) || lossy(f.JSON.Name.Raw())
	}
	return made
}

// lossy reports whether a value is no string of strict JSON: half a surrogate pair, or bytes that
// are no UTF-8, for which the client has put another character. A value that did not come as JSON
// is none.
func lossy(raw string) bool {
	if raw == "" || raw == "null" {
		return false
	}
	var tree crypto.Tree
	err := tree.Parse([]byte(raw), crypto.Limits{Bytes: len(raw), Depth: 1})
	return err != nil || tree.Root().Kind() != crypto.String
}

// run judges calls and runs them, and returns what the model is told of each.
func (s *Tools) run(ctx context.Context, k *helm.Kernel, calls []call, whole bool) []string {
	texts, decisions := make([]string, len(calls)), make([]helm.Decision, len(calls))
	guard := func(i int) {
		d, r := k.Guard(ctx, s.intent(&calls[i], whole))
		texts[i], _ = d.ForModel(r)
		decisions[i] = d
	}
	if s == nil || s.atOnce <= 1 {
		for i := range calls {
			guard(i)
		}
	} else {
		var running sync.WaitGroup
		free := make(chan struct{}, s.atOnce)
		for i := range calls {
			free <- struct{}{}
			running.Go(func() {
				defer func() { <-free }()
				guard(i)
			})
		}
		running.Wait()
	}
	for _, d := range decisions {
		if s != nil && s.ask != nil && d.Pending != nil {
			s.tell(d)
		}
	}
	return texts
}

// tell hands a decision to the host.
func (s *Tools) tell(d helm.Decision) {
	defer contain.Drop()
	s.ask(d)
}

// intent returns what is judged of a call. One without arguments is denied.
func (s *Tools) intent(c *call, whole bool) helm.Intent {
	in := helm.Intent{Tool: c.name}
	if c.kind >= noCall || c.lossy || c.cut || !whole {
		return in
	}
	switch {
	case c.kind == customCall:
		b, err := encode(map[string]string{"input": c.text})
		if err != nil {
			return in
		}
		in.Args = b
	case c.text == "":
		in.Args = json.RawMessage("{}")
	default:
		in.Args = json.RawMessage(c.text)
	}
	if s == nil {
		return in
	}
	if i, ok := s.byName[c.name]; ok {
		if t := &s.tools[i]; t.custom == (c.kind == customCall) {
			in.Driver = t.driver
		}
	}
	return in
}
