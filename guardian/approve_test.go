package guardian

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NotNil(t, why.Pending, "%v: %s", r.Reason, why)
	return *why.Pending
}

// approvedBy signs with the key of any name.
func approvedBy(t testing.TB, q contracts.ApprovalRequest, signer string) contracts.Envelope {
	t.Helper()
	e, err := q.Approve(keyOf(t, signer))
	require.NoError(t, err)
	return e
}

func refusedBy(t testing.TB, q contracts.ApprovalRequest, signer string) contracts.Envelope {
	t.Helper()
	e, err := q.Refuse(keyOf(t, signer))
	require.NoError(t, err)
	return e
}

func attested(t testing.TB, signer string, a contracts.Attestation) contracts.Envelope {
	t.Helper()
	if a.Claims.Kind() == crypto.Missing {
		a.Claims = valueOf(t, `{}`)
	}
	e, err := a.Sign(keyOf(t, signer))
	require.NoError(t, err)
	return e
}

func boss(reason contracts.ReasonCode) want { return want{reason, 4, "P1:bank:boss"} }

// Whatever is wrong with an approval, it is none; and next to a good one it changes nothing.
func TestApproval(t *testing.T) {
	t.Parallel()
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	invalid, late, need := boss(contracts.ReasonApprovalInvalid), boss(contracts.ReasonApprovalExpired),
		boss(contracts.ReasonApprovalRequired)
	revoked := after(t, trust, contracts.TrustEvent{Type: "revoke", ID: digestOf(crypto.KeyID(publicOf(t, "olga"))),
		Why: "left"})
	// with is an answer of olga's to another request
	with := func(change func(*contracts.ApprovalRequest)) contracts.Envelope {
		q := q
		change(&q)
		return approvedBy(t, q, "olga")
	}
	type request = contracts.ApprovalRequest
	const minute = 60_000
	refused := boss(contracts.ReasonApprovalRefused)
	refusal := func(change func(*request)) contracts.Envelope {
		q := q
		change(&q)
		return refusedBy(t, q, "olga")
	}
	for _, c := range []struct {
		name  string
		trust *registry.State
		e     contracts.Envelope
		want  want
	}{
		{"good", trust, approvedBy(t, q, "olga"), allowed},
		{"by another owner", trust, approvedBy(t, q, "pat"), allowed},
		{"by hand", trust,
			with(func(r *request) {
				r.Nonce, r.NotBefore, r.Expires = strings.Repeat("ab", 16), noon-14*minute, noon+1
			}), allowed},
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
		{"a refusal", trust, refusedBy(t, q, "olga"), refused},
		{"a refusal that was made for another time", trust, refusal(func(r *request) { r.NotBefore++ }), refused},
		{"a refusal from long ago", trust,
			refusal(func(r *request) { r.NotBefore, r.Expires = noon-minute, noon }), refused},
		{"a refusal of a request that holds too long", trust, refusal(func(r *request) { r.Expires += minute }),
			refused},
		{"a refusal of another call", trust, refusal(func(r *request) { r.ArgsHash[0]++ }), invalid},
		{"a refusal of a call by another", trust, refusal(func(r *request) { r.Caller.ID = "bob" }), invalid},
		{"a refusal under another policy", trust, refusal(func(r *request) { r.PolicyHash[0]++ }), invalid},
		{"a refusal that other roles were asked for", trust,
			refusal(func(r *request) { r.Roles = []string{"clerk"} }), invalid},
		{"a refusal by a revoked key", revoked, refusedBy(t, q, "olga"), invalid},
		{"a refusal by a clerk", trust, refusedBy(t, q, "carl"), invalid},
		{"no envelope", trust,
			contracts.Envelope(`{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"` + strings.Repeat("0", 64) + `","sig":"` + strings.Repeat("A", 86) + `=="}]}`), invalid},
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
		{"a caller of more roles", trust,
			with(func(r *request) { r.Caller.Roles = append(slices.Clone(r.Caller.Roles), "owner") }), invalid},
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
		assert.Equal(t, bool(r.Verdict), len(r.Approvals) == 1 && r.Approvals[0] == c.e.Digest(), "%s: lists %v",
			c.name, r.Approvals)
		if c.e == nil || bool(r.Verdict) || c.trust != trust {
			continue
		}
		for _, list := range [][]contracts.Envelope{{c.e, approvedBy(t, otherNonce(q), "otto")},
			{approvedBy(t, otherNonce(q), "otto"), c.e}} {
			in.Envelopes.Approvals = list
			r := allowed.settled(t, c.name+", beside a good one", p, in, c.trust, newTold())
			assert.Len(t, r.Approvals, 1, "%s: lists", c.name)
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
	t.Parallel()
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	in := inChat(t, "pay", toBob)
	good := approvedBy(t, asked(t, p, in, trust), "olga")
	in.Envelopes.Approvals = []contracts.Envelope{good}
	allowed.settled(t, "good", p, in, trust, newTold())
	for i := 0; i < 8*len(good); i += 13 {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		in.Envelopes.Approvals = []contracts.Envelope{bad}
		r, _ := judgeBy(p, &in, trust, newTold())
		require.Equal(t, contracts.ReasonApprovalInvalid, r.Reason, "bit %d", i)
	}
}

// What is asked follows from the call, its time and the policy, and from nothing else.
func TestPendingRequest(t *testing.T) {
	t.Parallel()
	p, trust := mustCompile(t, bankText(byOwner, ``)), people(t)
	call := inChat(t, "pay", toBob)
	q := asked(t, p, call, trust)
	tree := valueOf(t, bankText("", "")).Get("tools").Get("pay")
	assert.True(t, q.Tool == "pay" && q.ArgsHash == call.ArgsHash && q.Session == "chat" &&
		q.Caller.Equal(call.Caller) && q.PolicyHash == p.Hash() && q.Quorum == 1 && slices.Equal(q.Roles,
		[]string{"owner"}) && q.NotBefore == noon && q.Expires == noon.Add(15*60e9) &&
		q.SchemaHash == crypto.Sum(tree.Append(nil)), "asked %+v", q)
	zero := q
	zero.Nonce = strings.Repeat("0", 32)
	assert.Equal(t, zero.Digest().String()[:32], q.Nonce, "nonce")
	if again := asked(t, p, call, nil); again.Digest() != q.Digest() {
		t.Error("another request for the same call")
	}
	later := call
	later.Time++
	if again := asked(t, p, later, trust); again.Nonce == q.Nonce {
		t.Error("the same nonce at another time")
	}
	in := call
	r, why := judgeBy(p, &in, trust, newTold())
	assert.True(t, *r.Pending == why.Pending.Digest() && why.What == "a person of the role owner must approve the call",
		"pending %s: %s", r.Pending, why)
	two := call
	byTwo := strings.Replace(byOwner, `"roles":["owner"]`, `"roles":["owner","cfo"],"quorum":2`, 1)
	if _, why := judgeBy(mustCompile(t, bankText(byTwo, ``)), &two, trust,
		newTold()); why.What != "2 people of the roles cfo, owner must approve the call" {
		t.Errorf("asks two: %s", why)
	}
	why.Pending.Caller.Roles[0], why.Pending.Roles[0] = "x", "x"
	assert.True(t, in.Caller.Roles[0] == "clerk" && asked(t, p, call, trust).Nonce == q.Nonce,
		"the request shares memory with call or policy")
}

// Consumed by an ALLOW, a request cannot be answered again, by any approver.
func TestApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
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
	for name, in := range map[string]contracts.Inputs{"again": with(olga), "by another": with(otto),
		"both": with(olga, otto)} {
		r, _ := judgeBy(p, &in, trust, past)
		assert.Equal(t, len(in.Envelopes.Approvals), len(*in.State.Used), "%s: used %v", name, *in.State.Used)
		assert.Equal(t, contracts.ReasonApprovalInvalid, r.Reason, "%s", name)
		boss(contracts.ReasonApprovalInvalid).settled(t, name, p, in, trust, past)
	}
	in := with(olga, fresh)
	r, _ := judgeBy(p, &in, trust, past)
	assert.True(t, bool(r.Verdict) && slices.Equal(r.Approvals, []contracts.Digest{fresh.Digest()}) &&
		slices.Equal(*in.State.Used, []contracts.Digest{olga.Digest()}), "%v: %v, used %v", r.Reason, r.Approvals,
		in.State.Used)
	in.State.Used = nil
	r, _ = p.judged(in, trust)
	assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == 4, "without what is used: %v at %d",
		r.Reason, r.Condition)
	unknown := newTold()
	unknown.Allow(&first, noon, nil)
	boss(contracts.ReasonApprovalInvalid).settled(t, "used, and nobody knows", p, with(fresh), trust, unknown)
	denied := newTold()
	boss(contracts.ReasonApprovalRequired).settled(t, "only an ALLOW uses it up", p, with(), trust, denied)
	allowed.settled(t, "after a denial", p, with(olga), trust, denied)
}
