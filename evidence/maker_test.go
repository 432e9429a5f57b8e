package evidence

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

const (
	testOrigin = "example.test/log"
	testStart  = contracts.Time(1790000000000)
)

// Seeds of the test keys: K1 is the kernel key of the initial state, L its log key. X is in no state.
const (
	seedK1 = 1 + iota
	seedK2
	seedK3
	seedL
	seedL2
	seedX
	seedB  // an attestor
	seedR1 // from here on the second implementation has the keys too, and spoils events which they sign
	seedR2
	seedR3
	seedR4
	seedA // an approver
	seedA2
	seedF  // a freezer
	seedD  // a delegator
	seedG1 // of the packs that the second implementation makes: kernel, kernel after that, log
	seedG2
	seedGL
)

const oracleSeed = "helm oracle test key, not secret"

var oracleLabels = map[byte]string{seedR1: "root1", seedR2: "root2", seedR3: "root3", seedR4: "root4", seedA: "approver", seedA2: "approver2",
	seedF: "freezer", seedD: "delegator", seedG2: "kernel2"}

var testKeys, testPublics sync.Map // by seed: points are slow to check

func testKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	if k, ok := testKeys.Load(seed); ok {
		return k.(crypto.PrivateKey)
	}
	k, err := crypto.NewKeyFromSeed(longSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	if seed == seedGL {
		k = crypto.DeriveLogKey(k)
	}
	testKeys.Store(seed, k)
	return k
}

func longSeed(seed byte) []byte {
	label, ok := oracleLabels[seed]
	switch {
	case ok:
		d := crypto.Sum([]byte(oracleSeed + ": " + label))
		return d[:]
	case seed == seedG1 || seed == seedGL:
		return []byte(oracleSeed)
	}
	return bytes.Repeat([]byte{seed}, 32)
}

func testPublic(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	if p, ok := testPublics.Load(seed); ok {
		return p.(crypto.PublicKey)
	}
	p, err := crypto.PublicOf(testKey(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	testPublics.Store(seed, p)
	return p
}

// testPolicy is the P1 document of the tests, in its version.
func testPolicy(version int) string {
	return fmt.Sprintf(`{"bundle":{"name":"files","version":%d},"helm":"policy/v1","layer":"P1","rules":[`+
		`{"deny":"fs.list","id":"no-strangers","unless":{"caller":"roles","has":"reader"}},`+
		`{"deny":"fs.read","id":"secrets","when":{"arg":"/path","within":["/srv/secret"]}},`+
		`{"allow":["fs.list","fs.read","fs.stat"],"id":"readers","when":{"caller":"roles","has":"reader"}},`+
		`{"allow":"fs.write","id":"writers","when":{"caller":"roles","has":"writer"}}],`+
		`"tools":{"fs.list":{"effect":"read","input":{"properties":{"depth":{"type":"integer"}},"type":"object"},"risk":"low"},`+
		`"fs.read":{"effect":"read","input":{"properties":{"lines":{"default":10,"type":"integer"},"path":{"type":"string"}},"required":["path"],"type":"object"},`+
		`"limits":{"timeout":"5s"},"output":{"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"},"risk":"low","scope":[{"arg":"/path","within":["/srv"]}]},`+
		`"fs.stat":{"effect":"read","input":{"type":"object"},"risk":"low"},`+
		`"fs.write":{"effect":"write","input":{"properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path"],"type":"object"},`+
		`"output":{"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"},"risk":"high"}}}`, version)
}

// A maker makes logs from fixed keys, nonces and a fixed clock, through the packages that a kernel is made of.
type maker struct {
	testing.TB
	store  *proofgraph.Memory
	log    *proofgraph.Log
	trust  *registry.State // the initial one
	state  *registry.State // as it is now
	by     byte            // who signs entries
	logBy  byte            // who signs checkpoints
	policy *guardian.Policy
	ledger past.Ledger
	memory memory
	now    contracts.Time
	tree   crypto.Tree
}

func newMaker(t testing.TB) *maker { return newMakerOf(t, testState(t), 0) }

// newMakerOf makes a log of a trust state, whose nonce has a byte of the caller's.
func newMakerOf(t testing.TB, state *registry.State, nonce byte) *maker {
	t.Helper()
	m := &maker{TB: t, store: proofgraph.NewMemory(), trust: state, state: state, now: testStart, logBy: seedL}
	m.open(seedK1, [16]byte{15: nonce})
	return m
}

// open goes on with another kernel key.
func (m *maker) open(seed byte, nonce [16]byte) {
	m.Helper()
	var err error
	m.by = seed
	m.log, err = proofgraph.Open(m.Context(), m.store, proofgraph.Options{Origin: testOrigin, Key: testKey(m, seed), LogKey: testKey(m, m.logBy),
		Trust: m.trust.Canonical(), Nonce: nonce, Now: testStart}, nil)
	m.must(err)
}

func (m *maker) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// use enters a policy.
func (m *maker) use(docs ...string) {
	m.Helper()
	var list []contracts.Document
	var blobs [][]byte
	for _, d := range docs {
		m.must(m.tree.Parse([]byte(d), crypto.Limits{Bytes: len(d), Depth: 128}))
		c := m.tree.Root().Append(nil)
		list, blobs = append(list, contracts.Document{Canonical: c}), append(blobs, c)
	}
	p, err := guardian.Compile(list...)
	m.must(err)
	m.policy = p
	r := p.Record()
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Policy: &r}, blobs...)
}

// put signs an entry.
func (m *maker) put(session string, parents []contracts.Digest, st *contracts.Statement, blobs ...[]byte) contracts.Digest {
	m.Helper()
	m.now++
	c := m.log.Chain(session)
	s, err := m.log.Place(c, max(m.now, c.Time()), parents, nil)
	m.must(err)
	m.must(s.Sign(st, blobs...))
	m.must(s.Wait())
	return s.Hash()
}

// An ask is a call that somebody makes.
type ask struct {
	session, tool, args string
	who                 contracts.Caller
	key                 string
	parents             []contracts.Digest
	sandbox             *contracts.SandboxInfo
	with                contracts.Envelopes
	raw                 bool // the arguments are not strict JSON
	drop                bool // the inputs are not kept
	drivers             uint64
	refuse              contracts.ReasonCode // the kernel's own refusal
	asked               string               // the session asked for, where it is another than the one that holds the refusal
}

var (
	reader = contracts.Caller{ID: "ada", Roles: []string{"reader"}}
	writer = contracts.Caller{ID: "bob???", Roles: []string{"writer"}, Tenant: "acme"}
)

// A called is what became of it so far.
type called struct {
	m        *maker
	session  string
	entry    contracts.Digest
	index    uint64
	decision *contracts.DecisionRecord
	why      guardian.Why
}

// call judges and records.
func (m *maker) call(a ask) *called {
	m.Helper()
	in := contracts.Inputs{Caller: a.who, Drivers: 1, Envelopes: a.with, Idempotency: a.key, Sandbox: a.sandbox, Session: a.session, Tool: a.tool}
	if a.drivers > 0 {
		in.Drivers = a.drivers
	}
	if a.asked != "" {
		in.Session = a.asked
	}
	var tree crypto.Tree
	if a.raw {
		in.ArgsForm, in.ArgsHash = "raw", crypto.Sum([]byte(a.args))
	} else {
		args, err := tree.ParseArgs(nil, []byte(a.args))
		m.must(err)
		if full, ok := m.policy.AppendDefaults(nil, a.tool, tree.Root()); ok {
			args, err = tree.ParseArgs(nil, full)
			m.must(err)
		}
		in.Args, in.ArgsHash = tree.Root(), crypto.Sum(args)
	}
	in.State.Trust = m.state.Digest()
	m.now++
	c := m.log.Chain(a.session)
	in.Time = max(m.now, c.Time())
	var d contracts.DecisionRecord
	var why guardian.Why
	if a.refuse != "" {
		d = m.policy.Refuse(in, a.refuse)
	} else {
		state := m.state
		if m.memory.trust != nil {
			state = m.memory.trust
		}
		d, in.State, why = m.policy.Decide(&in, state, m.past(a.session))
	}
	m.must(m.ledger.Charge(d.Charges))
	s, err := m.log.Place(c, in.Time, a.parents, nil)
	m.must(err)
	b := in.Append(nil)
	d.Seal(a.session, s.Header().Seq, crypto.Sum(b))
	st := &contracts.Statement{Decision: &d}
	if d.Verdict == contracts.Deny {
		denial := receipts.Denied(&d)
		st = &contracts.Statement{Receipt: &denial}
	}
	if a.drop {
		m.must(s.Sign(st))
	} else {
		m.must(s.Sign(st, b))
	}
	m.must(s.Wait())
	m.allow(&d, &in, s.Index(), a.drop)
	return &called{m, a.session, s.Hash(), s.Index(), &d, why}
}

// denied is call, which must end in a denial for that reason.
func (m *maker) denied(reason contracts.ReasonCode, a ask) *called {
	m.Helper()
	c := m.call(a)
	if c.decision.Reason != reason {
		m.Fatalf("%s: %s, want %s: %s", a.tool, c.decision.Reason, reason, c.why)
	}
	return c
}

// allowed is call, which must end in an ALLOW.
func (m *maker) allowed(a ask) *called {
	m.Helper()
	return m.denied(contracts.ReasonAllow, a)
}

// end records how the call ended. With an output that is kept it ends in "kept ".
func (c *called) end(r receipts.Result, keep bool) contracts.Digest {
	c.m.Helper()
	if len(c.decision.Charges) > 0 {
		r.Refunds = c.m.policy.Refunds(c.decision.Tool, r.Reason)
	}
	receipt, err := receipts.Build(c.decision, c.entry, r)
	c.m.must(err)
	c.m.must(c.m.ledger.Settle(c.decision.Charges, receipt.Settled, receipt.Reason))
	var blobs [][]byte
	if keep {
		blobs = append(blobs, r.Output)
	}
	h := c.m.put(c.session, []contracts.Digest{c.entry}, &contracts.Statement{Receipt: receipt}, blobs...)
	c.m.execute(c, receipt, h)
	return h
}

// ran ends the call with an output, which is kept.
func (c *called) ran(output string) contracts.Digest {
	c.m.Helper()
	c.m.must(c.m.tree.Parse([]byte(output), crypto.Limits{Bytes: len(output), Depth: 128}))
	return c.end(receipts.Result{Reason: contracts.ReasonAllow, Output: c.m.tree.Root().Append(nil), Form: "jcs"}, true)
}

// failed ends it with a reason that has no output.
func (c *called) failed(reason contracts.ReasonCode) contracts.Digest {
	return c.end(receipts.Result{Reason: reason}, false)
}

func (m *maker) close(session string) {
	m.Helper()
	c := m.log.Chain(session)
	m.put(session, nil, &contracts.Statement{Close: &contracts.Close{Count: c.Next(), Last: c.Last()}})
}

// checkpoint signs the log as it is.
func (m *maker) checkpoint() []byte {
	m.Helper()
	c, err := m.log.Checkpoint(m.Context())
	m.must(err)
	return c.Note
}

// pack writes the pack, with a manifest by the kernel key.
func (m *maker) pack() []byte {
	m.Helper()
	var b bytes.Buffer
	m.must(Write(m.Context(), &b, m.store, testKey(m, m.by)))
	return b.Bytes()
}
