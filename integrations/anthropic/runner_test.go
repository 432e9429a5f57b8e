package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/policy"
)

func day() *scripted.Model {
	return step(
		scripted.Call{ID: "a", Tool: "look", Args: `{ "at" : "4711" }`},
		scripted.Call{ID: "b", Tool: "ghost", Args: `{}`},
		scripted.Call{ID: "c", Tool: "look", Args: `{"at":"1","at":"2"}`},
		scripted.Call{ID: "d", Tool: "refund", Args: `{"to":"ann","amount":9007199254740993}`},
		scripted.Call{ID: "e", Tool: "now", Args: ``},
		scripted.Call{ID: "f", Tool: "look", Args: `{"at":"1"}`, Toolset: "browser"})
}

// TestRunner: each call of a message is judged with what the model wrote, and answered.
func TestRunner(t *testing.T) {
	t.Parallel()
	for name, converse := range map[string]func(*desk, context.Context, *scripted.Model) []scripted.Told{
		"plain": (*desk).plain, "streamed": (*desk).streamed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			m := day()
			told := converse(d, d.ctx(), m)
			require.Len(t, told, 6)
			d.mustRun(`look {"at":"4711","page":1}`, `now {}`)
			assert.Equal(t, []contracts.ReasonCode{"ALLOW", "ALLOW", "DENY_TOOL_NOT_FOUND", "DENY_TOOL_NOT_FOUND",
				"ERR_TOOL_ARGS_CANONICALIZATION_FAILED", "ERR_TOOL_ARGS_CANONICALIZATION_FAILED"}, d.receipts())
			assert.Equal(t, scripted.Told{Call: "a", Text: `look did {"at":"4711","page":1}`}, told[0])
			assert.True(t, strings.HasPrefix(told[1].Text, "Error: ghost was denied: DENY_TOOL_NOT_FOUND."))
			assert.True(t, strings.HasPrefix(told[5].Text, "Error: browser.look was denied: DENY_TOOL_NOT_FOUND."))
			for i, x := range told {
				assert.Equal(t, i != 0 && i != 4, x.Error)
			}
			// the model is offered its tools, and finds the history as it wrote it
			asked := string(m.Asked()[1])
			assert.NotContains(t, asked, "helm-")
			for _, part := range []string{`{"at":"1","at":"2"}`, `9007199254740993`, `"name":"ghost"`} {
				assert.Contains(t, asked, part)
			}
			d.MustPass()
		})
	}
}

// TestMessageUntouched: what the host is shown of a message is the SDK's, before and after its
// calls are made.
func TestMessageUntouched(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := anthropic.NewClient(day().Options()...)
	r, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, d.tools, asking())
	require.NoError(t, err)
	var kept []*anthropic.BetaMessage
	for m, err := range r.All(d.ctx()) {
		require.NoError(t, err)
		kept = append(kept, m)
	}
	require.Len(t, kept, 2)
	assert.Equal(t, "ghost", kept[0].Content[1].Name)
	assert.Equal(t, `{"at":"1","at":"2"}`, string(kept[0].Content[2].Input))
	assert.Len(t, r.Params.Tools, len(d.tools))
}

// TestStops: a message that did not stop for its calls runs none.
func TestStops(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, stop := range []string{"max_tokens", "refusal", "end_turn", "pause_turn", "model_context_window_exceeded"} {
		for _, converse := range []func(*desk, context.Context, *scripted.Model) []scripted.Told{
			(*desk).plain, (*desk).streamed,
		} {
			m := step(scripted.Call{ID: "a", Tool: "now"})
			m.Steps[0].Stop = stop
			assert.Empty(t, converse(d, d.ctx(), m))
		}
	}
	d.mustRun()
	assert.Empty(t, d.receipts())
}

// TestApproval: the model is told whom its call waits for, and the next turn presents the answer.
func TestApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var asked []helm.Decision
	ctx := helmanthropic.Ask(d.ctx(), func(made helm.Decision) {
		asked = append(asked, made)
		panic("the host's own")
	})
	rent := scripted.Call{ID: "a", Tool: "refund", Args: `{"to":"ann","amount":900}`}
	told := d.plain(ctx, step(rent))
	require.Len(t, asked, 1)
	pending := asked[0].Pending
	require.NoError(t, pending.About(asked[0].Args))
	assert.Contains(t, told[0].Text, "An approver must answer request "+pending.Nonce+"; make the same call again")
	approved := helm.With(d.ctx(), helm.Intent{Tool: "refund",
		Approvals: []helm.Envelope{d.Approve(*pending, kerneltest.Ann)}})
	told = d.streamed(approved, step(scripted.Call{ID: "b", Tool: "refund", Args: `{"to":"eve","amount":900}`},
		scripted.Call{ID: "c", Tool: "look", Args: `{"at":"1"}`}, rent))
	require.Len(t, told, 3)
	d.mustRun(`look {"at":"1","page":1}`, `refund {"amount":900,"to":"ann"}`)
	assert.Equal(t, []bool{true, false, false}, []bool{told[0].Error, told[1].Error, told[2].Error})
	d.plain(approved, step(rent))
	d.mustRun()
	d.MustPass()
}

// A toy is a tool that the SDK's constructors do not make.
type toy struct {
	name   string
	schema any
	run    func(ctx context.Context, input json.RawMessage) ([]blocks, error)
	closed bool
}

func (t *toy) Name() string        { return t.name }
func (t *toy) Description() string { return "A toy." }
func (t *toy) InputSchema() anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{Properties: t.schema}
}
func (t *toy) Execute(ctx context.Context, input json.RawMessage) ([]blocks, error) {
	return t.run(ctx, input)
}
func (t *toy) Close() error {
	t.closed = true
	return nil
}

// TestResults: whatever a tool returns, the model is shown what was released.
func TestResults(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	picture := blocks{OfImage: &anthropic.BetaImageBlockParam{Source: anthropic.BetaImageBlockParamSourceUnion{
		OfURL: &anthropic.BetaURLImageSourceParam{URL: "https://example.org/?a=1"}}}}
	marked := blocks{OfText: &anthropic.BetaTextBlockParam{Text: "<a>",
		CacheControl: anthropic.NewBetaCacheControlEphemeralParam()}}
	made := &toy{name: "picture"}
	d.tools = []anthropic.BetaTool{made}
	for want, content := range map[string][]blocks{
		"": nil,
		`{"source":{"type":"url","url":"https://example.org/?a=1"},"type":"image"}<a>`: {picture, marked},
		" 1.0 ": {{OfText: &anthropic.BetaTextBlockParam{Text: " 1.0 "}}},
		"<a>":   {marked},
	} {
		made.run = func(context.Context, json.RawMessage) ([]blocks, error) { return content, nil }
		m := step(scripted.Call{ID: "a", Tool: "picture"})
		told := d.plain(d.ctx(), m)
		assert.Equal(t, []scripted.Told{{Call: "a", Text: want}}, told)
		if len(content) > 0 && content[len(content)-1].OfText == marked.OfText {
			assert.Contains(t, string(m.Asked()[1]), `"cache_control":{"type":"ephemeral"}`)
		}
	}
	made.run = func(context.Context, json.RawMessage) ([]blocks, error) { return nil, errors.New("the line broke") }
	assert.Equal(t, []scripted.Told{{Call: "a", Text: "Error: the line broke", Error: true}},
		d.plain(d.ctx(), step(scripted.Call{ID: "a", Tool: "picture"})))
	odd := param.Override[blocks](json.RawMessage(`{"broken`))
	made.run = func(context.Context, json.RawMessage) ([]blocks, error) { return []blocks{odd, odd}, nil }
	told := d.plain(d.ctx(), step(scripted.Call{ID: "a", Tool: "picture"}))
	assert.True(t, told[0].Error)
	assert.NotContains(t, told[0].Text, "broken")
	d.MustPass()
}

func TestTool(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	inner := &toy{name: "now", run: func(context.Context, json.RawMessage) ([]blocks, error) { return nil, nil }}
	made, err := helmanthropic.Tool(d.Kernel, inner)
	require.NoError(t, err)
	closer, ok := made.(io.Closer)
	require.True(t, ok)
	require.NoError(t, closer.Close())
	assert.True(t, inner.closed)
	inner.name = "other"
	assert.Equal(t, "now", made.Name())
	var none *toy
	refused := func(want string, k *helm.Kernel, tool anthropic.BetaTool) {
		got, err := helmanthropic.Tool(k, tool)
		assert.ErrorContains(t, err, "anthropic: "+want)
		assert.Nil(t, got)
	}
	refused("there is no kernel", nil, inner)
	refused("there is no tool", d.Kernel, nil)
	refused("there is no tool", d.Kernel, none)
	refused("the tool is under guard already", d.Kernel, made)
	refused(`"" is no name of a tool`, d.Kernel, &toy{})
	refused(`"a b" is no name of a tool`, d.Kernel, &toy{name: "a b"})
	refused("a: adapt: the definition", d.Kernel, &toy{name: "a", schema: make(chan int)})
	refused("the tool panicked", d.Kernel, panicking{})
	client := anthropic.NewClient((&scripted.Model{}).Options()...)
	for want, tools := range map[string][]anthropic.BetaTool{
		"there is no tool": {nil}, "now: two tools have this name": {made, made},
		"now: it is under guard of another kernel": {must(helmanthropic.Tool(newDesk(t).Kernel, d.tool("now")))},
	} {
		_, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, tools, asking())
		assert.ErrorContains(t, err, "anthropic: "+want)
		_, err = helmanthropic.NewToolRunnerStreaming(d.Kernel, &client.Beta.Messages, tools, asking())
		assert.ErrorContains(t, err, "anthropic: "+want)
	}
	_, err = helmanthropic.NewToolRunner(nil, &client.Beta.Messages, nil, asking())
	assert.ErrorContains(t, err, "anthropic: there is no kernel")
}

type panicking struct{ anthropic.BetaTool }

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestDefinition: the digests that policy.New pins are those that the drivers declare.
func TestDefinition(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var guarded []anthropic.BetaTool
	for _, tool := range d.tools {
		guarded = append(guarded, must(helmanthropic.Tool(d.Kernel, tool)))
	}
	draft, _, err := policy.New(helmanthropic.List(append(guarded, d.tool("now"))...), "drafted")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(draft), "definition: "))
	text := strings.ReplaceAll(string(draft), "rules: []", "rules:\n  - {id: all, allow: [look, now, refund]}")
	require.NotEqual(t, string(draft), text)
	d.Options.Policy = kerneltest.Compile(t, text)
	d.Reopen()
	d.plain(d.ctx(), step(scripted.Call{ID: "a", Tool: "now"}))
	d.mustRun("now {}")
	d.tools = []anthropic.BetaTool{&toy{name: "now"}} // of another description
	told := d.plain(d.ctx(), step(scripted.Call{ID: "a", Tool: "now"}))
	assert.Contains(t, told[0].Text, "DRIVER_NOT_BOUND")
}
