package anthropic_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
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
  now:
    effect: read
    input: {type: object, properties: {text: {type: string}}}
  picture:
    effect: read
    input: {type: object, properties: {}}
rules:
  - {id: desk, allow: [look, refund, now, picture], when: {caller: roles, has: clerk}}
requires:
  - {id: owner, tools: [refund], when: {arg: /amount, gt: 100}, all: [{approval: {roles: [owner], ttl: 10m}}]}
`

type (
	blocks = anthropic.BetaToolResultBlockParamContentUnion
	params = anthropic.BetaToolRunnerParams
)

// A desk is a kernel, the tools of a support desk, and what ran.
type desk struct {
	*kerneltest.Bank
	t     *testing.T
	tools []anthropic.BetaTool

	mu  sync.Mutex
	ran []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, Bank: kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy, o.Drivers = kerneltest.Compile(t, deskPolicy), nil
	})}
	for _, name := range []string{"look", "refund", "now"} {
		d.tools = append(d.tools, d.tool(name))
	}
	return d
}

// tool returns a tool of the SDK, without guard, that says what it did.
func (d *desk) tool(name string) anthropic.BetaTool {
	t, err := toolrunner.NewBetaToolFromBytes(name, "It does "+name+".", []byte(`{"type":"object"}`),
		func(_ context.Context, args json.RawMessage) (blocks, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.ran = append(d.ran, name+" "+string(args))
			return blocks{OfText: &anthropic.BetaTextBlockParam{Text: name + " did " + string(args)}}, nil
		})
	require.NoError(d.t, err)
	return t
}

// mustRun asserts what ran since the last look, in any order.
func (d *desk) mustRun(want ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.ElementsMatch(d.t, want, d.ran)
	d.ran = nil
}

// ctx is the host's context: who asks, and in which conversation.
func (d *desk) ctx() context.Context {
	return helm.With(d.t.Context(), helm.Intent{Session: "chat",
		Caller: helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}})
}

func asking() params {
	return params{BetaMessageNewParams: anthropic.BetaMessageNewParams{Model: "scripted", MaxTokens: 99,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Go on."))}}}
}

// plain runs a conversation under the runner, and returns what the model was told.
func (d *desk) plain(ctx context.Context, m *scripted.Model) []scripted.Told {
	d.t.Helper()
	client := anthropic.NewClient(m.Options()...)
	r, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, d.tools, asking())
	require.NoError(d.t, err)
	_, err = r.RunToCompletion(ctx)
	require.NoError(d.t, err)
	return m.Told()
}

// streamed is plain with the streaming runner.
func (d *desk) streamed(ctx context.Context, m *scripted.Model) []scripted.Told {
	d.t.Helper()
	client := anthropic.NewClient(m.Options()...)
	r, err := helmanthropic.NewToolRunnerStreaming(d.Kernel, &client.Beta.Messages, d.tools, asking())
	require.NoError(d.t, err)
	for events := range r.AllStreaming(ctx) {
		for _, err := range events {
			require.NoError(d.t, err)
		}
	}
	return m.Told()
}

// bare runs a conversation under the SDK's own runner, with tools as they are.
func (d *desk) bare(m *scripted.Model, tools ...anthropic.BetaTool) []scripted.Told {
	d.t.Helper()
	client := anthropic.NewClient(m.Options()...)
	_, err := client.Beta.Messages.NewToolRunner(tools, asking()).RunToCompletion(d.ctx())
	require.NoError(d.t, err)
	return m.Told()
}

func (d *desk) bareStreamed(m *scripted.Model, tools ...anthropic.BetaTool) []scripted.Told {
	d.t.Helper()
	client := anthropic.NewClient(m.Options()...)
	for events := range client.Beta.Messages.NewToolRunnerStreaming(tools, asking()).AllStreaming(d.ctx()) {
		for _, err := range events {
			require.NoError(d.t, err)
		}
	}
	return m.Told()
}

func step(calls ...scripted.Call) *scripted.Model {
	return &scripted.Model{Steps: []scripted.Step{{Calls: calls}}, Text: "Done."}
}

// mustBeDenied asserts that each call was answered with a denial for the reason, that nothing ran,
// and that each has a receipt.
func (d *desk) mustBeDenied(reason contracts.ReasonCode, told []scripted.Told, calls int) {
	d.t.Helper()
	require.Len(d.t, told, calls)
	for _, x := range told {
		require.True(d.t, x.Error)
		require.Contains(d.t, x.Text, "was denied: "+string(reason)+".")
	}
	d.mustRun()
	require.Equal(d.t, slices.Repeat([]contracts.ReasonCode{reason}, calls), d.receipts())
}

// receipts returns the reasons of the receipts since the last look, sorted: calls run side by side.
func (d *desk) receipts() (reasons []contracts.ReasonCode) {
	for _, e := range d.Events {
		if e.ID != "" {
			reasons = append(reasons, e.Reason)
		}
	}
	d.Events = nil
	slices.Sort(reasons)
	return reasons
}
