package anthropic_test

import (
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

// TestPackedKey: the model cannot write an input that is taken for a packed one.
func TestPackedKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, args := range []string{`{"helm":"e30=","name":"bm93"}`, `{"helm-":"e30=","name":"bm93"}`} {
		call := scripted.Call{ID: "a", Tool: "now", Args: args}
		d.mustBeDenied(contracts.ReasonSchemaViolation, d.plain(d.ctx(), step(call)), 1)
	}
}
