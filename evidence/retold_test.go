package evidence

import (
	"bytes"
	"errors"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// TestLieToldAgain: an ALLOW consumed a request, and the session's story was let go of and is told again. What another request of the same call
// is said to be, used or not, is held to the log as if the story had been kept: the first one's inputs are there, so nothing is left open.
func TestLieToldAgain(t *testing.T) {
	for _, lies := range []bool{false, true} {
		d := newDesk(t)
		first := d.pending(`{"amount":1}`)
		second := d.pending(`{"amount":1}`)
		d.allowed(d.ask("pay", `{"amount":1}`, d.approve(seedA, first))).ran(`1`)
		d.session = "s2"
		d.look("/a")
		d.allowed(d.ask("act", `{"path":"/a"}`)).ran(`1`) // which asks for the past of that one
		d.session = "s1"
		ask := d.ask("pay", `{"amount":1}`, d.approve(seedA, second))
		if lies {
			d.memory.lie = func(p past.Past) past.Past { return liar{Past: p, used: func(bool) bool { return true }} }
			d.denied(contracts.ReasonApprovalInvalid, ask)
		} else {
			d.allowed(ask).ran(`1`)
		}
		d.checkpoint()
		pack := d.pack()
		told := uint64(0)
		for _, most := range []int{maxStories, 1} {
			v := newVerifier(t.Context(), Options{Trust: d.trust})
			v.stories.most, v.stories.limit = most, most
			err := v.inPack(bytes.NewReader(pack), int64(len(pack)))
			if lies != errors.Is(err, ErrReplay) || !lies && err != nil {
				t.Errorf("lies %v, %d bytes of stories: %v", lies, most, err)
			}
			if most == 1 && v.stories.reread <= told {
				t.Error("no story was told again")
			}
			told = v.stories.reread
		}
	}
}
