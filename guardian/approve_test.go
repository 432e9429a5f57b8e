package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// byOwner needs one owner's word to pay.
const byOwner = `{"id":"boss","tools":["pay"],"all":[{"approval":{"roles":["owner"],"ttl":"15m"}}]}`

// asked is the request of a call that wants an approval.
func asked(t testing.TB, p *Policy, in contracts.Inputs, trust *registry.State) contracts.ApprovalRequest {
	t.Helper()
	r, why := settled(t, p, &in, trust, newTold())
	if why.Pending == nil {
		t.Fatalf("%v: %s", r.Reason, why)
	}
	return *why.Pending
}

// approvedBy signs with the key of any name.
func approvedBy(t testing.TB, q contracts.ApprovalRequest, signer string) contracts.Envelope {
	t.Helper()
	e, err := q.Approve(keyOf(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func refusedBy(t testing.TB, q contracts.ApprovalRequest, signer string) contracts.Envelope {
	t.Helper()
	e, err := q.Refuse(keyOf(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func attested(t testing.TB, signer string, a contracts.Attestation) contracts.Envelope {
	t.Helper()
	if a.Claims.Kind() == crypto.Missing {
		a.Claims = value(t, `{}`)
	}
	e, err := a.Sign(keyOf(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func boss(reason contracts.ReasonCode) want { return want{reason, 4, "P1:bank:boss"} }

// Whatever is wrong with an approval, it is none; and beside one that is good it changes nothing.
func TestApproval(t *testing.T) {
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	invalid, late, need := boss(contracts.ReasonApprovalInvalid), boss(contracts.ReasonApprovalExpired), boss(contracts.ReasonApprovalRequired)
	revoked := after(t, trust, contracts.TrustEvent{Type: "revoke", ID: digestOf(crypto.KeyID(publicOf(t, "olga"))), Why: "left"})
	// with is an answer of olga's to another request
	with := func(change func(*contracts.ApprovalRequest)) contracts.Envelope {
		q := q
		change(&q)
		return approvedBy(t, q, "olga")
	}
	type request = contracts.ApprovalRequest
	const minute = 60_000
	for _, c := range []struct {
		name  string
		trust *registry.State
		e     contracts.Envelope
		want  want
	}{
		{"good", trust, approvedBy(t, q, "olga"), allowed},
		{"by another owner", trust, approvedBy(t, q, "pat"), allowed},
		{"by hand", trust, with(func(r *request) { r.Nonce, r.NotBefore, r.Expires = strings.Repeat("ab", 16), noon-14*minute, noon+1 }), allowed},
		{"for a shorter time", trust, with(func(r *request) { r.Expires = noon + 1 }), allowed},
		{"none", trust, nil, need},
		{"by an attestor", trust, approvedBy(t, q, "notary"), invalid},
		{"by a root", trust, approvedBy(t, q, "root"), invalid},
		{"by a kernel", trust, approvedBy(t, q, "kernel"), invalid},
		{"by the caller", trust, approvedBy(t, q, "ann"), invalid},
		{"by nobody", trust, approvedBy(t, q, "stranger"), invalid},
		{"by a clerk", trust, approvedBy(t, q, "carl"), invalid},
		{"by a revoked key", revoked, approvedBy(t, q, "olga"), invalid},
		{"by another key, after that", revoked, approvedBy(t, q, "olga 2"), allowed},
		{"without a trust state", nil, approvedBy(t, q, "olga"), invalid},
		{"a refusal", trust, refusedBy(t, q, "olga"), invalid},
		{"a refusal by a clerk", trust, refusedBy(t, q, "carl"), invalid},
		{"no envelope", trust, contracts.Envelope(`{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"` + strings.Repeat("0", 64) + `","sig":"` + strings.Repeat("A", 86) + `=="}]}`), invalid},
		{"an attestation", trust, attested(t, "notary", contracts.Attestation{Time: noon, Type: "x"}), invalid},
		{"a grant", trust, by(t, "ann", contracts.Delegation{Delegate: "ann", Delegator: "ann"}), invalid},
		{"another tool", trust, with(func(r *request) { r.Tool = "look" }), invalid},
		{"other arguments", trust, with(func(r *request) { r.ArgsHash[0]++ }), invalid},
		{"another declaration", trust, with(func(r *request) { r.SchemaHash[31]++ }), invalid},
		{"another policy", trust, with(func(r *request) { r.PolicyHash[0]++ }), invalid},
		{"another session", trust, with(func(r *request) { r.Session = "chat2" }), invalid},
		{"session main", trust, with(func(r *request) { r.Session = "main" }), invalid},
		{"another caller", trust, with(func(r *request) { r.Caller.ID = "bob" }), invalid},
		{"nobody's call", trust, with(func(r *request) { r.Caller = contracts.Caller{} }), invalid},
		{"another tenant", trust, with(func(r *request) { r.Caller.Tenant = "" }), invalid},
		{"a caller of more roles", trust, with(func(r *request) { r.Caller.Roles = append(slices.Clone(r.Caller.Roles), "owner") }), invalid},
		{"a caller of fewer roles", trust, with(func(r *request) { r.Caller.Roles = r.Caller.Roles[:1] }), invalid},
		{"another quorum", trust, with(func(r *request) { r.Quorum = 2 }), invalid},
		{"other roles", trust, with(func(r *request) { r.Roles = []string{"clerk"} }), invalid},
		{"more roles", trust, with(func(r *request) { r.Roles = []string{"clerk", "owner"} }), invalid},
		{"no roles", trust, with(func(r *request) { r.Roles = nil }), invalid},
		{"too long", trust, with(func(r *request) { r.Expires++ }), invalid},
		{"too long, from before", trust, with(func(r *request) { r.NotBefore-- }), invalid},
		{"for ever", trust, with(func(r *request) { r.NotBefore, r.Expires = 0, 253402300799999 }), invalid},
		{"not yet", trust, with(func(r *request) { r.NotBefore++ }), late},
		{"no more", trust, with(func(r *request) { r.NotBefore, r.Expires = noon-minute, noon }), late},
		{"never", trust, with(func(r *request) { r.Expires = r.NotBefore }), late},
		{"over before it began", trust, with(func(r *request) { r.NotBefore, r.Expires = noon+1, noon-1 }), late},
	} {
		in := call
		if c.e != nil {
			in.Envelopes.Approvals = []contracts.Envelope{c.e}
		}
		r := c.want.settled(t, c.name, p, in, c.trust, newTold())
		if counted := len(r.Approvals) == 1 && r.Approvals[0] == c.e.Digest(); counted != bool(r.Verdict) {
			t.Errorf("%s: lists %v", c.name, r.Approvals)
		}
		if c.e == nil || bool(r.Verdict) || c.trust != trust {
			continue
		}
		for _, list := range [][]contracts.Envelope{{c.e, approvedBy(t, otherNonce(q), "otto")}, {approvedBy(t, otherNonce(q), "otto"), c.e}} {
			in.Envelopes.Approvals = list
			if r := allowed.settled(t, c.name+", beside a good one", p, in, c.trust, newTold()); len(r.Approvals) != 1 {
				t.Errorf("%s: lists %v", c.name, r.Approvals)
			}
		}
	}
}

func digestOf(d contracts.Digest) *contracts.Digest { return &d }

func otherNonce(q contracts.ApprovalRequest) contracts.ApprovalRequest {
	q.Nonce = crypto.Sum([]byte(q.Nonce)).String()[:32]
	return q
}

// An envelope of which any bit is another is none.
func TestApprovalMangled(t *testing.T) {
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	in := inChat(t, "pay", toBob)
	good := approvedBy(t, asked(t, p, in, trust), "olga")
	in.Envelopes.Approvals = []contracts.Envelope{good}
	allowed.settled(t, "good", p, in, trust, newTold())
	for i := 0; i < 8*len(good); i += 13 {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		in.Envelopes.Approvals = []contracts.Envelope{bad}
		if r, _ := p.Decide(&in, trust, newTold()); r.Reason != contracts.ReasonApprovalInvalid {
			t.Fatalf("bit %d: %v", i, r.Reason)
		}
	}
}

// What is asked follows from the call, its time and the policy, and from nothing else.
func TestPendingRequest(t *testing.T) {
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	tree := value(t, bankText("", "")).Get("tools").Get("pay")
	if q.Tool != "pay" || q.ArgsHash != call.ArgsHash || q.Session != "chat" || !q.Caller.Equal(call.Caller) || q.PolicyHash != p.Hash() || q.Quorum != 1 || !slices.Equal(q.Roles, []string{"owner"}) ||
		q.NotBefore != noon || q.Expires != noon.Add(15*60e9) || q.SchemaHash != crypto.Sum(tree.Append(nil)) {
		t.Errorf("asked %+v", q)
	}
	zero := q
	zero.Nonce = strings.Repeat("0", 32)
	if q.Nonce != zero.Digest().String()[:32] {
		t.Errorf("nonce %s", q.Nonce)
	}
	if again := asked(t, p, call, nil); again.Digest() != q.Digest() {
		t.Error("another request for the same call")
	}
	later := call
	later.Time++
	if again := asked(t, p, later, trust); again.Nonce == q.Nonce {
		t.Error("the same nonce at another time")
	}
	in := call
	r, why := p.Decide(&in, trust, newTold())
	if *r.Pending != why.Pending.Digest() || why.What != "a person of the role owner must approve the call" {
		t.Errorf("pending %s: %s", r.Pending, why)
	}
	two := call
	if _, why := mustCompile(t, bankText(strings.Replace(byOwner, `"roles":["owner"]`, `"roles":["owner","cfo"],"quorum":2`, 1), ``)).Decide(&two, trust, newTold()); why.What != "2 people of the roles cfo, owner must approve the call" {
		t.Errorf("asks two: %s", why)
	}
	why.Pending.Caller.Roles[0], why.Pending.Roles[0] = "x", "x"
	if in.Caller.Roles[0] != "clerk" || asked(t, p, call, trust).Nonce != q.Nonce {
		t.Error("the request shares memory with call or policy")
	}
}

// Consumed by an ALLOW, a request is answered for good, whoever answered it.
func TestApprovalIsUsedOnce(t *testing.T) {
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	with := func(all ...contracts.Envelope) contracts.Inputs {
		in := call
		in.Envelopes.Approvals = all
		return in
	}
	olga, otto, fresh := approvedBy(t, q, "olga"), approvedBy(t, q, "otto"), approvedBy(t, otherNonce(q), "olga")
	past := newTold()
	first := allowed.settled(t, "first", p, with(olga), trust, past)
	past.Allow(&first, noon, []string{q.Nonce})
	for name, in := range map[string]contracts.Inputs{"again": with(olga), "by another": with(otto), "both": with(olga, otto)} {
		r, _ := p.Decide(&in, trust, past)
		if len(*in.State.Used) != len(in.Envelopes.Approvals) {
			t.Errorf("%s: used %v", name, *in.State.Used)
		}
		if r.Reason != contracts.ReasonApprovalInvalid {
			t.Errorf("%s: %v", name, r.Reason)
		}
		boss(contracts.ReasonApprovalInvalid).settled(t, name, p, in, trust, past)
	}
	in := with(olga, fresh)
	r, _ := p.Decide(&in, trust, past)
	if !bool(r.Verdict) || !slices.Equal(r.Approvals, []contracts.Digest{fresh.Digest()}) || !slices.Equal(*in.State.Used, []contracts.Digest{olga.Digest()}) {
		t.Errorf("%v: %v, used %v", r.Reason, r.Approvals, in.State.Used)
	}
	in.State.Used = nil
	if r, _ := p.Judge(in, trust); r.Reason != contracts.ReasonFailClosedError || r.Condition != 4 {
		t.Errorf("without what is used: %v at %d", r.Reason, r.Condition)
	}
	unknown := newTold()
	unknown.Allow(&first, noon, nil)
	boss(contracts.ReasonApprovalInvalid).settled(t, "used, and nobody knows", p, with(fresh), trust, unknown)
	denied := newTold()
	boss(contracts.ReasonApprovalRequired).settled(t, "only an ALLOW uses it up", p, with(), trust, denied)
	allowed.settled(t, "after a denial", p, with(olga), trust, denied)
}

// A quorum is of people.
func TestQuorum(t *testing.T) {
	p, trust := mustCompile(t, bankText(`{"id":"boss","tools":["pay"],"all":[{"approval":{"roles":["owner","cfo"],"quorum":2}}]}`, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	if q.Quorum != 2 || !slices.Equal(q.Roles, []string{"cfo", "owner"}) || q.Expires != noon.Add(usualTTL) {
		t.Fatalf("asked %+v", q)
	}
	r := otherNonce(q)
	need, invalid := boss(contracts.ReasonApprovalRequired), boss(contracts.ReasonApprovalInvalid)
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
		{"three", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "otto"), approvedBy(t, q, "pat")}, allowed, 3},
		{"one twice", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, r, "olga")}, need, 2},
		{"two keys of one", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "olga 2")}, need, 2},
		{"two keys of one, and another", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "olga 2"), approvedBy(t, q, "pat")}, allowed, 3},
		{"one and a clerk", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "carl")}, invalid, 1},
		{"one and one too late", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, lateFor(r), "pat")}, boss(contracts.ReasonApprovalExpired), 1},
		{"one, one too late and a clerk", []contracts.Envelope{approvedBy(t, lateFor(r), "pat"), approvedBy(t, q, "olga"), approvedBy(t, q, "carl")}, invalid, 1},
		{"one and a no", []contracts.Envelope{approvedBy(t, q, "olga"), refusedBy(t, q, "otto")}, invalid, 0},
		{"two and a no", []contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "pat"), refusedBy(t, q, "otto")}, invalid, 0},
		{"a no first", []contracts.Envelope{refusedBy(t, q, "otto"), approvedBy(t, q, "olga"), approvedBy(t, q, "pat")}, invalid, 0},
		{"two and a no to another request", []contracts.Envelope{refusedBy(t, r, "otto"), approvedBy(t, q, "olga"), approvedBy(t, q, "pat")}, allowed, 2},
		{"two and a no that nobody asked for", []contracts.Envelope{refusedBy(t, q, "carl"), approvedBy(t, q, "olga"), approvedBy(t, q, "pat")}, allowed, 2},
		{"his own no", []contracts.Envelope{refusedBy(t, q, "olga"), approvedBy(t, q, "olga"), approvedBy(t, r, "pat")}, invalid, 1},
		{"two in sixteen", append([]contracts.Envelope{approvedBy(t, q, "olga"), approvedBy(t, q, "otto")}, garbage...), allowed, 2},
		{"none in fourteen", garbage, invalid, 0},
	} {
		in := call
		in.Envelopes.Approvals = c.all
		r, why := p.Decide(&in, trust, newTold())
		if got := (want{r.Reason, r.Condition, r.Rule}); got != c.want || len(r.Approvals) != c.count || !slices.IsSortedFunc(r.Approvals, func(a, b contracts.Digest) int { return strings.Compare(a.String(), b.String()) }) {
			t.Errorf("%s: %v, want %v, and lists %v: %s", c.name, got, c.want, r.Approvals, why)
		}
		if again, _ := p.Judge(in, trust); string(again.Append(nil)) != string(r.Append(nil)) {
			t.Errorf("%s: judged again: %s", c.name, again.Append(nil))
		}
	}
}

func lateFor(q contracts.ApprovalRequest) contracts.ApprovalRequest {
	q.NotBefore, q.Expires = q.NotBefore+1, q.Expires+1
	return q
}

// One person may answer for several needs; nobody is asked where something else will do.
func TestApprovalsAmongNeeds(t *testing.T) {
	owner, cfo, look := `{"approval":{"roles":["owner"]}}`, `{"approval":{"roles":["cfo"],"ttl":"5m"}}`, `{"receipt":"look"}`
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
		{"the first of both", `"all":[` + owner + `,` + cfo + `]`, never, []string{"olga"}, boss(contracts.ReasonApprovalRequired), 1, "cfo"},
		{"one for both", `"all":[` + owner + `,` + cfo + `]`, never, []string{"pat"}, boss(contracts.ReasonApprovalRequired), 1, "cfo"}, // asked for ten minutes, where a cfo is good for five
		{"one for both, the cfo's first", `"all":[` + cfo + `,` + owner + `]`, never, []string{"pat"}, allowed, 1, ""},
		{"one whose own need is shorter", `"all":[` + owner + `,` + cfo + `]`, never, []string{"cleo"}, boss(contracts.ReasonApprovalInvalid), 0, ""},
		{"any", `"any":[` + owner + `,` + cfo + `]`, never, nil, boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"any, by the first", `"any":[` + owner + `,` + cfo + `]`, never, []string{"olga"}, allowed, 1, ""},
		{"any, by all", `"any":[` + owner + `,` + cfo + `]`, never, []string{"olga", "pat"}, allowed, 2, ""},
		{"any, by nobody", `"any":[` + owner + `,` + cfo + `]`, never, []string{"carl"}, boss(contracts.ReasonApprovalInvalid), 0, ""},
		{"or a receipt", `"any":[` + owner + `,` + look + `]`, looked, nil, allowed, 0, ""},
		{"or a receipt, and asked in vain", `"any":[` + owner + `,` + look + `]`, looked, []string{"olga"}, allowed, 0, ""},
		{"or a receipt, and garbage", `"any":[` + owner + `,` + look + `]`, looked, []string{"stranger"}, allowed, 0, ""},
		{"for want of a receipt", `"any":[` + look + `,` + owner + `]`, never, nil, boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"instead of a receipt", `"any":[` + look + `,` + owner + `]`, never, []string{"olga"}, allowed, 1, ""},
		{"with a receipt", `"all":[` + owner + `,` + look + `]`, looked, []string{"olga"}, allowed, 1, ""},
		{"without the receipt", `"all":[` + owner + `,` + look + `]`, never, []string{"olga"}, missing4("P1:bank:boss"), 0, ""},
		{"nothing but a receipt", `"any":[` + look + `]`, never, []string{"olga"}, missing4("P1:bank:boss"), 0, ""},
		{"or an attestation", `"any":[` + owner + `,` + notary + `]`, never, []string{"notary"}, allowed, 0, ""},
		{"with an attestation", `"all":[` + owner + `,` + notary + `]`, never, []string{"notary", "olga"}, allowed, 1, ""},
		{"an attestation alone", `"all":[` + owner + `,` + notary + `]`, never, []string{"notary"}, boss(contracts.ReasonApprovalRequired), 0, "owner"},
		{"without the attestation", `"all":[` + owner + `,` + notary + `]`, never, []string{"olga"}, missing4("P1:bank:boss"), 0, ""},
	} {
		p := mustCompile(t, bankText(`{"id":"boss","tools":["pay"],`+c.needs+`}`, ``))
		in := inChat(t, "pay", toBob)
		var q *contracts.ApprovalRequest
		plain := inChat(t, "pay", toBob)
		plain.Envelopes.Attestations = []contracts.Envelope{seen}
		if _, why := p.Decide(&plain, trust, never); why.Pending != nil {
			q = why.Pending
		} else { // an owner is asked for nothing here; if he were, it would be so
			one := mustCompile(t, bankText(`{"id":"boss","tools":["pay"],"all":[`+owner+`]}`, ``))
			q = one.tools["pay"].requires[0].needs[0].approval.request(&contracts.DecisionRecord{PolicyHash: p.Hash()}, p.tools["pay"], &in)
		}
		for _, who := range c.by {
			if who == "notary" {
				in.Envelopes.Attestations = []contracts.Envelope{seen}
			} else {
				in.Envelopes.Approvals = append(in.Envelopes.Approvals, approvedBy(t, *q, who))
			}
		}
		r, why := p.Decide(&in, trust, c.past)
		c.want.settled(t, c.name, p, in, trust, c.past)
		if len(r.Approvals) != c.count || why.Pending != nil && strings.Join(why.Pending.Roles, " ") != c.roles {
			t.Errorf("%s: lists %v, asks %+v", c.name, r.Approvals, why.Pending)
		}
		if judged := len(in.Envelopes.Approvals) > 0 && strings.Contains(string(r.Reason)+"ALLOW", "A") && (c.count > 0 || r.Condition == 4 && r.Reason != contracts.ReasonMissingRequirement); judged != (in.State.Used != nil) {
			t.Errorf("%s: used is read: %v", c.name, in.State.Used != nil)
		}
		if seen := len(in.Envelopes.Attestations) > 0; seen != (len(r.Attestations) == 1) {
			t.Errorf("%s: lists attestations %v", c.name, r.Attestations)
		}
	}
}

// A person is asked last, and by the first requirement of the stack that lacks him.
func TestApprovalsAreAskedLast(t *testing.T) {
	trust := people(t)
	needs := func(id, role string) string {
		return `,"requires":[{"id":"` + id + `","tools":["pay"],"all":[{"approval":{"roles":["` + role + `"]}}]}]`
	}
	last := overlay("o", needs("c", "clerk"))
	p := mustCompile(t, bankText(byOwner, ``), floor("f", needs("a", "cfo")), last)
	in := inChat(t, "pay", toBob)
	for _, step := range []struct{ rule, by string }{{"P0:f:a", "pat"}, {"P2:o:c", "carl"}} { // pat is an owner, too
		r, why := settled(t, p, &in, trust, newTold())
		if r.Reason != contracts.ReasonApprovalRequired || r.Rule != step.rule {
			t.Fatalf("%v by %s, want %s", r.Reason, r.Rule, step.rule)
		}
		in.Envelopes.Approvals = append(in.Envelopes.Approvals, approvedBy(t, *why.Pending, step.by))
	}
	if r := allowed.settled(t, "all", p, in, trust, newTold()); len(r.Approvals) != 2 || r.Rule != "P1:bank:all" {
		t.Errorf("lists %v", r.Approvals)
	}
	for name, c := range map[string]struct {
		docs   []string
		args   string
		change func(*contracts.Inputs)
		want   want
	}{
		"a rule":     {nil, `{"amount":1001,"kind":"sepa","to":"bob"}`, nil, contractsViolation("P1:bank:dear")},
		"an overlay": {[]string{overlay("x", `,"only":["look"]`)}, toBob, nil, contractsViolation("P2:x:only")},
		"nobody":     {nil, toBob, func(in *contracts.Inputs) { in.Caller.Roles = nil }, want{contracts.ReasonNoPolicyDefined, 5, ""}},
		"a grant": {nil, toBob, func(in *contracts.Inputs) {
			in.Envelopes.Delegation = []contracts.Envelope{by(t, "ann", contracts.Delegation{Delegate: "bob", Delegator: "ann"})}
		}, want{contracts.ReasonDelegationInvalid, 6, ""}},
		"a ceiling": {[]string{floor("x", `,"ceilings":{"risk":"low"}`)}, toBob, nil, want{contracts.ReasonCeilingViolation, 8, "P0:x:ceilings"}},
		"a floor":   {[]string{floor("x", `,"rules":[{"id":"r","deny":["pay"],"when":{"arg":"/to","eq":"bob"}}]`)}, toBob, nil, want{contracts.ReasonCeilingViolation, 8, "P0:x:r"}},
		"a budget":  {[]string{floor("x", `,"budgets":[{"id":"none","tools":["pay"],"limit":0,"per":"all","window":"total","cost":1}]`)}, toBob, nil, want{contracts.ReasonBudgetExceeded, 3, "P0:x:none"}},
	} {
		in := inChat(t, "pay", c.args)
		if c.change != nil {
			c.change(&in)
		}
		if r := c.want.settled(t, name, mustCompile(t, append(c.docs, bankText(byOwner, ``), last)...), in, trust, newTold()); r.Pending != nil || in.State.Used != nil {
			t.Errorf("%s: asked", name)
		}
	}
}

// A requirement that is met otherwise asks for nothing beside one that asks, and no answer is used up for it.
func TestApprovalsOfTheOthers(t *testing.T) {
	trust := people(t)
	p := mustCompile(t, bankText(`{"id":"either","tools":["pay"],"any":[{"approval":{"roles":["owner"]}},{"receipt":"look"}]},
		{"id":"boss","tools":["pay"],"all":[{"approval":{"roles":["cfo"]}}]}`, ``))
	call, never := inChat(t, "pay", toBob), newTold()
	_, why := settled(t, p, &call, trust, never)
	owners := *why.Pending
	looked := longSession(t)
	_, why = settled(t, p, &call, trust, looked)
	cfos := *why.Pending
	if owners.Roles[0] != "owner" || cfos.Roles[0] != "cfo" {
		t.Fatalf("asked %v, then %v", owners.Roles, cfos.Roles)
	}
	olga, cleo := approvedBy(t, owners, "olga"), approvedBy(t, cfos, "cleo")
	for name, c := range map[string]struct {
		past *told
		all  []contracts.Envelope
		want want
		list []contracts.Envelope
	}{
		"the one that asks":           {looked, []contracts.Envelope{cleo}, allowed, []contracts.Envelope{cleo}},
		"both":                        {looked, []contracts.Envelope{olga, cleo}, allowed, []contracts.Envelope{cleo}},
		"the one that is met":         {looked, []contracts.Envelope{olga}, boss(contracts.ReasonApprovalRequired), nil},
		"both ask":                    {never, []contracts.Envelope{olga, cleo}, allowed, []contracts.Envelope{olga, cleo}},
		"both ask, and one is there":  {never, []contracts.Envelope{cleo}, want{contracts.ReasonApprovalRequired, 4, "P1:bank:either"}, []contracts.Envelope{cleo}},
		"both ask, and the other one": {never, []contracts.Envelope{olga}, boss(contracts.ReasonApprovalRequired), []contracts.Envelope{olga}},
	} {
		in := call
		in.Envelopes.Approvals = c.all
		var listed []contracts.Digest
		for _, e := range c.list {
			listed = insert(listed, e.Digest())
		}
		if r := c.want.settled(t, name, p, in, trust, c.past); !slices.Equal(r.Approvals, listed) {
			t.Errorf("%s: lists %v", name, r.Approvals)
		}
	}
}
