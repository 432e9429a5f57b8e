package forge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// FilesPolicy is the P1 document of the tests, in its version.
func FilesPolicy(version int) string {
	return fmt.Sprintf(`{"bundle":{"name":"files","version":%d},"helm":"policy/v1","layer":"P1","rules":[`+
		`{"deny":"fs.list","id":"no-strangers","unless":{"caller":"roles","has":"reader"}},`+
		`{"deny":"fs.read","id":"secrets","when":{"arg":"/path","within":["/srv/secret"]}},`+
		`{"allow":["fs.list","fs.read","fs.stat"],"id":"readers","when":{"caller":"roles","has":"reader"}},`+
		`{"allow":"fs.write","id":"writers","when":{"caller":"roles","has":"writer"}}],`+
		`"tools":{"fs.list":{"effect":"read","input":{"properties":{"depth":{"type":"integer"}},`+
		`"type":"object"},"risk":"low"},`+
		`"fs.read":{"effect":"read","input":{"properties":{"lines":{"default":10,"type":"integer"},`+
		`"path":{"type":"string"}},"required":["path"],"type":"object"},`+
		`"limits":{"timeout":"5s"},"output":{"properties":{"text":{"type":"string"}},"required":["text"],`+
		`"type":"object"},"risk":"low","scope":[{"arg":"/path","within":["/srv"]}]},`+
		`"fs.stat":{"effect":"read","input":{"type":"object"},"risk":"low"},`+
		`"fs.write":{"effect":"write","input":{"properties":{"path":{"type":"string"},"text":{"type":"string"}},`+
		`"required":["path"],"type":"object"},`+
		`"output":{"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"},"risk":"high"}}}`, version)
}

// A Maker makes logs from fixed keys, nonces and a fixed clock, through the packages that a kernel
// is made of.
type Maker struct {
	testing.TB
	origin string
	Store  *proofgraph.Memory
	Proofs *proofgraph.Log
	Trust  *registry.State // the initial one
	state  *registry.State // as it is now
	By     byte            // who signs entries
	logBy  byte            // who signs checkpoints
	policy *guardian.Policy
	ledger past.Ledger
	Memory memory
	Now    contracts.Time
	tree   crypto.Tree
}

// NewMaker begins a log with the trust state of State.
func NewMaker(t testing.TB) *Maker { return newMakerOf(t, Origin, State(t), 0) }

// newMakerOf makes a log of a trust state, whose nonce has a byte of the caller's.
func newMakerOf(t testing.TB, origin string, state *registry.State, nonce byte) *Maker {
	t.Helper()
	m := &Maker{TB: t, origin: origin, Store: proofgraph.NewMemory(), Trust: state, state: state, Now: Start,
		logBy: SeedL}
	m.open(SeedK1, [16]byte{15: nonce})
	return m
}

// open goes on with another kernel key.
func (m *Maker) open(seed byte, nonce [16]byte) {
	m.Helper()
	var err error
	m.By = seed
	if m.Proofs != nil {
		m.Proofs.Seal(nil) // or the store still has it open
	}
	m.Proofs, err = proofgraph.Open(m.Context(), m.Store, proofgraph.Options{Origin: m.origin,
		Key: Key(m, seed), LogKey: Key(m, m.logBy),
		Trust: m.Trust.Canonical(), Nonce: nonce, Now: Start}, nil)
	require.NoError(m, err)
}

// Use enters a policy.
func (m *Maker) Use(docs ...string) {
	m.Helper()
	var list []contracts.Document
	var blobs [][]byte
	for _, d := range docs {
		require.NoError(m, m.tree.Parse([]byte(d), crypto.Limits{Bytes: len(d), Depth: 128}))
		c := m.tree.Root().Append(nil)
		list, blobs = append(list, contracts.Document{Canonical: c}), append(blobs, c)
	}
	p, err := guardian.Compile(list...)
	require.NoError(m, err)
	m.policy = p
	r := p.Record()
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Policy: &r}, blobs...)
}

// Narrow enters the policy with overlays at its end.
func (m *Maker) Narrow(overlays ...string) {
	m.Helper()
	var list []contracts.Document
	var blobs [][]byte
	for _, d := range overlays {
		list, blobs = append(list, contracts.Document{Canonical: []byte(d)}), append(blobs, []byte(d))
	}
	p, err := m.policy.Narrow(list...)
	require.NoError(m, err)
	m.policy = p
	r := p.Record()
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Policy: &r}, blobs...)
}

// Policy returns the policy that judges.
func (m *Maker) Policy() *guardian.Policy { return m.policy }

// Judge has another policy judge, which has its entry.
func (m *Maker) Judge(p *guardian.Policy) { m.policy = p }

// put signs an entry that brings nothing but what its parents do.
func (m *Maker) put(session string, parents []contracts.Digest, st *contracts.Statement, blobs ...[]byte) contracts.Digest {
	m.Helper()
	return m.bring(session, parents, st, false, nil, blobs...)
}

// bring signs an entry that brings taint and labels to its session.
func (m *Maker) bring(session string, parents []contracts.Digest, st *contracts.Statement, tainted bool,
	labels []string, blobs ...[]byte) contracts.Digest {
	m.Helper()
	m.Now++
	c := m.Proofs.Chain(session)
	write := func(at proofgraph.Place) (*contracts.Statement, error) {
		for _, b := range blobs {
			at.Keep(b)
		}
		return st, nil
	}
	s, err := m.Proofs.Place(proofgraph.Draft{Chain: c, Time: max(m.Now, c.Time()), Parents: parents, Write: write})
	require.NoError(m, err)
	require.NoError(m, s.Wait())
	m.mark(session, s.Index(), s.Hash(), parents, tainted, labels)
	return s.Hash()
}

// An Ask is a call to be made.
type Ask struct {
	Session, Tool, Args string
	Who                 contracts.Caller
	key                 string
	Parents             []contracts.Digest
	sandbox             *contracts.SandboxInfo
	With                contracts.Envelopes
	Raw                 bool // the arguments are not strict JSON
	Drop                bool // the inputs are not kept
	drivers             uint64
	refuse              contracts.ReasonCode // the kernel's own refusal
	// the session asked for, if it is not the one that holds the refusal
	asked string
}

var (
	Reader = contracts.Caller{ID: "ada", Roles: []string{"reader"}}
	Writer = contracts.Caller{ID: "bob???", Roles: []string{"writer"}, Tenant: "acme"}
)

// A Called is a call, and how it went so far.
type Called struct {
	m        *Maker
	session  string
	Entry    contracts.Digest
	index    uint64
	decision *contracts.DecisionRecord
	Why      guardian.Why
	policy   *guardian.Policy // that judged it
	inputs   *contracts.Inputs
	slot     *proofgraph.Slot
	module   []byte // to be kept with the receipt; nil: none
}

// Call judges a call and records the decision.
func (m *Maker) Call(a Ask) *Called {
	m.Helper()
	in := contracts.Inputs{Caller: a.Who, Drivers: 1, Envelopes: a.With, Idempotency: a.key, Sandbox: a.sandbox,
		Session: a.Session, Tool: a.Tool}
	if a.drivers > 0 {
		in.Drivers = a.drivers
	}
	if a.asked != "" {
		in.Session = a.asked
	}
	var tree crypto.Tree
	if a.Raw {
		in.ArgsForm, in.ArgsHash = "raw", crypto.Sum([]byte(a.Args))
	} else {
		args, err := tree.ParseArgs(nil, []byte(a.Args))
		require.NoError(m, err)
		if full, ok := m.policy.AppendDefaults(nil, a.Tool, tree.Root()); ok {
			args, err = tree.ParseArgs(nil, full)
			require.NoError(m, err)
		}
		in.Args, in.ArgsHash = tree.Root(), crypto.Sum(args)
	}
	in.State.Trust = m.state.Digest()
	m.Now++
	c := m.Proofs.Chain(a.Session)
	in.Time = max(m.Now, c.Time())
	var d contracts.DecisionRecord
	var why guardian.Why
	if a.refuse != "" {
		d = m.policy.Refuse(in, a.refuse)
	} else {
		state := m.state
		if m.Memory.trust != nil {
			state = m.Memory.trust
		}
		d, in.State, why = m.policy.Decide(&in, state, m.Past(a.Session, a.Parents...))
	}
	require.NoError(m, m.ledger.Charge(d.Charges))
	write := func(at proofgraph.Place) (*contracts.Statement, error) {
		b := in.Append(nil)
		d.Seal(a.Session, at.Header().Seq, crypto.Sum(b))
		if !a.Drop {
			at.Keep(b)
		}
		if d.Verdict == contracts.Deny {
			denial := receipts.Denied(&d)
			return &contracts.Statement{Receipt: &denial}, nil
		}
		return &contracts.Statement{Decision: &d}, nil
	}
	s, err := m.Proofs.Place(proofgraph.Draft{Chain: c, Time: in.Time, Parents: a.Parents, Write: write})
	require.NoError(m, err)
	require.NoError(m, s.Wait())
	m.allow(&d, &in, s.Index(), a.Drop)
	m.mark(a.Session, s.Index(), s.Hash(), a.Parents, false, nil)
	return &Called{m, a.Session, s.Hash(), s.Index(), &d, why, m.policy, &in, s, nil}
}

// Denied makes a call, which must be denied for that reason.
func (m *Maker) Denied(reason contracts.ReasonCode, a Ask) *Called {
	m.Helper()
	c := m.Call(a)
	if c.decision.Reason != reason {
		m.Fatalf("%s: %s, want %s: %s", a.Tool, c.decision.Reason, reason, c.Why)
	}
	return c
}

// Allowed makes a call, which must be allowed.
func (m *Maker) Allowed(a Ask) *Called {
	m.Helper()
	return m.Denied(contracts.ReasonAllow, a)
}

// End records how the call ended, and keeps its output if keep is set. It always keeps facts: those
// of the output, if the result has no others.
func (c *Called) End(r receipts.Result, keep bool) contracts.Digest {
	c.m.Helper()
	if r.Facts == nil && r.Reason == contracts.ReasonAllow && r.Form == "jcs" {
		var output crypto.Tree
		require.NoError(c.m, output.Parse(r.Output, crypto.Limits{Bytes: len(r.Output), Depth: 128}))
		r.Facts, _ = c.policy.Facts(c.decision.Tool, output.Root())
	}
	if r.Signals == nil && c.policy.ScansOutputs(c.decision.Tool) && r.Reason != contracts.ReasonContractDrift {
		r.Signals = c.signals(r)
	}
	if len(c.decision.Charges) > 0 {
		r.Refunds = c.m.policy.Refunds(c.decision.Tool, r.Reason)
	}
	receipt, err := receipts.Build(c.decision, c.Entry, r)
	require.NoError(c.m, err)
	require.NoError(c.m, c.m.ledger.Settle(c.decision.Charges, receipt.Settled, receipt.Reason))
	var blobs [][]byte
	if keep {
		blobs = append(blobs, r.Output)
	}
	if r.Facts != nil {
		blobs = append(blobs, r.Facts)
	}
	if c.module != nil {
		blobs = append(blobs, c.module)
	}
	tainted, labels := c.brings(receipt)
	h := c.m.bring(c.session, []contracts.Digest{c.Entry}, &contracts.Statement{Receipt: receipt}, tainted, labels,
		blobs...)
	c.m.execute(c, receipt, h, r.Facts)
	return h
}

// signals returns those in an output.
func (c *Called) signals(r receipts.Result) []string {
	if r.Form != "jcs" {
		return c.policy.RawSignals(c.decision.Tool, r.Output)
	}
	var output crypto.Tree
	require.NoError(c.m, output.Parse(r.Output, crypto.Limits{Bytes: len(r.Output), Depth: 128}))
	return c.policy.Signals(c.decision.Tool, output.Root())
}

// brings returns what a receipt brings to its session.
func (c *Called) brings(r *contracts.Receipt) (tainted bool, labels []string) {
	switch r.Outcome {
	case contracts.Executed, contracts.Failed, contracts.Indeterminate:
		return c.policy.Marks(r.Tool, r.Signals)
	}
	return false, nil
}

// Ran ends the call with an output, which is kept.
func (c *Called) Ran(output string) contracts.Digest {
	c.m.Helper()
	require.NoError(c.m, c.m.tree.Parse([]byte(output), crypto.Limits{Bytes: len(output), Depth: 128}))
	return c.End(receipts.Result{Reason: contracts.ReasonAllow, Output: c.m.tree.Root().Append(nil), Form: "jcs"}, true)
}

// Failed ends it with a reason that has no output.
func (c *Called) Failed(reason contracts.ReasonCode) contracts.Digest {
	return c.End(receipts.Result{Reason: reason}, false)
}

// Say enters a text of the user, which is kept.
func (m *Maker) Say(session, text string) contracts.Digest {
	m.Helper()
	digest := crypto.Sum([]byte(text))
	m.session(session).Message(digest, text)
	return m.put(session, nil, &contracts.Statement{Message: &contracts.Message{TextHash: digest}}, []byte(text))
}

// Close closes a session.
func (m *Maker) Close(session string) {
	m.Helper()
	c := m.Proofs.Chain(session)
	m.put(session, nil, &contracts.Statement{Close: &contracts.Close{Count: c.Next(), Last: c.Last()}})
}

// Checkpoint signs the log as it is.
func (m *Maker) Checkpoint() []byte {
	m.Helper()
	c, err := m.Proofs.Checkpoint(m.Context())
	require.NoError(m, err)
	return c.Note
}

// Pack has write, which is evidence.Write, write the pack, with a manifest by the kernel key.
func (m *Maker) Pack(write func(context.Context, io.Writer, proofgraph.Store, crypto.Signer) error) []byte {
	m.Helper()
	var b bytes.Buffer
	require.NoError(m, write(m.Context(), &b, m.Store, Key(m, m.By)))
	return b.Bytes()
}
