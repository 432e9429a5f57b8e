package condense

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
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

// A Range computes the set of a range of the log from its lines. It holds at most 60 bytes for a
// member, and some 200 for each ALLOW that may go and has no receipt yet. It is not safe for
// concurrent use.
type Range struct {
	log            Log
	next, to, size uint64
	until          contracts.Time
	latest         contracts.Time
	main           uint64 // index of the last entry of main, plus 1; 0 if there is none
	reader         contracts.Reader
	open           map[contracts.Digest]call // ALLOWs that may go, if their receipts say so
	hashes         map[uint64]contracts.Digest
	policy         uint64 // the last that terms was asked of
	terms          *Terms
	asked          bool
	members        []member // decisions with their receipts, in the order of the receipts
	set            *Set     // once it was asked for
	buf            []byte
}

// A call is an ALLOW that may go as far as it and its policy show.
type call struct {
	index, policy uint64
	leaf          contracts.Digest
}

// A member is an entry of a set.
type member struct {
	index uint64
	names uint64           // index that its stub names: of the policy entry or of the decision
	leaf  contracts.Digest // leaf hash of its stub
}

// NewRange returns the range of the entries from to to-1, for a condense entry with that size and
// that until. The functions of l are called by [Range.Add] alone, but for Closed, which [Range.Set]
// calls too.
func NewRange(from, to, size uint64, until contracts.Time, l Log) *Range {
	return &Range{log: l, next: from, to: to, size: size, until: until, latest: l.Latest,
		open: make(map[contracts.Digest]call), hashes: make(map[uint64]contracts.Digest)}
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
	if session == contracts.DefaultSession {
		r.main = r.next + 1
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
		r.ended(s, hash)
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
		default:
			r.ended(contracts.NewStub(st, line.Hash(), c.index), x.DecisionHash)
		}
	}
	return nil
}

// decided asks rules 2 and 4 of a decision.
func (r *Range) decided(s *contracts.Stub) error {
	d := s.Decision
	if !r.log.Closed(s.Session, r.size) && (s.Session != contracts.DefaultSession || d.Idempotency != "") {
		return nil
	}
	if !r.asked || d.Policy != r.policy {
		terms, err := r.log.Terms(d.Policy)
		if err != nil {
			return err
		}
		r.policy, r.terms, r.asked = d.Policy, terms, true
	}
	if r.terms.Goes(d.Tool, r.latest, r.until) {
		r.open[s.Entry] = call{r.next, d.Policy, r.leaf(s)}
		r.hashes[r.next] = s.Entry
	}
	return nil
}

// ended adds a decision and its receipt to the members.
func (r *Range) ended(s *contracts.Stub, decision contracts.Digest) {
	c := r.open[decision]
	r.close(decision, c)
	r.members = append(r.members, member{c.index, c.policy, c.leaf}, member{r.next, c.index, r.leaf(s)})
}

func (r *Range) close(decision contracts.Digest, c call) {
	delete(r.open, decision)
	delete(r.hashes, c.index)
}

func (r *Range) leaf(s *contracts.Stub) contracts.Digest {
	r.buf = s.Append(r.buf[:0])
	return crypto.LeafHash(r.buf)
}

// Set returns the set. It returns nil before the last line was added, and after an error.
func (r *Range) Set() *Set {
	if r.set != nil || r.next != r.to {
		return r.set
	}
	members := r.members
	if !r.log.Closed(contracts.DefaultSession, r.size) {
		members = r.withoutLast()
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	var tree proofgraph.Tree
	for i := range members {
		tree.Append(members[i].leaf)
	}
	r.set = &Set{Dropped: tree.Size(), Stubs: tree.Root(), members: members}
	return r.set
}

// withoutLast returns the members without the call that the last entry of main ended, if it is one
// of them: rule 2.
func (r *Range) withoutLast() []member {
	for i := len(r.members) - 1; i > 0; i -= 2 {
		if r.members[i].index+1 == r.main {
			return slices.Delete(r.members, i-1, i+1)
		}
	}
	return r.members
}
