package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// document is a bundle of one tool t that all may call, and what rest adds.
func document(rest string) string {
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
		"tools":{"t":{"effect":"read","input":{"type":"object","properties":{
			"list":{"type":"array","items":{"type":"integer"}}}}}}` + rest + `}`
}

const allowAll = `,"rules":[{"id":"all","allow":"t"}]`

// compile compiles one bundle.
func compile(t testing.TB, text string) *guardian.Policy {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 64}))
	p, err := guardian.Compile(contracts.Document{Canonical: tree.Root().Append(nil)})
	require.NoError(t, err)
	return p
}

func seedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// open makes a kernel over a new log.
func open(t testing.TB, p *guardian.Policy, trust *registry.Registry) *Kernel {
	t.Helper()
	k, err := New(Options{Policy: p, Key: seedKey(t, 7), Store: proofgraph.NewMemory(), Trust: trust})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// intent is a call of the tool, which returns its arguments.
func intent(session string) Intent {
	echo := func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil }
	return Intent{Tool: "t", Args: json.RawMessage(`{}`), Session: session, Driver: Func(echo)}
}

// judged takes a call to where its place in the log is to be taken. It holds the lock of its
// session.
func judged(k *Kernel, in Intent) (*call, *placement) {
	c := calls.New().(*call)
	c.k, c.ctx = k, context.Background()
	c.receive(in)
	c.policy, c.state = k.current(), k.shared.trust.Load()
	c.inputs.State.Trust = c.state.Digest()
	c.applyPin()
	c.parse()
	s, _ := c.lockSession()
	p := &placement{session: s}
	c.stamp(k.shared.clock(p.session))
	c.judge(p)
	c.reserved.charges = p.d.Record.Charges
	return c, p
}

// mustReadNothing judges the call again, with a flaw, and fails the test if the denial has read or
// found anything: what the kernel refuses itself could not be replayed otherwise.
func mustReadNothing(t *testing.T, c *call, p *placement, what string, flaw flaws) {
	t.Helper()
	c.flaws = flaws{}
	c.judge(p)
	c.flaws = flaw
	c.judge(p)
	c.denyUnrepresentable(p)
	c.flaws = flaws{}
	assert.Equal(t, contracts.Deny, p.d.Record.Verdict, what)
	assert.Zero(t, p.d.Record.Condition, what)
	assert.Equal(t, contracts.SessionState{Trust: c.inputs.State.Trust}, c.inputs.State, "%s: read", what)
	assert.Nil(t, p.d.Pending, what)
}

// mustReplay fails the test if the policy decides differently on the inputs that are recorded.
func mustReplay(t *testing.T, c *call, p *placement) {
	t.Helper()
	again, _ := c.policy.Judge(c.inputs, c.state)
	assert.Equal(t, string(p.d.Record.Append(nil)), string(again.Append(nil)), "judged again")
}

// A call that was judged while there was enough, and finds with its place that others were faster,
// is denied in that place, as the guardian denies on the balances that it found; and nothing is
// charged.
func TestLostReservation(t *testing.T) {
	t.Parallel()
	policy := compile(t, document(allowAll+`,"budgets":[
		{"id":"one","tools":"t","limit":1,"per":"all","window":"total","cost":1},
		{"id":"many","tools":"t","limit":9,"per":"all","window":"total","cost":1}]`))
	k := open(t, policy, nil)
	c, p := judged(k, intent("s"))
	p.session.mu.Unlock()
	require.Equal(t, contracts.Allow, p.d.Record.Verdict)
	require.Len(t, p.d.Record.Charges, 2)
	late, q := judged(k, intent("late"))
	defer q.session.mu.Unlock()
	d, _ := k.Guard(context.Background(), intent("faster"))
	require.True(t, d.Allowed(), "%v", d.Err())

	c.reserved.nonces = []string{"of an approval"}
	require.NoError(t, c.reserve(proofgraph.Place{}))
	require.True(t, c.reserved.lost)
	assert.False(t, k.shared.used.has(c.reserved.nonces...), "used, though the call is denied")
	c.denyLostReservation(p)
	r := &p.d.Record
	assert.Equal(t, contracts.Deny, r.Verdict)
	assert.Equal(t, contracts.ReasonBudgetExceeded, p.d.Reason)
	assert.Equal(t, p.d.Reason, r.Reason)
	assert.Equal(t, "P1:b:one", r.Rule)
	assert.EqualValues(t, 3, r.Condition)
	assert.Nil(t, r.Charges)
	assert.Zero(t, r.Expires)
	assert.NotEmpty(t, p.d.Why)
	for _, b := range c.inputs.State.Budgets {
		spent := k.shared.ledger.Spent(contracts.Charge{Budget: b.Budget, Of: b.Of, Window: b.Window})
		assert.EqualValues(t, 1, b.Spent, "%s: in the inputs", b.Budget)
		assert.EqualValues(t, 1, spent, "%s: spent", b.Budget)
	}
	mustReplay(t, c, p)

	late.place(q)
	require.NoError(t, q.err)
	assert.Equal(t, contracts.ReasonBudgetExceeded, q.d.Reason, "in its place")
	assert.Zero(t, q.session.running, "counted in, though it is denied")

	// What the kernel refuses itself when the call's turn comes again has read no balance.
	p.session.mu.Lock()
	mustReadNothing(t, c, p, "a fault", flaws{fault: "the context ended"})
	mustReadNothing(t, c, p, "unrepresentable", flaws{unrepresentable: "a field of another type"})
	p.session.mu.Unlock()

	// A call whose stack judges no more goes back without a charge: its next judgement makes its
	// own.
	c.reserved.charges = []contracts.Charge{{Amount: 1, Budget: "P1:b:many", Limit: 9, Window: "total"}}
	swapped, err := policy.Narrow()
	require.NoError(t, err)
	k.stack.Store(&stack{policy: swapped})
	assert.Equal(t, errStale, c.reserve(proofgraph.Place{}))
	assert.EqualValues(t, 1, k.shared.ledger.Spent(c.reserved.charges[0]))
}

// Between the judgement and the place of a call, a call of another session may consume the request
// that approved it. The call is then judged again: it takes no place, and neither charge nor nonce.
func TestConsumedMeanwhile(t *testing.T) {
	t.Parallel()
	k := open(t, compile(t, document(allowAll+`,"budgets":[
		{"id":"one","tools":"t","limit":1,"per":"all","window":"total","cost":1}]`)), nil)
	c, p := judged(k, intent("s"))
	p.session.mu.Unlock()
	require.Len(t, p.d.Record.Charges, 1)
	c.reserved.nonces = []string{"first", "second"}
	k.shared.used.add([]string{"second"})
	assert.Equal(t, errStale, c.reserve(proofgraph.Place{}))
	assert.Zero(t, k.shared.ledger.Spent(c.reserved.charges[0]))
	assert.False(t, k.shared.used.has("first"))

	c.reserved.nonces = []string{"third"}
	require.NoError(t, c.reserve(proofgraph.Place{}))
	assert.True(t, k.shared.used.has("third"))
}

// A call that was approved and finds its budget spent is denied on what was found. Its inputs hold
// what that verdict was made from and nothing that only the first one read; nothing of it is used.
func TestLostReservationReadsNoFurther(t *testing.T) {
	t.Parallel()
	policy := compile(t, document(`,
		"rules":[{"id":"busy","deny":"t","when":{"session":"calls","of":"t","ge":3}},{"id":"all","allow":"t"}],
		"requires":[{"id":"ask","tools":"t","all":[{"approval":{"roles":["owner"]}}]},
			{"id":"once","tools":"t","unless":{"session":"calls","lt":1},"all":[{"receipt":"t"}]}],
		"budgets":[{"id":"one","tools":"t","limit":1,"per":"all","window":"total","cost":1}]`))
	ann, err := crypto.PublicOf(seedKey(t, 8))
	require.NoError(t, err)
	owner := registry.Key{Name: "ann", Public: ann, Role: registry.Approver, Roles: []string{"owner"}}
	trust, err := registry.New(0, owner)
	require.NoError(t, err)
	k := open(t, policy, trust)
	in := intent("s")
	d, _ := k.Guard(context.Background(), in)
	require.NotNil(t, d.Pending, "%v", d.Err())
	yes, err := d.Pending.Approve(seedKey(t, 8))
	require.NoError(t, err)
	in.Approvals = []contracts.Envelope{yes}

	c, p := judged(k, in)
	defer p.session.mu.Unlock()
	st := &c.inputs.State
	require.Equal(t, contracts.Allow, p.d.Record.Verdict, p.d.Why)
	require.Len(t, p.d.Record.Approvals, 1)
	require.NotNil(t, st.Used)
	require.Len(t, st.Calls, 2)
	faster := slices.Clone(c.reserved.charges)
	require.True(t, k.shared.ledger.Reserve(faster, nil), "nothing was left")
	require.NoError(t, c.reserve(proofgraph.Place{}))
	require.True(t, c.reserved.lost)
	back := []contracts.Settlement{{Budget: faster[0].Budget}} // it comes back, but that is later
	require.NoError(t, k.shared.ledger.Settle(faster, back, contracts.ReasonToolError))

	c.denyLostReservation(p)
	assert.Equal(t, contracts.ReasonBudgetExceeded, p.d.Reason, p.d.Why)
	assert.Nil(t, p.d.Record.Approvals)
	assert.Nil(t, st.Used)
	assert.Nil(t, st.Calls)
	assert.Nil(t, st.Receipts)
	require.Len(t, st.Budgets, 1)
	assert.EqualValues(t, 1, st.Budgets[0].Spent)
	mustReplay(t, c, p)
	assert.False(t, p.session.past.Used(d.Pending), "the approval is used, though nothing was allowed")

	// What the kernel refuses itself has read nothing, whatever it read before.
	mustReadNothing(t, c, p, "a fault", flaws{fault: "the context ended"})
	mustReadNothing(t, c, p, "unrepresentable", flaws{unrepresentable: "a field of another type"})
}

// What a session was judged by goes when it is closed, and does not come back.
func TestClosedSessionsForget(t *testing.T) {
	t.Parallel()
	o := Options{Policy: compile(t, document(allowAll)), Key: seedKey(t, 7), Store: proofgraph.NewMemory()}
	remembers := func(k *Kernel, session string) bool {
		return !reflect.DeepEqual(k.shared.session(session).past, past.Session{})
	}
	k, err := New(o)
	require.NoError(t, err)
	for _, session := range []string{"open", "closed"} {
		d, _ := k.Guard(context.Background(), intent(session))
		require.NoError(t, d.Err())
		require.True(t, remembers(k, session), session)
	}
	require.NoError(t, k.CloseSession(context.Background(), "closed"))
	for range 2 {
		assert.True(t, remembers(k, "open"))
		assert.False(t, remembers(k, "closed"))
		require.NoError(t, k.Close())
		k, err = New(o)
		require.NoError(t, err)
	}
	require.NoError(t, k.Close())
}

// Receipts of the session of calls that name none are nobody's.
func TestNoReceiptsOfMain(t *testing.T) {
	t.Parallel()
	k := open(t, compile(t, document(allowAll)), nil)
	p := &priors{session: k.shared.session(contracts.DefaultSession)}
	r, err := p.Receipt("t", crypto.Value{})
	require.Error(t, err)
	assert.Zero(t, r)
	assert.Equal(t, err, p.unread)
}

// A call that read the arguments of an earlier one, however large, leaves no more memory to the
// next call than others do.
func TestReadingLeavesNoMemory(t *testing.T) { // alone: it looks at a call that the next one may take
	const many = 100_000
	k := open(t, compile(t, document(allowAll)), nil)
	in := intent("s")
	in.Args = []byte(`{"list":[` + strings.Repeat("1,", many) + `1]}`)
	d, r := k.Guard(context.Background(), in)
	require.NoError(t, d.Err())

	c := calls.New().(*call)
	c.k, c.ctx = k, context.Background()
	c.receive(intent("s"))
	v, err := c.priors.args(past.Run{Decision: r.Index - 1})
	require.NoError(t, err)
	require.Equal(t, many+1, v.Get("list").Len())
	c.free()
	require.Nil(t, c.k, "the call was not freed")
	assert.Nil(t, c.priors.inputs)
	n := sliced(reflect.ValueOf(c).Elem()) + sliced(reflect.ValueOf(c.buffers).Elem())
	assert.LessOrEqual(t, n, 4*maxScratch, "bytes that a freed call holds")
}

// sliced returns how many bytes the slices below a value have, pointers not followed.
func sliced(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Slice:
		return v.Cap() * int(v.Type().Elem().Size())
	case reflect.Struct:
		for i := range v.NumField() {
			n += sliced(v.Field(i))
		}
	}
	return n
}
