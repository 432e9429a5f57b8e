package evidence

import (
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// A memory is what the maker of a log knows of its past: all of it, whatever is kept.
type memory struct {
	sessions map[string]*past.Session
	args     map[uint64][]byte // of ALLOWs, by index
	erased   map[uint64]bool   // whose inputs nobody else has
	runs     []ran
	lie      func(past.Past) past.Past
	trust    *registry.State // a lie too, where it is not that of now
}

// A ran is a run of a session.
type ran struct {
	session string
	past.Run
}

type remembered struct {
	m *maker
	*past.Session
}

// past is what the guardian is told for a call of a session. A liar tells something else.
func (m *maker) past(session string) past.Past {
	if m.memory.sessions == nil {
		m.memory.sessions, m.memory.args, m.memory.erased = map[string]*past.Session{}, map[uint64][]byte{}, map[uint64]bool{}
	}
	if m.memory.sessions[session] == nil {
		m.memory.sessions[session] = new(past.Session)
	}
	p := past.Past(remembered{m, m.memory.sessions[session]})
	if m.memory.lie != nil {
		p = m.memory.lie(p)
	}
	return p
}

func (r remembered) Spent(c contracts.Charge) uint64 { return r.m.ledger.Spent(c) }

func (r remembered) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	return r.Session.Receipt(tool, same, func(x past.Run) (crypto.Value, error) {
		b, ok := r.m.memory.args[x.Decision]
		if !ok {
			return crypto.Value{}, errors.New("forgotten")
		}
		var t crypto.Tree
		err := t.Parse(b, crypto.Limits{Bytes: len(b), Depth: 64})
		return t.Root(), err
	})
}

func (r remembered) Used(_ contracts.Digest, q *contracts.ApprovalRequest) bool {
	return r.Session.Used(q)
}

// allow takes an ALLOW into the memory.
func (m *maker) allow(d *contracts.DecisionRecord, in *contracts.Inputs, index uint64, erased bool) {
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
	m.past(in.Session)
	m.memory.sessions[in.Session].Allow(d, in.Time, nonces)
	m.memory.args[index], m.memory.erased[index] = in.Args.Append(nil), erased
}

// execute takes in what an ALLOW came to.
func (m *maker) execute(c *called, r *contracts.Receipt, entry contracts.Digest) {
	m.Helper()
	if r.Outcome != contracts.Executed {
		return
	}
	size, err := m.store.Size(m.Context())
	m.must(err)
	run := past.Run{Tool: r.Tool, Decision: c.index, Receipt: size - 1, Entry: entry, Time: m.log.Chain(c.session).Time()}
	m.memory.sessions[c.session].Execute(run, crypto.Value{})
	m.memory.runs = append(m.memory.runs, ran{c.session, run})
}

// answer reads what an approver signed.
func (m *maker) answer(e contracts.Envelope) *contracts.Approval {
	m.Helper()
	sealed, err := new(contracts.Reader).Open(e)
	if err != nil {
		m.Fatal(err)
	}
	a, err := sealed.Approval()
	if err != nil {
		m.Fatal(err)
	}
	return a
}
