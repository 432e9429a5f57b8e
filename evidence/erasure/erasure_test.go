package erasure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const fixturePolicy = `{"bundle":{"name":"fixture","version":1},"helm":"policy/v1","layer":"P1","rules":[` +
	`{"allow":["echo","none","text","drift","fail"],"id":"all"}],` +
	`"tools":{"drift":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},` +
	`"output":{"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"},"risk":"low"},` +
	`"echo":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},"risk":"low"},` +
	`"fail":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},"risk":"low"},` +
	`"never":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},"risk":"low"},` +
	`"none":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},"risk":"low"},` +
	`"text":{"effect":"read","input":{"properties":{"who":{"type":"string"}},"type":"object"},"risk":"low"}}}`

// A testCall is one call of the fixture's log, whose arguments and output have its label in them.
type testCall struct {
	label   string
	tool    string
	session string
	caller  contracts.Caller

	id                        string // of the decision
	decision, receipt         uint64 // indexes of entries
	decisionHash, receiptHash contracts.Digest
	inputs                    contracts.Digest
	output                    *contracts.Digest
}

// A fixture is a log of a kernel, with calls to be erased.
type fixture struct {
	testing.TB
	store  proofgraph.Store
	kernel *helm.Kernel
	trust  *registry.State
	calls  []*testCall
}

// secretOf is in the arguments of a call, and in its output.
func secretOf(label string) string { return "secret of " + label + "." }

var (
	alice   = contracts.Caller{ID: "alice"}
	aliceOf = contracts.Caller{ID: "alice", Tenant: "acme", Roles: []string{"nurse"}}
	bob     = contracts.Caller{ID: "bob"}
	long    = contracts.Caller{ID: strings.Repeat("x", 300), Tenant: "a\x00b"}
	sly     = contracts.Caller{ID: contracts.Hashed("alice")}
)

const illegal = "no such name"

// newFixture makes a log of calls that went in every way, with the session "gone" closed before the
// last of them.
func newFixture(t testing.TB, s proofgraph.Store) *fixture {
	t.Helper()
	c := &fixture{TB: t, store: s}
	c.open()
	for i, x := range []*testCall{
		{tool: "echo", session: "s1", caller: alice},
		{tool: "echo", session: "s1", caller: bob},
		{tool: "none", session: "s1", caller: alice},
		{tool: "none", session: "s2", caller: bob},
		{tool: "text", session: "s2", caller: alice},
		{tool: "drift", session: "s2", caller: aliceOf},
		{tool: "fail", session: "s2", caller: aliceOf},
		{tool: "never", session: "s2", caller: alice},
		{tool: "unheard-of", session: "s1", caller: bob},
		{tool: "echo", caller: sly},
		{tool: "echo"},
		{tool: "echo", session: "gone", caller: bob},
		{tool: "echo", session: illegal, caller: bob},
		{tool: "echo", session: illegal, caller: alice},
		{tool: "echo", session: "s3", caller: long},
		{tool: "echo", session: "gone", caller: bob}, // after it was closed
		{tool: "echo", session: "gone", caller: aliceOf},
	} {
		if i == 15 {
			require.NoError(t, c.kernel.CloseSession(t.Context(), "gone"))
		}
		c.call(x)
	}
	c.index()
	return c
}

func (c *fixture) open() {
	c.Helper()
	policy, err := guardian.Compile(contracts.Document{Name: "fixture",
		Canonical: forge.CanonicalText(c, fixturePolicy)})
	require.NoError(c, err)
	drivers := map[string]executor.Driver{}
	for _, tool := range []string{"drift", "echo", "fail", "never", "none", "text"} {
		drivers[tool] = scripted(tool)
	}
	c.kernel, err = helm.New(helm.Options{Policy: policy, Key: forge.Key(c, forge.SeedK1),
		LogKey: forge.Key(c, forge.SeedL), Store: c.store, Origin: forge.Origin,
		Drivers: drivers, Keep: helm.Keep{Outputs: true}})
	require.NoError(c, err)
	c.trust = c.kernel.Trust()
}

// A scripted is a tool, by its name.
type scripted string

func (w scripted) Run(_ context.Context, call contracts.Call) (executor.Result, error) {
	if call.Session == "papers" {
		return executor.Result{Output: []byte(fixturePolicy)}, nil
	}
	switch w {
	case "none":
		return executor.Result{}, nil
	case "text":
		return executor.Result{Output: append([]byte("not JSON: "), call.Args...)}, nil
	case "fail":
		return executor.Result{}, errTool
	}
	return executor.Result{Output: call.Args}, nil
}

func (c *fixture) call(x *testCall) {
	c.Helper()
	x.label = fmt.Sprint(len(c.calls))
	d, _ := c.kernel.Guard(c.Context(), helm.Intent{Tool: x.tool, Session: x.session, Caller: x.caller,
		Args: json.RawMessage(fmt.Sprintf(`{"who":%q}`, secretOf(x.label)))})
	if x.id = d.Record.ID; x.id == "" {
		c.Fatalf("%s: %v", x.label, d.Err())
	}
	c.calls = append(c.calls, x)
}

// index finds the entries of the calls.
func (c *fixture) index() {
	c.Helper()
	byID, byDecision := map[string]*testCall{}, map[contracts.Digest]*testCall{}
	for _, x := range c.calls {
		byID[x.id] = x
	}
	size, err := c.store.Size(c.Context())
	require.NoError(c, err)
	var reader contracts.Reader
	i := uint64(0)
	for e, err := range c.store.Entries(c.Context(), 0, size) {
		require.NoError(c, err)
		sealed, err := reader.Open(e)
		require.NoError(c, err)
		st, err := sealed.Statement()
		require.NoError(c, err)
		if d := st.Judgement(); d != nil {
			x := byID[d.ID]
			x.decision, x.decisionHash, x.inputs, x.receipt, x.receiptHash = i, e.Hash(), d.InputsHash, i, e.Hash()
			byDecision[e.Hash()] = x
		} else if st.Receipt != nil {
			x := byDecision[st.Receipt.DecisionHash]
			x.receipt, x.receiptHash, x.output = i, e.Hash(), st.Receipt.OutputHash
		}
		i++
	}
}

func (c *fixture) mustErase(which erasure.Selection) erasure.Erasure {
	c.Helper()
	e, err := erasure.Erase(c.Context(), c.store, which)
	require.NoError(c, err)
	return e
}

// pack makes a checkpoint and returns the evidence, verified.
func (c *fixture) pack(last []byte) ([]byte, evidence.Report) {
	c.Helper()
	if _, err := c.kernel.Checkpoint(c.Context()); err != nil {
		c.Fatal(err)
	}
	var b bytes.Buffer
	require.NoError(c, evidence.Write(c.Context(), &b, c.store, forge.Key(c, forge.SeedK1)))
	r, err := verifyBytes(c, b.Bytes(), evidence.Options{Trust: c.trust, Origin: forge.Origin, Last: last})
	require.True(c, err == nil && r.Success(evidence.Logged), "%+v, %v", r, err)
	return b.Bytes(), r
}

// lacks requires that the store has the blobs of all calls but the labelled ones.
func (c *fixture) lacks(labels string) {
	c.Helper()
	gone := strings.Fields(labels)
	for _, x := range c.calls {
		erased := slices.Contains(gone, x.label)
		if _, err := c.store.Blob(c.Context(), x.inputs); errors.Is(err, proofgraph.ErrNoBlob) != erased ||
			err != nil && !erased {
			c.Errorf("inputs of %s: %v", x.label, err)
		}
		if x.output == nil {
			continue
		}
		erased = erased && *x.output != crypto.Sum([]byte("null"))
		if _, err := c.store.Blob(c.Context(), *x.output); errors.Is(err, proofgraph.ErrNoBlob) != erased ||
			err != nil && !erased {
			c.Errorf("output of %s: %v", x.label, err)
		}
	}
}

// TestEraseSelects: however a call is named, everything kept of it, except its entries, is
// erased, and nothing of any other call.
func TestEraseSelects(t *testing.T) {
	t.Parallel()
	of := func(f func(c *fixture) erasure.Selection) func(*fixture) erasure.Selection { return f }
	is := func(s erasure.Selection) func(*fixture) erasure.Selection {
		return func(*fixture) erasure.Selection { return s }
	}
	for _, x := range []struct {
		name  string
		which func(c *fixture) erasure.Selection
		want  string // labels
		kept  int
	}{
		{"a session", is(erasure.Selection{Sessions: []string{"s1"}}), "0 1 2 8", 1},
		{"a session, with calls that were refused because it was closed",
			is(erasure.Selection{Sessions: []string{"gone"}}), "11 15 16", 0},
		{"a session of no legal name", is(erasure.Selection{Sessions: []string{illegal}}), "12 13", 0},
		{"a session that is not there", is(erasure.Selection{Sessions: []string{"s4"}}), "", 0},
		{"the session of calls that name none", is(erasure.Selection{Sessions: []string{"main"}}), "9 10", 0},
		{"a caller", is(erasure.Selection{Callers: []contracts.Caller{alice}}), "0 2 4 7 13", 1},
		{"a caller of a tenant", is(erasure.Selection{Callers: []contracts.Caller{{ID: "alice", Tenant: "acme"}}}),
			"5 6 16", 0},
		{"a caller whose names are too long", is(erasure.Selection{Callers: []contracts.Caller{long}}), "14", 0},
		{"a caller with the name of another's digest", is(erasure.Selection{Callers: []contracts.Caller{sly}}), "9", 0},
		{"callers without a name", is(erasure.Selection{Callers: []contracts.Caller{{}}}), "10", 0},
		{"a receipt", of(func(c *fixture) erasure.Selection {
			return erasure.Selection{Receipts: []contracts.Digest{c.calls[4].receiptHash}}
		}), "4", 0},
		{"a decision", of(func(c *fixture) erasure.Selection {
			return erasure.Selection{Receipts: []contracts.Digest{c.calls[4].decisionHash}}
		}), "4", 0},
		{"a receipt by index",
			of(func(c *fixture) erasure.Selection { return erasure.Selection{Entries: []uint64{c.calls[1].receipt}} }),
			"1", 0},
		{"a decision by index",
			of(func(c *fixture) erasure.Selection { return erasure.Selection{Entries: []uint64{c.calls[1].decision}} }),
			"1", 0},
		{"a denial",
			of(func(c *fixture) erasure.Selection { return erasure.Selection{Entries: []uint64{c.calls[7].receipt}} }),
			"7", 0},
		{"all of that", of(func(c *fixture) erasure.Selection {
			return erasure.Selection{
				Receipts: []contracts.Digest{c.calls[10].receiptHash, c.calls[10].decisionHash},
				Entries:  []uint64{c.calls[1].receipt, c.calls[1].receipt},
				Sessions: []string{"s2", "s3", illegal},
				Callers:  []contracts.Caller{alice},
			}
		}), "0 1 2 3 4 5 6 7 10 12 13 14", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newFixture(t, proofgraph.NewMemory())
			_, before := c.pack(nil)
			which := x.which(c)
			e := c.mustErase(which)
			var labels []string
			for _, call := range e.Calls {
				for _, p := range c.calls {
					if p.id == call.ID && p.decision == call.Index {
						labels = append(labels, p.label)
					}
				}
			}
			slices.SortFunc(labels, func(a, b string) int { return len(a)*100 + strings.Compare(a, b) - len(b)*100 })
			got := strings.Join(labels, " ")
			assert.True(t, got == x.want && e.Size == before.Size && len(labels) == len(e.Calls),
				"of %d entries: %s, want %s", e.Size, got, x.want)
			if x.name == "all of that" {
				_, err := c.store.Blob(t.Context(), crypto.Sum([]byte("null")))
				assert.ErrorIs(t, err, proofgraph.ErrNoBlob,
					"all who have the output null are selected, and it is there")
				c.calls[2].output, c.calls[3].output = nil, nil
			}
			c.lacks(x.want)
			assert.True(t, len(e.Kept) == x.kept && len(e.Gone) == 0 && slices.IsSortedFunc(e.Erased, entry.Compare),
				"%d kept, %d gone", len(e.Kept), len(e.Gone))
			again := c.mustErase(which)
			assert.True(t, again.Erased == nil && (len(again.Gone) == len(e.Erased) ||
				len(again.Calls) != len(e.Calls)) && (slices.Equal(again.Kept, e.Kept) ||
				len(again.Calls) != len(e.Calls)), "again: %+v after %+v", again, e)
			_, after := c.pack(before.Checkpoint)
			assert.True(t, after.History == evidence.Fresh && after.Size == before.Size &&
				after.MerkleRoot == before.MerkleRoot && slices.Equal(after.Erased, e.Erased), "%+v", after)
			n := before.Replay.Replayed + before.Replay.KernelsOwn
			assert.True(t, after.Replay.NotReplayable <= uint64(len(labels)) &&
				after.Replay.Replayed+after.Replay.KernelsOwn+after.Replay.NotReplayable == n, "%+v after %+v",
				after.Replay, before.Replay)
		})
	}
}

var errTool = errors.New("the tool fails")

func verifyBytes(t testing.TB, pack []byte, o evidence.Options) (evidence.Report, error) {
	t.Helper()
	return evidence.Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
}
