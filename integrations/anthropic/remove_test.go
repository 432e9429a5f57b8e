package anthropic_test

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
)

// A call of a tool that was taken away from the runner is denied with a receipt, as that of any
// tool that it does not have, until the tool is added again.
func TestRemovedTools(t *testing.T) {
	t.Parallel()
	type runner interface {
		AddTools(list ...anthropic.BetaTool) error
		AddToolParams(list ...anthropic.BetaToolUnionParam)
		RemoveTools(list ...anthropic.BetaTool)
		RemoveToolsByNames(names ...string)
	}
	look := scripted.Call{ID: "a", Tool: "look", Args: `{"at":"x"}`}
	stub := anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{Name: "look"}}
	for name, remove := range map[string]func(d *desk, r runner){
		"tools":  func(d *desk, r runner) { r.RemoveTools(d.tools[0]) },
		"names":  func(_ *desk, r runner) { r.RemoveToolsByNames("look", "ghost") },
		"params": func(_ *desk, r runner) { r.AddToolParams(stub) },
	} {
		for _, again := range []bool{false, true} {
			change := func(d *desk, r runner) {
				remove(d, r)
				if again {
					require.NoError(t, r.AddTools(d.tools[0]))
				}
			}
			check := func(d *desk, m *scripted.Model) {
				if !again {
					d.mustBeDenied(contracts.ReasonDriverNotBound, m.Told(), 1)
					return
				}
				require.False(t, m.Told()[0].Error, name)
				d.mustRun(`look {"at":"x","page":1}`)
			}
			d, m := newDesk(t), step(look)
			client := anthropic.NewClient(m.Options()...)
			r, err := helmanthropic.NewToolRunner(d.Kernel, &client.Beta.Messages, d.tools, asking())
			require.NoError(t, err)
			change(d, r)
			_, err = r.RunToCompletion(d.ctx())
			require.NoError(t, err)
			check(d, m)

			d, m = newDesk(t), step(look)
			client = anthropic.NewClient(m.Options()...)
			s, err := helmanthropic.NewToolRunnerStreaming(d.Kernel, &client.Beta.Messages, d.tools, asking())
			require.NoError(t, err)
			change(d, s)
			for events := range s.AllStreaming(d.ctx()) {
				for _, err := range events {
					require.NoError(t, err)
				}
			}
			check(d, m)
		}
	}
}
