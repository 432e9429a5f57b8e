package condense

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Log is what the set of a range depends on besides the lines of the range. No function may be nil.
type Log struct {
	// Gone reports whether the entry is in the set of an earlier condense entry.
	Gone func(index uint64) bool

	// Closed reports whether the session has its close below the index size.
	Closed func(session string, size uint64) bool

	// Policy returns the index of the policy entry with that PolicyHash.
	Policy func(hash contracts.Digest) (index uint64, ok bool)

	// Terms returns the terms of the policy entry with that index. A Range asks once for calls in a
	// row that the same policy judged.
	Terms func(policy uint64) (*Terms, error)

	// Latest is the latest time of all entries below the range, 0 if there are none.
	Latest contracts.Time
}

// A Range computes the set of a range of the log from its lines. It holds 4 bytes for a member, 40
// more as long as an ALLOW before it may go and has no receipt yet, and some 200 for each such
// ALLOW. It is not safe for concurrent use.
type Range struct {
	log            Log
	next, to, size uint64
	until          contracts.Time
	latest         contracts.Time
	reader         contracts.Reader
	open           map[contracts.Digest]call // ALLOWs that may go, if their receipts say so
	hashes         map[uint64]contracts.Digest
	policy         uint64 // the last that terms was asked of
	terms          *Terms
	asked          bool
	row            row
	last           *pair  // of main, which is open, if no entry of main follows yet
	beyond         uint64 // index of the entry of main that follows the last pair of main that goes, plus 1
	left           uint64 // the first that may go later
	set            *Set   // once it was asked for
	buf            []byte
}

// A call is an ALLOW that may go as far as it and its policy show.
type call struct {
	index, place uint64
	lasting      bool // of main, which is open: it stays as long as no entry of main follows its receipt
}

// A pair is the places of a decision and its receipt, and the index of the decision.
type pair struct{ decision, receipt, index uint64 }

// NewRange returns the range of the entries from to to-1, for a condense entry with that size and
// that until. The functions of l are called by [Range.Add] alone.
func NewRange(from, to, size uint64, until contracts.Time, l Log) *Range {
	return &Range{log: l, next: from, to: to, size: size, until: until, latest: l.Latest, row: row{from: from},
		left: to, open: make(map[contracts.Digest]call), hashes: make(map[uint64]contracts.Digest)}
}

// Add adds the next line, an entry or a stub. The lines must be those of a log that hangs together:
// signatures, chains and references are not checked. It is an error if a line is not of its form,
// comes after the last one, or is a decision of a policy that Log.Policy does not know. An error of
// Log.Terms is wrapped. After an error about one of its lines the range has no set.
func (r *Range) Add(line contracts.Entry) error {
	if r.next >= r.to {
		return errors.New("condense: a line after the last of the range")
	}
	if err := r.add(line); err != nil {
		r.to = 0
		return fmt.Errorf("condense: entry %d: %w", r.next, err)
	}
	r.next++
	return nil
}

func (r *Range) add(line contracts.Entry) error {
	if contracts.IsStub(line) {
		s, err := r.reader.Stub(line)
		if err != nil {
			return err
		}
		r.passes(s.Session, s.Time)
		return r.stub(s)
	}
	sealed, err := r.reader.Open(line)
	if err != nil {
		return err
	}
	st, err := sealed.Statement()
	if err != nil {
		return err
	}
	r.passes(st.Session, st.Time)
	return r.whole(st, line)
}

// passes notes what every line of the range counts for.
func (r *Range) passes(session string, at contracts.Time) {
	r.latest = max(r.latest, at)
	if session == contracts.DefaultSession && r.last != nil {
		r.goes(*r.last)
		r.last, r.beyond = nil, r.next+1
	}
}

// stub adds a stub, which passes rule 3.
func (r *Range) stub(s *contracts.Stub) error {
	if r.log.Gone(r.next) {
		return nil
	}
	if s.Decision != nil {
		return r.decided(s)
	}
	if hash, ok := r.hashes[s.Receipt.Decision]; ok {
		r.ended(s, hash, r.open[hash])
	}
	return nil
}

// whole adds an entry, by rules 1 and 3 if it is a decision or its receipt.
func (r *Range) whole(st *contracts.Statement, line contracts.Entry) error {
	switch d, x := st.Decision, st.Receipt; {
	case d != nil:
		if len(d.Approvals) > 0 || len(d.Signals) > 0 || r.log.Gone(r.next) {
			return nil
		}
		policy, ok := r.log.Policy(d.PolicyHash)
		if !ok {
			return errors.New("no policy entry has its policyHash")
		}
		return r.decided(contracts.NewStub(st, line.Hash(), policy))
	case x != nil && x.Decision == nil:
		c, ok := r.open[x.DecisionHash]
		switch {
		case !ok: // the decision stays, or is gone
		case len(x.Signals) > 0, x.Outcome != contracts.Executed && x.Reason != contracts.ReasonToolError:
			r.close(x.DecisionHash, c)
			r.row.decide(c.place, stays)
		default:
			r.ended(contracts.NewStub(st, line.Hash(), c.index), x.DecisionHash, c)
		}
	}
	return nil
}

// decided asks rules 2 and 4 of a decision.
func (r *Range) decided(s *contracts.Stub) error {
	d := s.Decision
	open := !r.log.Closed(s.Session, r.size)
	if open && s.Session != contracts.DefaultSession {
		r.later(r.next)
		return nil
	}
	if open && d.Idempotency != "" {
		return nil
	}
	if !r.asked || d.Policy != r.policy {
		terms, err := r.log.Terms(d.Policy)
		if err != nil {
			return err
		}
		r.policy, r.terms, r.asked = d.Policy, terms, true
	}
	switch {
	case r.terms.Goes(d.Tool, r.latest, r.until):
		r.open[s.Entry] = call{r.next, r.row.add(r.next, r.leaf(s)), open}
		r.hashes[r.next] = s.Entry
	case r.terms.goes(d.Tool):
		r.later(r.next)
	}
	return nil
}

// ended adds the receipt of a call, which goes with it.
func (r *Range) ended(s *contracts.Stub, decision contracts.Digest, c call) {
	r.close(decision, c)
	p := pair{c.place, r.row.add(r.next, r.leaf(s)), c.index}
	if c.lasting {
		r.last = &p
		return
	}
	r.goes(p)
}

func (r *Range) goes(p pair) {
	r.row.decide(p.decision, goes)
	r.row.decide(p.receipt, goes)
}

func (r *Range) close(decision contracts.Digest, c call) {
	delete(r.open, decision)
	delete(r.hashes, c.index)
}

// later notes an entry that may go with a later range.
func (r *Range) later(index uint64) { r.left = min(r.left, index) }

func (r *Range) leaf(s *contracts.Stub) contracts.Digest {
	r.buf = s.Append(r.buf[:0])
	return crypto.LeafHash(r.buf)
}

// Set returns the set. It returns nil before the last line was added, and after an error.
func (r *Range) Set() *Set {
	if r.set != nil || r.next != r.to {
		return r.set
	}
	r.row.end()
	for _, c := range r.open {
		r.later(c.index)
	}
	if r.last != nil {
		r.later(r.last.index)
	}
	r.set = &Set{Dropped: r.row.tree.Size(), Stubs: r.row.tree.Root(), Left: r.left,
		from: r.row.from, beyond: r.beyond, members: r.row.members}
	return r.set
}
