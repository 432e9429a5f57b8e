package helm_test

import (
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// talk moves a call of the clerk to another conversation.
func talk(session string) func(*helm.Intent) {
	return func(i *helm.Intent) { i.Session = session }
}

// A nonce is its author's, and he may sign it for two conversations. It is one yes still: of two calls at once one runs, and over a restart, with
// the first conversation closed, the other is told that it was used.
func TestApprovalOfOneNonceForTwoSessions(t *testing.T) {
	for range 8 {
		b := newBank(t)
		first := b.ask("pay", rent)
		second := b.ask("pay", rent, talk("other"))
		second.Nonce = first.Nonce
		yes := map[string]contracts.Envelope{"chat": b.approve(first, seedAnn), "other": b.approve(second, seedAnn)}
		var ran, used atomic.Int64
		atOnce(8, func(i int) {
			session := []string{"chat", "other"}[i%2]
			switch d, r := b.do("pay", rent, talk(session), with(yes[session])); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case d.Reason == contracts.ReasonApprovalInvalid && r.Record.Outcome == contracts.Denied:
				used.Add(1)
			default:
				t.Errorf("%s: %s", d.Reason, d.Why)
			}
		})
		if ran.Load() != 1 || used.Load() != 7 || b.runs.Load() != 1 {
			t.Errorf("%d ran, %d denied, %d runs of the tool", ran.Load(), used.Load(), b.runs.Load())
		}
		b.mustPass()
	}
	b := newBank(t)
	first, second := b.ask("pay", rent), b.ask("pay", rent, talk("other"))
	second.Nonce = first.Nonce
	b.mustDo("pay", rent, with(b.approve(first, seedAnn)))
	if err := b.k.CloseSession(t.Context(), "chat"); err != nil {
		t.Fatal(err)
	}
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, talk("other"), with(b.approve(second, seedAnn)))
	b.reopen()
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, talk("other"), with(b.approve(second, seedAnn)))
	b.mustAgree(b.mustPass())
}
