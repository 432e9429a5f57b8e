package openai_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
	"github.com/helmkernel/helm/internal/kerneltest"
)

const deskPolicy = `
helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  look:
    effect: read
    input: {type: object, required: [at], properties: {at: {type: string}, page: {type: integer, default: 1}}}
  refund:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: integer, minimum: 1}}}
  sql:
    effect: write
    input: {type: object, required: [input], properties: {input: {type: string}}}
  now:
    effect: read
    input: {type: object, properties: {}}
rules:
  - {id: drop, deny: sql, when: {arg: /input, finds: drop}}
  - {id: desk, allow: [look, refund, sql, now], when: {caller: roles, has: clerk}}
requires:
  - {id: owner, tools: [refund], when: {arg: /amount, gt: 100}, all: [{approval: {roles: [owner], ttl: 10m}}]}
`

// A desk is a kernel, the tools of a support desk, and what ran.
type desk struct {
	*kerneltest.Bank
	t     *testing.T
	tools *helmopenai.Tools

	mu  sync.Mutex
	ran []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, Bank: kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy, o.Drivers = kerneltest.Compile(t, deskPolicy), nil
	})}
	var err error
	d.tools, err = helmopenai.NewTools(d.function("look", "at"), d.function("refund", "to"), d.function("now", ""),
		helmopenai.Custom(openai.ChatCompletionCustomToolCustomParam{Name: "sql"},
			func(_ context.Context, input string) (string, error) {
				d.note("sql " + input)
				return "rows of " + input, nil
			}))
	require.NoError(t, err)
	return d
}

func (d *desk) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran = append(d.ran, what)
}

// mustRun asserts what ran since the last look.
func (d *desk) mustRun(want ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Equal(d.t, want, d.ran)
	d.ran = nil
}

func (d *desk) function(name, property string) helmopenai.Tool {
	schema := shared.FunctionParameters{"type": "object"}
	if property != "" {
		schema["properties"] = map[string]any{property: map[string]any{"type": "string"}}
	}
	definition := shared.FunctionDefinitionParam{Name: name, Description: openai.String("It does " + name + "."),
		Parameters: schema}
	return helmopenai.Function(definition, helm.Text(func(_ context.Context, args json.RawMessage) (string, error) {
		d.note(name + " " + string(args))
		return name + " did " + string(args), nil
	}))
}

// ctx is the host's context: who asks, and in which conversation.
func (d *desk) ctx() context.Context {
	return helm.With(d.t.Context(), helm.Intent{Session: "chat",
		Caller: helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}})
}

// chat asks the model once, and answers its calls.
func (d *desk) chat(ctx context.Context, steps ...scripted.Step) []string {
	d.t.Helper()
	var texts []string
	for _, m := range d.messages(ctx, steps...) {
		switch {
		case m.OfTool != nil:
			texts = append(texts, m.OfTool.Content.OfString.Value)
		case m.OfFunction != nil:
			texts = append(texts, m.OfFunction.Content.Value)
		}
	}
	return texts
}

func (d *desk) messages(ctx context.Context, steps ...scripted.Step) []openai.ChatCompletionMessageParamUnion {
	d.t.Helper()
	return helmopenai.Run(ctx, d.Kernel, d.tools, ask(d.t, &scripted.Model{Steps: steps}))
}

func ask(t *testing.T, m *scripted.Model) *openai.ChatCompletion {
	t.Helper()
	client := openai.NewClient(m.Options()...)
	answer, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "scripted",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go on.")}})
	require.NoError(t, err)
	return answer
}

// stream asks for the same as a stream, and accumulates it.
func stream(t *testing.T, m *scripted.Model) *openai.ChatCompletion {
	t.Helper()
	client := openai.NewClient(m.Options()...)
	s := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "scripted",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go on.")}})
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		require.True(t, acc.AddChunk(s.Current()))
	}
	require.NoError(t, s.Err())
	return &acc.ChatCompletion
}

func askResponse(t *testing.T, m *scripted.Model) *responses.Response {
	t.Helper()
	client := openai.NewClient(m.Options()...)
	answer, err := client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "scripted",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Go on.")}})
	require.NoError(t, err)
	return answer
}

// outputs returns the texts of the items that answer calls.
func outputs(items []responses.ResponseInputItemUnionParam) (texts []string) {
	for _, item := range items {
		switch {
		case item.OfFunctionCallOutput != nil:
			texts = append(texts, item.OfFunctionCallOutput.Output.OfString.Value)
		case item.OfCustomToolCallOutput != nil:
			texts = append(texts, item.OfCustomToolCallOutput.Output.OfString.Value)
		}
	}
	return texts
}

// mustBeDenied asserts that each text is of a denial for the reason, that nothing ran, and that
// each call has a receipt.
func (d *desk) mustBeDenied(reason contracts.ReasonCode, texts []string, calls int) {
	d.t.Helper()
	require.Len(d.t, texts, calls)
	for _, text := range texts {
		require.Contains(d.t, text, "was denied: "+string(reason)+".")
	}
	d.mustRun()
	require.Equal(d.t, slices.Repeat([]contracts.ReasonCode{reason}, calls), d.receipts())
}

// receipts returns the reasons of the receipts since the last look, in the order of the log.
func (d *desk) receipts() (reasons []contracts.ReasonCode) {
	for _, e := range d.Bank.Events {
		if e.ID != "" {
			reasons = append(reasons, e.Reason)
		}
	}
	d.Bank.Events = nil
	return reasons
}

func step(calls ...scripted.Call) scripted.Step { return scripted.Step{Calls: calls} }

func sent(t *testing.T, x any) string {
	t.Helper()
	b, err := json.Marshal(x)
	require.NoError(t, err)
	return string(b)
}
