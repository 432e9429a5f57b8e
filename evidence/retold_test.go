package evidence

import (
	"bytes"
	"errors"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/guardian/past"
)

// TestLieToldAgain: an ALLOW consumed a request, and the session's summary was dropped and is built
// again. What another request of the same call is said to be, used or not, is held to the log as if
// the story had been kept: the first one's inputs are there, so nothing is left open.
func TestLieToldAgain(t *testing.T) {
	t.Parallel()
	for _, lies := range []bool{false, true} {
		d := forge.NewFixture(t)
		first := d.Pending(`{"amount":1}`)
		second := d.Pending(`{"amount":1}`)
		d.Allowed(d.Ask("pay", `{"amount":1}`, d.Approve(forge.SeedA, first))).Ran(`1`)
		d.Session = "s2"
		d.Look("/a")
		d.Allowed(d.Ask("act", `{"path":"/a"}`)).Ran(`1`) // which asks for the past of that one
		d.Session = "s1"
		ask := d.Ask("pay", `{"amount":1}`, d.Approve(forge.SeedA, second))
		if lies {
			d.Memory.Lie = func(p past.Past) past.Past {
				return forge.Liar{Past: p, FakeUsed: func(bool) bool { return true }}
			}
			d.Denied(contracts.ReasonApprovalInvalid, ask)
		} else {
			d.Allowed(ask).Ran(`1`)
		}
		d.Checkpoint()
		pack := d.Pack(Write)
		told := uint64(0)
		for _, most := range []int{maxSessions, 1} {
			v := newVerifier(t.Context(), Options{Trust: d.Trust})
			v.replay.sessions.most, v.replay.sessions.limit = most, most
			err := v.inPack(bytes.NewReader(pack), int64(len(pack)))
			if lies != errors.Is(err, ErrReplay) || !lies && err != nil {
				t.Errorf("lies %v, %d bytes of stories: %v", lies, most, err)
			}
			if most == 1 && v.replay.sessions.reread <= told {
				t.Error("no story was told again")
			}
			told = v.replay.sessions.reread
		}
	}
}
