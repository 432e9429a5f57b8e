package guardian

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// told is a past of which everything is known: a ledger, a session, and the arguments of its runs.
type told struct {
	*past.Ledger
	*past.Session
	args  map[uint64]crypto.Value // by index of the decision; what is not there is not kept
	asked int                     // receipts
}

func newTold() *told {
	return &told{Ledger: new(past.Ledger), Session: new(past.Session), args: map[uint64]crypto.Value{}}
}

func (p *told) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	p.asked++
	return p.Session.Receipt(tool, same, func(r past.Run) (crypto.Value, error) {
		v, ok := p.args[r.Decision]
		if !ok {
			return v, errors.New("not kept")
		}
		return v, nil
	})
}

var errUntold = errors.New("not kept")

func (p *told) Facts(*contracts.PriorReceipt) (crypto.Value, error) { return crypto.Value{}, errUntold }

func (p *told) Source(past.Source) (past.Supply, error) { return past.Supply{}, errUntold }

func (p *told) Marks() (bool, []string, error) { return false, nil, errUntold }

func (p *told) Used(_ contracts.Digest, r *contracts.ApprovalRequest) bool { return p.Session.Used(r) }

// ran notes that a tool was allowed and executed.
func (p *told) ran(t testing.TB, n int, tool, args string, at contracts.Time) {
	t.Helper()
	r := past.Run{Tool: tool, Decision: uint64(2 * n), Receipt: uint64(2*n + 1),
		Entry: crypto.Sum([]byte{byte(n), byte(n >> 8)}), Time: at}
	p.Allow(&contracts.DecisionRecord{Tool: tool}, at, nil)
	p.args[r.Decision] = valueOf(t, args)
	p.Execute(r, crypto.Value{}, past.Facts{})
}

// people is a trust state of those who approve and attest.
func people(t testing.TB) *registry.State {
	t.Helper()
	key := func(seed, name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: publicOf(t, seed), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", "root", registry.Root), key("olga", "olga", registry.Approver, "owner"),
		key("olga 2", "olga", registry.Approver, "owner"),
		key("otto", "otto", registry.Approver, "owner"), key("pat", "pat", registry.Approver, "owner", "cfo"),
		key("carl", "carl", registry.Approver, "clerk"), key("cleo", "cleo", registry.Approver, "cfo"),
		key("notary", "notary", registry.Attestor), key("ann", "ann", registry.Delegator, "clerk"))
	require.NoError(t, err)
	s, err := r.Initial(publicOf(t, "kernel"), publicOf(t, "log"))
	require.NoError(t, err)
	return s
}

// bankText is a bundle of tools to pay, to look and to close, with these requirements and more
// keys.
func bankText(requires, more string) string {
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"bank","version":1},"lists":{"known":["bob"]},"tools":{
		"pay":{"effect":"write","input":{"type":"object","required":["to","amount"],"properties":{
			"to":{"type":"string"},"amount":{"type":"number"},"note":{"type":"string"},"from":{"type":["string","null"]},"kind":{"type":"string","default":"sepa"},"to/0":{"type":"object","additionalProperties":false}}}},
		"look":{"effect":"read","input":{"type":"object","properties":{"payee":{"type":"string"},"n":{"type":"integer"},"deep":{"type":"object","properties":{"to":{"type":"string"}}},"list":{"type":"array","items":{"type":"string"}}}}},
		"close":{"effect":"destructive","input":{"type":"object","properties":{}}},
		"idle":{"effect":"read","input":{"type":"object","properties":{}}}},
		"rules":[{"id":"dear","deny":"pay","when":{"arg":"/amount","gt":1000}},{"id":"all","allow":["pay","look","close"],"when":{"caller":"roles","has":"clerk"}}],
		"requires":[` + requires + `]` + more + `}`
}

const toBob = `{"amount":5,"kind":"sepa","to":"bob"}`

// inChat are the inputs of a call in a session with a name.
func inChat(t testing.TB, tool, args string) contracts.Inputs {
	t.Helper()
	in := inputs(t, tool, args)
	in.Session = "chat"
	return in
}

// settled judges a call by its past, then by what that left in the inputs, and again after these
// were written and read.
func settled(t testing.TB, p *Policy, in *contracts.Inputs, trust *registry.State,
	past past.Past) (contracts.DecisionRecord, Why) {
	t.Helper()
	r, why := judgeBy(p, in, trust, past)
	read, err := contracts.ParseInputs(in.Append(nil))
	require.NoError(t, err, "%+v", in)
	for _, in := range []contracts.Inputs{*in, *read} {
		again, whyAgain := p.judged(in, trust)
		require.Equal(t, string(r.Append(nil)), string(again.Append(nil)), "%s, then, judged again, %s", why, whyAgain)
		require.Equal(t, whyAgain.Pending, why.Pending, "pending %v and", why.Pending)
	}
	require.True(t, (r.Verdict != contracts.Deny || why.What != "") &&
		(why.Pending != nil) == (r.Reason == contracts.ReasonApprovalRequired) &&
		(r.Pending != nil) == (why.Pending != nil), "%v: why %+v", r.Reason, why)
	return r, why
}

func (w want) settled(t testing.TB, name string, p *Policy, in contracts.Inputs, trust *registry.State,
	past past.Past) contracts.DecisionRecord {
	t.Helper()
	r, why := settled(t, p, &in, trust, past)
	got := want{r.Reason, r.Condition, r.Rule}
	assert.True(t, got == w && bool(r.Verdict) == (w.reason == contracts.ReasonAllow), "%s: %v, want %v (%s)", name,
		got, w, why)
	return r
}

var allowed = want{contracts.ReasonAllow, 8, "P1:bank:all"}

func missing4(id string) want { return want{contracts.ReasonMissingRequirement, 4, id} }

// onlyLedger is a past in which nothing happened but what a ledger says.
type onlyLedger struct{ *past.Ledger }

func (onlyLedger) Calls(string) uint64 { return 0 }

func (onlyLedger) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	return contracts.PriorReceipt{Tool: tool, Same: same}, nil
}

func (onlyLedger) Facts(*contracts.PriorReceipt) (crypto.Value, error) {
	return crypto.Value{}, errUntold
}

func (onlyLedger) Source(past.Source) (past.Supply, error) { return past.Supply{}, errUntold }

func (onlyLedger) Marks() (bool, []string, error) { return false, nil, errUntold }

func (onlyLedger) Used(contracts.Digest, *contracts.ApprovalRequest) bool { return false }

func valueOf(t testing.TB, text string) crypto.Value {
	t.Helper()
	tree := new(crypto.Tree)
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 64}))
	return tree.Root()
}

// judgeBy judges a call by its past, and leaves what that answered in the inputs.
func judgeBy(p *Policy, in *contracts.Inputs, trust *registry.State, log past.Past) (contracts.DecisionRecord, Why) {
	r, state, why := p.Decide(in, trust, log)
	in.State = state
	return r, why
}
