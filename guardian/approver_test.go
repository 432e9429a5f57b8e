package guardian

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
)

// Keys are not callers: the holder of an approver's key can approve their own call, unless the
// policy asks others about it.
func TestApproverWhoCalls(t *testing.T) {
	t.Parallel()
	const board = `,{"id":"own","tools":["pay"],"when":{"caller":"id","eq":"olga","absent":false},"all":[{"approval":{"roles":["cfo"]}}]}`
	for _, c := range []struct {
		requires string
		want     want
	}{
		{byOwner, allowed},
		{strings.Replace(byOwner, `"all"`, `"unless":{"caller":"id","eq":"otto","absent":false},"all"`, 1), allowed},
		{strings.Replace(byOwner, `"ttl"`, `"quorum":2,"ttl"`, 1), boss(contracts.ReasonApprovalRequired)},
		{byOwner + board, want{contracts.ReasonApprovalRequired, 4, "P1:bank:own"}},
	} {
		p, trust, in := mustCompile(t, bankText(c.requires, ``)), people(t), inChat(t, "pay", toBob)
		in.Caller.ID = "olga"
		in.Envelopes.Approvals = []contracts.Envelope{approvedBy(t, asked(t, p, in, trust), "olga")}
		c.want.settled(t, c.requires, p, in, trust, newTold())
	}
}
