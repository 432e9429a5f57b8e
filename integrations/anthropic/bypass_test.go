package anthropic_test

import (
	"context"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
)

// The ways round a guarded tool that the SDK's own runner has. Each test first shows the way. If a
// version of the SDK closes it, the test fails there, and says what to change.

const closed = "anthropic-sdk-go has closed this way: drop the test, and what doc.go says of it"

// TestBypassDecoded: the runner decodes an input before its tool gets it, so that a guarded tool is
// asked about other arguments than the model wrote.
func TestBypassDecoded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	odd := scripted.Call{ID: "a", Tool: "refund", Args: `{"to":"eve","to":"ann","amount":50}`}
	d.bare(step(odd), must(helmanthropic.Tool(d.Kernel, d.tool("refund"))))
	require.Equal(t, []contracts.ReasonCode{"ALLOW"}, d.receipts(), closed)
	d.mustRun(`refund {"amount":50,"to":"eve"}`)
	d.mustBeDenied(contracts.ReasonArgsCanonicalization, d.plain(d.ctx(), step(odd)), 1)
	d.mustBeDenied(contracts.ReasonArgsCanonicalization, d.streamed(d.ctx(), step(odd)), 1)
}

// TestBypassEmptied: a streamed input that is no JSON becomes {}, which some tools take.
func TestBypassEmptied(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	half := scripted.Call{ID: "a", Tool: "now", Args: `{"text":"only if`}
	d.bareStreamed(step(half), must(helmanthropic.Tool(d.Kernel, d.tool("now"))))
	require.Equal(t, []contracts.ReasonCode{"ALLOW"}, d.receipts(), closed)
	d.mustRun(`now {}`)
	d.mustBeDenied(contracts.ReasonArgsCanonicalization, d.streamed(d.ctx(), step(half)), 1)
}

// TestBypassUnknown: the runner answers a call of a tool that it does not have, and nobody hears of
// it.
func TestBypassUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ghost := scripted.Call{ID: "a", Tool: "ghost", Args: `{"all":true}`}
	told := d.bare(step(ghost), must(helmanthropic.Tool(d.Kernel, d.tool("now"))))
	require.Equal(t, "Error: Tool 'ghost' not found", told[0].Text, closed)
	require.Empty(t, d.receipts(), closed)
	d.mustBeDenied(contracts.ReasonToolNotFound, d.plain(d.ctx(), step(ghost)), 1)
}

// TestBypassToolset: the runner takes a member of a toolset for the tool of that name.
func TestBypassToolset(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	member := scripted.Call{ID: "a", Tool: "now", Args: `{}`, Toolset: "elsewhere"}
	d.bare(step(member), d.tool("now"))
	d.mustRun("now {}") // or the SDK has closed this way: see closed
	d.mustBeDenied(contracts.ReasonToolNotFound, d.plain(d.ctx(), step(member)), 1)
}

// TestBypassAdded: a tool that is added to a runner later is not under guard, in place of one that
// was.
func TestBypassAdded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	call := scripted.Call{ID: "a", Tool: "refund", Args: `{"to":"ann","amount":9000}`}
	m := step(call)
	client := anthropic.NewClient(m.Options()...)
	bare := client.Beta.Messages.NewToolRunner(nil, asking())
	bare.AddTools(d.tool("refund"))
	_, err := bare.RunToCompletion(d.ctx())
	require.NoError(t, err)
	d.mustRun(`refund {"amount":9000,"to":"ann"}`) // or the SDK has closed this way: see closed
	for _, tools := range [][]anthropic.BetaTool{nil, {d.tool("refund")}} {
		m = step(call)
		client = anthropic.NewClient(m.Options()...)
		r, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, tools, asking())
		require.NoError(t, err)
		require.Error(t, r.AddTools(d.tool("refund"), nil))
		require.NoError(t, r.AddTools(d.tool("refund")))
		_, err = r.RunToCompletion(d.ctx())
		require.NoError(t, err)
		d.mustBeDenied(contracts.ReasonApprovalRequired, m.Told(), 1)
	}
}

// TestBypassRepeated: a request that fails after calls were made makes them again when the step is
// repeated.
func TestBypassRepeated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	calls := scripted.Step{Calls: []scripted.Call{
		{ID: "a", Tool: "refund", Args: `{"to":"ann","amount":50}`}, {ID: "b", Tool: "ghost"}, {ID: "c", Tool: "look"}}}
	script := func() *scripted.Model {
		return &scripted.Model{Text: "Done.", Steps: []scripted.Step{calls, {Fails: true}, {Fails: true}}}
	}
	type runner interface {
		NextMessage(ctx context.Context) (*anthropic.BetaMessage, error)
	}
	converse := func(r runner) {
		for _, fails := range []bool{false, true, true, false} {
			_, err := r.NextMessage(d.ctx())
			require.Equal(t, fails, err != nil, "%v", err)
		}
	}
	m := script()
	client := anthropic.NewClient(m.Options()...)
	converse(client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{d.tool("refund"), d.tool("look")}, asking()))
	refund := `refund {"amount":50,"to":"ann"}`
	d.mustRun(refund, refund, refund, "look {}", "look {}", "look {}") // or the SDK has closed this way: see closed

	m = script()
	client = anthropic.NewClient(m.Options()...)
	plain, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, d.tools, asking())
	require.NoError(t, err)
	converse(plain)
	d.mustRun(refund)
	require.Len(t, d.receipts(), 3)
	require.Len(t, plain.Params.Messages, 4) // question, calls, results, answer
	told := m.Told()
	require.Len(t, told, 3)
	require.Equal(t, []string{"a", "b", "c"}, []string{told[0].Call, told[1].Call, told[2].Call})
	require.Equal(t, "refund did "+strings.TrimPrefix(refund, "refund "), told[0].Text)

	m = script()
	m.Steps = m.Steps[:1]
	client = anthropic.NewClient(m.Options()...)
	streaming, err := helmanthropic.NewToolRunnerStreaming(d.Kernel, &client.Beta.Messages, d.tools, asking())
	require.NoError(t, err)
	for i := range 4 { // the second and the third are left before their end
		for _, err := range streaming.NextStreaming(d.ctx()) {
			require.NoError(t, err)
			if i == 1 || i == 2 {
				break
			}
		}
	}
	d.mustRun(refund)
	require.Len(t, d.receipts(), 3)
	require.Len(t, streaming.Params.Messages, 4)
}

// TestPackedKey: the model cannot write an input that is taken for a packed one.
func TestPackedKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, args := range []string{`{"helm":"e30=","name":"bm93"}`, `{"helm-":"e30=","name":"bm93"}`} {
		call := scripted.Call{ID: "a", Tool: "now", Args: args}
		d.mustBeDenied(contracts.ReasonSchemaViolation, d.plain(d.ctx(), step(call)), 1)
	}
}
