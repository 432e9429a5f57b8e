package forge

import (
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// A memory is what the maker of a log knows of its past: all of it, whatever is kept.
type memory struct {
	sessions map[string]*past.Session
	Args     map[uint64][]byte // of ALLOWs, by index
	Erased   map[uint64]bool   // whose inputs nobody else has
	Runs     []ran
	Lie      func(past.Past) past.Past
	trust    *registry.State // a lie too, if it is not the present one
	marks    past.Marks
	indexes  map[contracts.Digest]uint64
}

// A ran is a run of a session.
type ran struct {
	Session string
	past.Run
}

type remembered struct {
	m *Maker
	*past.Session
	parents []contracts.Digest
}

// session is what the memory has of a session.
func (m *Maker) session(name string) *past.Session {
	if m.Memory.sessions == nil {
		m.Memory.sessions, m.Memory.Args, m.Memory.Erased = map[string]*past.Session{}, map[uint64][]byte{}, map[uint64]bool{}
		m.Memory.indexes = map[contracts.Digest]uint64{}
	}
	if m.Memory.sessions[name] == nil {
		m.Memory.sessions[name] = new(past.Session)
	}
	return m.Memory.sessions[name]
}

// Past is what the guardian is told for a call of a session with these parents. A liar tells
// something else.
func (m *Maker) Past(session string, parents ...contracts.Digest) past.Past {
	p := past.Past(remembered{m, m.session(session), parents})
	if m.Memory.Lie != nil {
		p = m.Memory.Lie(p)
	}
	return p
}

func (r remembered) Spent(c contracts.Charge) uint64 { return r.m.ledger.Spent(c) }

func (r remembered) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	return r.Session.Receipt(tool, same, func(x past.Run) (crypto.Value, error) {
		b, ok := r.m.Memory.Args[x.Decision]
		if !ok {
			return crypto.Value{}, errors.New("forgotten")
		}
		var t crypto.Tree
		err := t.Parse(b, crypto.Limits{Bytes: len(b), Depth: 64})
		return t.Root(), err
	})
}

// blob reads from the store what a session does not hold.
func (r remembered) blob(d contracts.Digest) ([]byte, error) { return r.m.Store.Blob(r.m.Context(), d) }

func (r remembered) Facts(x *contracts.PriorReceipt) (crypto.Value, error) {
	return r.Session.Facts(x, r.blob)
}

func (r remembered) Source(q past.Source) (past.Supply, error) { return r.Session.Source(q, r.blob) }

func (r remembered) Marks() (tainted bool, labels []string, err error) {
	tainted, labels = r.m.Memory.marks.Read(r.Session.Marks(&r.m.Memory.marks, r.m.at(r.parents)))
	return tainted, labels, nil
}

// at returns the indexes of entries that may bring marks.
func (m *Maker) at(hashes []contracts.Digest) (list []uint64) {
	for _, h := range hashes {
		if at, ok := m.Memory.indexes[h]; ok {
			list = append(list, at)
		}
	}
	return list
}

// mark takes in what an entry makes of its session, and brings itself.
func (m *Maker) mark(session string, at uint64, hash contracts.Digest, parents []contracts.Digest, tainted bool,
	labels []string) {
	if session == contracts.SessionKernel || session == contracts.SessionRefused {
		return
	}
	m.session(session).Mark(&m.Memory.marks, at, m.at(parents), tainted, labels)
	m.Memory.indexes[hash] = at
}

func (r remembered) Used(_ contracts.Digest, q *contracts.ApprovalRequest) bool {
	return r.Session.Used(q)
}

// allow takes an ALLOW into the memory.
func (m *Maker) allow(d *contracts.DecisionRecord, in *contracts.Inputs, index uint64, erased bool) {
	m.Helper()
	if d.Verdict == contracts.Deny {
		return
	}
	nonces := []string{}
	for _, e := range in.Envelopes.Approvals {
		if slices.Contains(d.Approvals, e.Digest()) {
			nonces = append(nonces, m.answer(e).Request.Nonce)
		}
	}
	m.session(in.Session).Allow(d, in.Time, nonces)
	m.Memory.Args[index], m.Memory.Erased[index] = in.Args.Append(nil), erased
}

// execute takes in what an ALLOW came to, and its facts.
func (m *Maker) execute(c *Called, r *contracts.Receipt, entry contracts.Digest, facts []byte) {
	m.Helper()
	if r.Outcome != contracts.Executed {
		return
	}
	size, err := m.Store.Size(m.Context())
	require.NoError(m, err)
	run := past.Run{Tool: r.Tool, Decision: c.index, Receipt: size - 1, Entry: entry,
		Time: m.Proofs.Chain(c.session).Time()}
	m.Memory.sessions[c.session].Execute(run, crypto.Value{}, past.Facts{Digest: r.FactsHash, Document: facts})
	m.Memory.Runs = append(m.Memory.Runs, ran{c.session, run})
}

// answer reads what an approver signed.
func (m *Maker) answer(e contracts.Envelope) *contracts.Approval {
	m.Helper()
	sealed, err := new(contracts.Reader).Open(e)
	require.NoError(m, err)
	a, err := sealed.Approval()
	require.NoError(m, err)
	return a
}
