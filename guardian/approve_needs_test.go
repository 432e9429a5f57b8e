package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A quorum is of people.
func TestQuorum(t *testing.T) {
	t.Parallel()
	p, trust := mustCompile(t,
		bankText(`{"id":"boss","tools":["pay"],"all":[{"approval":{"roles":["owner","cfo"],"quorum":2}}]}`, ``)),
		people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	require.True(t, q.Quorum == 2 && slices.Equal(q.Roles, []string{"cfo", "owner"}) &&
		q.Expires == noon.Add(10*time.Minute), "asked %+v", q)
	r := otherNonce(q)
	need, invalid := boss(contracts.ReasonApprovalRequired), boss(contracts.ReasonApprovalInvalid)
	refused := boss(contracts.ReasonApprovalRefused)
	var garbage []contracts.Envelope
	for i := range 14 {
		garbage = append(garbage, contracts.Envelope(fmt.Sprintf(`{"payload":"%d"}`, i)))
	}
	for _, c := range []struct {
		name  string
		all   []contracts.Envelope
		want  want
		count int
	}{
		{"one", []contracts.Envelope{approvedBy(t, q, "olga")}, need, 1},
		{"two", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "otto")}, allowed, 2},
		{"two requests", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, r, "pat")}, allowed, 2},
		{"three", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "otto"), approvedBy(t, q, "pat")},
			allowed, 3},
		{"one twice", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, r, "olga")}, need, 2},
		{"two keys of one", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "olga 2")}, need, 2},
		{"two keys of one, and another", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "olga 2"),
			approvedBy(t, q, "pat")}, allowed, 3},
		{"one and a clerk", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "carl")}, invalid, 1},
		{"one and one too late", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, lateFor(r), "pat")},
			boss(contracts.ReasonApprovalExpired), 1},
		{"one, one too late and a clerk", []contracts.Envelope{approvedBy(t, lateFor(r), "pat"),
			approvedBy(t, q, "olga"), approvedBy(t, q, "carl")}, invalid, 1},
		{"one and a no", []contracts.Envelope{approvedBy(t, q, "olga"), refusedBy(t, q, "otto")}, refused, 0},
		{"two and a no", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "pat"),
			refusedBy(t, q, "otto")}, refused, 0},
		{"a no first", []contracts.Envelope{refusedBy(t, q, "otto"), approvedBy(t, q, "olga"), approvedBy(t, q, "pat")},
			refused, 0},
		{"two and a no to another request", []contracts.Envelope{refusedBy(t, r, "otto"), approvedBy(t, q, "olga"),
			approvedBy(t, q, "pat")}, allowed, 2},
		{"two and a no that nobody asked for", []contracts.Envelope{refusedBy(t, q, "carl"), approvedBy(t, q, "olga"),
			approvedBy(t, q, "pat")}, allowed, 2},
		{"his own no", []contracts.Envelope{refusedBy(t, q, "olga"), approvedBy(t, q, "olga"), approvedBy(t, r, "pat")},
			refused, 1},
		{"two in sixteen", append([]contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "otto")}, garbage...),
			allowed, 2},
		{"none in fourteen", garbage, invalid, 0},
	} {
		in := call
		in.Envelopes.Approvals = c.all
		r, why := judgeBy(p, &in, trust, newTold())
		if got := (want{r.Reason, r.Condition, r.Rule}); got != c.want || len(r.Approvals) != c.count ||
			!slices.IsSortedFunc(r.Approvals,
				func(a, b contracts.Digest) int { return strings.Compare(a.String(), b.String()) }) {
			t.Errorf("%s: %v, want %v, and lists %v: %s", c.name, got, c.want, r.Approvals, why)
		}
		again, _ := p.judged(in, trust)
		assert.Equal(t, string(r.Append(nil)), string(again.Append(nil)), "%s: judged again: %s", c.name,
			again.Append(nil))
	}
}

func lateFor(q contracts.ApprovalRequest) contracts.ApprovalRequest {
	q.NotBefore, q.Expires = q.NotBefore+1, q.Expires+1
	return q
}

// One person may answer for several needs; nobody is asked where something else will do.
func TestApprovalsAmongNeeds(t *testing.T) {
	t.Parallel()
	owner, cfo, look := `{"approval":{"roles":["owner"]}}`, `{"approval":{"roles":["cfo"],"ttl":"5m"}}`,
		`{"receipt":"look"}`
	notary := `{"attestation":{"type":"seen","max_age":"1m"}}`
	trust := people(t)
	looked := newTold()
	looked.ran(t, 1, "look", `{}`, noon)
	never := newTold()
	seen := attested(t, "notary", contracts.Attestation{Time: noon, Type: "seen"})
	for _, c := range []struct {
		name, needs string
		past        *told
		by          []string
		want        want
		count       int
		roles       string // that are asked
	}{
		{"both", `"all":[` + owner + `,` + cfo + `]`, never, nil, boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"the first of both", `"all":[` + owner + `,` + cfo + `]`, never, []string{"olga"},
			boss(contracts.ReasonApprovalRequired), 1, "cfo"},
		// asked for ten minutes, where a cfo is good for five
		{"one for both", `"all":[` + owner + `,` + cfo + `]`, never, []string{"pat"},
			boss(contracts.ReasonApprovalRequired), 1, "cfo"},
		{"one for both, the cfo's first", `"all":[` + cfo + `,` + owner + `]`, never, []string{"pat"}, allowed, 1, ""},
		{"one whose own need is shorter", `"all":[` + owner + `,` + cfo + `]`, never, []string{"cleo"},
			boss(contracts.ReasonApprovalInvalid), 0, ""},
		{"any", `"any":[` + owner + `,` + cfo + `]`, never, nil, boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"any, by the first", `"any":[` + owner + `,` + cfo + `]`, never, []string{"olga"}, allowed, 1, ""},
		{"any, by all", `"any":[` + owner + `,` + cfo + `]`, never, []string{"olga", "pat"}, allowed, 2, ""},
		{"any, by nobody", `"any":[` + owner + `,` + cfo + `]`, never, []string{"carl"},
			boss(contracts.ReasonApprovalInvalid), 0, ""},
		{"or a receipt", `"any":[` + owner + `,` + look + `]`, looked, nil, allowed, 0, ""},
		{"or a receipt, and asked in vain", `"any":[` + owner + `,` + look + `]`, looked, []string{"olga"}, allowed, 0,
			""},
		{"or a receipt, and garbage", `"any":[` + owner + `,` + look + `]`, looked, []string{"stranger"}, allowed, 0,
			""},
		{"for want of a receipt", `"any":[` + look + `,` + owner + `]`, never, nil,
			boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"instead of a receipt", `"any":[` + look + `,` + owner + `]`, never, []string{"olga"}, allowed, 1, ""},
		{"with a receipt", `"all":[` + owner + `,` + look + `]`, looked, []string{"olga"}, allowed, 1, ""},
		{"without the receipt", `"all":[` + owner + `,` + look + `]`, never, []string{"olga"}, missing4("P1:bank:boss"),
			0, ""},
		{"nothing but a receipt", `"any":[` + look + `]`, never, []string{"olga"}, missing4("P1:bank:boss"), 0, ""},
		{"or an attestation", `"any":[` + owner + `,` + notary + `]`, never, []string{"notary"}, allowed, 0, ""},
		{"with an attestation", `"all":[` + owner + `,` + notary + `]`, never, []string{"notary", "olga"}, allowed, 1,
			""},
		{"an attestation alone", `"all":[` + owner + `,` + notary + `]`, never, []string{"notary"},
			boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"without the attestation", `"all":[` + owner + `,` + notary + `]`, never, []string{"olga"},
			missing4("P1:bank:boss"), 0, ""},
	} {
		p := mustCompile(t, bankText(`{"id":"boss","tools":["pay"],`+c.needs+`}`, ``))
		in := inChat(t, "pay", toBob)
		var q *contracts.ApprovalRequest
		plain := inChat(t, "pay", toBob)
		plain.Envelopes.Attestations = []contracts.Envelope{seen}
		if _, why := judgeBy(p, &plain, trust, never); why.Pending != nil {
			q = why.Pending
		} else { // an owner is asked for nothing here; if one were, it would be this
			one := mustCompile(t, bankText(`{"id":"boss","tools":["pay"],"all":[`+owner+`]}`, ``))
			j := judging{in: &in, tool: p.stack.Tools["pay"], record: &contracts.DecisionRecord{PolicyHash: p.Hash()}}
			q = j.request(one.stack.Tools["pay"].Requires[0].Needs[0].Approval)
		}
		for _, who := range c.by {
			if who == "notary" {
				in.Envelopes.Attestations = []contracts.Envelope{seen}
			} else {
				in.Envelopes.Approvals = append(in.Envelopes.Approvals, approvedBy(t, *q, who))
			}
		}
		r, why := judgeBy(p, &in, trust, c.past)
		c.want.settled(t, c.name, p, in, trust, c.past)
		assert.True(t, len(r.Approvals) == c.count && (why.Pending == nil ||
			strings.Join(why.Pending.Roles, " ") == c.roles), "%s: lists %v, asks %+v", c.name, r.Approvals,
			why.Pending)
		counts := c.count > 0 || r.Condition == 4 && r.Reason != contracts.ReasonMissingRequirement
		assert.Equal(t, in.State.Used != nil, counts && len(in.Envelopes.Approvals) > 0 &&
			strings.Contains(string(r.Reason)+"ALLOW", "A"), "%s: whether used is read", c.name)
		assert.Equal(t, len(r.Attestations) == 1, len(in.Envelopes.Attestations) > 0, "%s: lists attestations %v",
			c.name, r.Attestations)
	}
}

// A person is asked last, and for the first requirement of the stack that lacks their approval.
func TestApprovalsAreAskedLast(t *testing.T) {
	t.Parallel()
	trust := people(t)
	needs := func(id, role string) string {
		return `,"requires":[{"id":"` + id + `","tools":["pay"],"all":[{"approval":{"roles":["` + role + `"]}}]}]`
	}
	last := overlay("o", needs("c", "clerk"))
	p := mustCompile(t, bankText(byOwner, ``), floor("f", needs("a", "cfo")), last)
	in := inChat(t, "pay", toBob)
	for _, step := range []struct{ rule, by string }{{"P0:f:a", "pat"}, {"P2:o:c", "carl"}} { // pat is an owner, too
		r, why := settled(t, p, &in, trust, newTold())
		require.True(t, r.Reason == contracts.ReasonApprovalRequired && r.Rule == step.rule, "%v by %s, want %s",
			r.Reason, r.Rule, step.rule)
		in.Envelopes.Approvals = append(in.Envelopes.Approvals, approvedBy(t, *why.Pending, step.by))
	}
	r := allowed.settled(t, "all", p, in, trust, newTold())
	assert.True(t, len(r.Approvals) == 2 && r.Rule == "P1:bank:all", "lists %v", r.Approvals)
	for name, c := range map[string]struct {
		docs   []string
		args   string
		change func(*contracts.Inputs)
		want   want
	}{
		"a rule":     {nil, `{"amount":1001,"kind":"sepa","to":"bob"}`, nil, contractsViolation("P1:bank:dear")},
		"an overlay": {[]string{overlay("x", `,"only":["look"]`)}, toBob, nil, contractsViolation("P2:x:only")},
		"nobody": {nil, toBob, func(in *contracts.Inputs) { in.Caller.Roles = nil },
			want{contracts.ReasonNoPolicyDefined, 5, ""}},
		"a grant": {nil, toBob, func(in *contracts.Inputs) {
			in.Envelopes.Delegation = []contracts.Envelope{by(t, "ann",
				contracts.Delegation{Delegate: "bob", Delegator: "ann"})}
		}, want{contracts.ReasonDelegationInvalid, 6, ""}},
		"a ceiling": {[]string{floor("x", `,"ceilings":{"risk":"low"}`)}, toBob, nil,
			want{contracts.ReasonCeilingViolation, 8, "P0:x:ceilings"}},
		"a floor": {[]string{floor("x", `,"rules":[{"id":"r","deny":["pay"],"when":{"arg":"/to","eq":"bob"}}]`)},
			toBob, nil, want{contracts.ReasonCeilingViolation, 8, "P0:x:r"}},
		"a budget": {[]string{floor("x",
			`,"budgets":[{"id":"none","tools":["pay"],"limit":0,"per":"all","window":"total","cost":1}]`)}, toBob, nil,
			want{contracts.ReasonBudgetExceeded, 3, "P0:x:none"}},
	} {
		in := inChat(t, "pay", c.args)
		if c.change != nil {
			c.change(&in)
		}
		r := c.want.settled(t, name, mustCompile(t, append(c.docs, bankText(byOwner, ``), last)...), in, trust,
			newTold())
		assert.True(t, r.Pending == nil && in.State.Used == nil, "%s: asked", name)
	}
}

// A requirement that is met otherwise asks for nothing next to one that asks, and no answer is used
// up for it.
func TestApprovalsOfTheOthers(t *testing.T) {
	t.Parallel()
	trust := people(t)
	p := mustCompile(t,
		bankText(`{"id":"either","tools":["pay"],"any":[{"approval":{"roles":["owner"]}},{"receipt":"look"}]},
		{"id":"boss","tools":["pay"],"all":[{"approval":{"roles":["cfo"]}}]}`, ``))
	call, never := inChat(t, "pay", toBob), newTold()
	_, why := settled(t, p, &call, trust, never)
	owners := *why.Pending
	looked := longSession(t)
	_, why = settled(t, p, &call, trust, looked)
	cfos := *why.Pending
	require.True(t, owners.Roles[0] == "owner" && cfos.Roles[0] == "cfo", "asked %v, then %v", owners.Roles, cfos.Roles)
	olga, cleo := approvedBy(t, owners, "olga"), approvedBy(t, cfos, "cleo")
	for name, c := range map[string]struct {
		past *told
		all  []contracts.Envelope
		want want
		list []contracts.Envelope
	}{
		"the one that asks": {looked, []contracts.Envelope{cleo}, allowed, []contracts.Envelope{cleo}},
		"both":              {looked, []contracts.Envelope{olga, cleo}, allowed, []contracts.Envelope{cleo}},
		"the one that is met": {looked, []contracts.Envelope{olga}, boss(contracts.ReasonApprovalRequired),
			nil},
		"both ask": {never, []contracts.Envelope{olga, cleo}, allowed,
			[]contracts.Envelope{olga, cleo}},
		"both ask, and one is there": {never, []contracts.Envelope{cleo},
			want{contracts.ReasonApprovalRequired, 4, "P1:bank:either"}, []contracts.Envelope{cleo}},
		"both ask, and the other one": {never, []contracts.Envelope{olga}, boss(contracts.ReasonApprovalRequired),
			[]contracts.Envelope{olga}},
	} {
		in := call
		in.Envelopes.Approvals = c.all
		var listed []contracts.Digest
		for _, e := range c.list {
			listed = insert(listed, e.Digest())
		}
		r := c.want.settled(t, name, p, in, trust, c.past)
		assert.True(t, slices.Equal(r.Approvals, listed), "%s: lists %v", name, r.Approvals)
	}
}
