package langchaingo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/integrations/langchaingo/internal/script"
)

// A support agent of six tools: calls that are allowed, one that is denied, one of an unknown tool,
// one that an approver grants and one that an approver refuses. An auditor verifies it all.
// Langchaingo has no tools that stream.
func TestStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, agent := range map[string]func(m *script.Model, list []tools.Tool) agents.Agent{
		"functions": func(m *script.Model, list []tools.Tool) agents.Agent {
			return agents.NewOpenAIFunctionsAgent(m, list)
		},
		"text": func(m *script.Model, list []tools.Tool) agents.Agent {
			m.Text = true
			return agents.NewOneShotAgent(m, list)
		},
	} {
		w.story(name, agent)
	}
	w.mustVerify(8, 10)
}

func (w *world) story(session string, agent func(*script.Model, []tools.Tool) agents.Agent) {
	ctx := helm.With(w.ctx(), helm.Intent{Session: session, Caller: helm.Caller{ID: "bob"}})
	var list []tools.Tool
	for _, name := range []string{"order_find", "note", "refund", "pay", "price", "slow"} {
		list = append(list, w.tool(name))
	}
	w.pending = nil
	m := &script.Model{Steps: [][]script.Call{one("order_find", "4711"), one("refund", `{"amount":9000}`),
		one("order_delete", "4711"), one("refund", `{"amount":80}`), one("pay", `{"amount":70}`),
		one("pay", `{"amount":60}`), one("note", "asked for 70 and 60")}}
	told, err := w.run(ctx, w.agent(agent(m, list)), m)
	require.NoError(w.t, err)
	require.Len(w.t, told, 7)
	assert.Equal(w.t, "order_find did 4711", told[0])
	assert.Contains(w.t, told[1], "refund was denied: NO_POLICY_DEFINED. ")
	assert.Contains(w.t, told[2], "order_delete was denied: DENY_TOOL_NOT_FOUND. ")
	assert.Equal(w.t, `refund did {"amount":80,"currency":"EUR"}`, told[3])
	require.Len(w.t, w.pending, 2)

	answers := make([]helm.Envelope, 2)
	answers[0], err = w.pending[0].Pending.Approve(w.ann)
	require.NoError(w.t, err)
	answers[1], err = w.pending[1].Pending.Refuse(w.ann)
	require.NoError(w.t, err)
	for i, call := range []string{`{"amount":70}`, `{"amount":60}`} {
		m := &script.Model{Steps: [][]script.Call{one("pay", call)}}
		ctx := helm.With(ctx, helm.Intent{Tool: "pay", Approvals: answers[i : i+1]})
		told, err := w.run(ctx, w.agent(agent(m, list)), m)
		require.NoError(w.t, err)
		if i == 0 {
			assert.Equal(w.t, []string{`pay did {"amount":70}`}, told)
			continue
		}
		assert.Contains(w.t, told[0], "pay was denied: ")
	}
	w.mustHave("order_find 4711", `refund {"amount":80,"currency":"EUR"}`, "note asked for 70 and 60",
		`pay {"amount":70}`)
}
