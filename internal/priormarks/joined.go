package priormarks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// A Joined has the marks of a log in a store that several kernels write to. None of them sees all
// entries, so it reads a session when its marks are asked for, and those of the sessions that this
// one's entries name. It is safe for concurrent use by multiple goroutines.
type Joined struct {
	store  proofgraph.Shared
	search func(ctx context.Context, hash contracts.Digest, below uint64) (uint64, error)
	read   Reader

	mu       sync.Mutex // held while sessions are read; protects the fields below
	fold     *Fold      // of the policies
	marks    past.Marks
	sessions map[string]*readSession

	policyMu sync.Mutex // held for moments, because a writer of the log waits for it; protects policies
	policies []*contracts.PolicyRecord
}

// A readSession is what was read of one.
type readSession struct {
	next uint64 // seq
	last uint64 // index of the last entry
	past past.Session
	open map[contracts.Digest]called // by the hashes of decisions that have no receipt yet
}

// A called is what marks ask of a decision.
type called struct {
	tool   string
	policy contracts.Digest
}

// NewJoined returns the marks of the log in a store. search finds an entry by its hash: see
// [proofgraph.Log.Search].
func NewJoined(
	store proofgraph.Shared, search func(context.Context, contracts.Digest, uint64) (uint64, error), read Reader,
) *Joined {
	return &Joined{store: store, search: search, read: read, fold: New(), sessions: map[string]*readSession{}}
}

// Policy notes a policy entry.
func (j *Joined) Policy(r *contracts.PolicyRecord) {
	j.policyMu.Lock()
	defer j.policyMu.Unlock()
	j.policies = append(j.policies, r)
}

// fresh folds the policies that are new.
func (j *Joined) fresh() {
	j.policyMu.Lock()
	defer j.policyMu.Unlock()
	for _, r := range j.policies {
		j.fold.Policy(r)
	}
	j.policies = nil
}

// Read returns the marks by which a call in a session is judged, with parents at those indexes.
func (j *Joined) Read(ctx context.Context, session string, parents []uint64) (bool, []string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fresh()
	for _, index := range parents {
		if err := j.entry(ctx, index); err != nil {
			return false, nil, err
		}
	}
	if err := j.session(ctx, session, ^uint64(0)); err != nil {
		return false, nil, err
	}
	tainted, labels := j.marks.Read(j.of(session).past.Marks(&j.marks, parents))
	return tainted, labels, nil
}

func (j *Joined) of(session string) *readSession {
	s := j.sessions[session]
	if s == nil {
		s = &readSession{open: map[contracts.Digest]called{}}
		j.sessions[session] = s
	}
	return s
}

// entry finds the mark of the entry at an index.
func (j *Joined) entry(ctx context.Context, index uint64) error {
	for e, err := range j.store.Entries(ctx, index, index+1) {
		if err != nil {
			return err
		}
		st, err := entry.Open(new(contracts.Reader), e)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		return j.session(ctx, st.Session, index)
	}
	return errors.New("the store lacks an entry")
}

// session reads a session up to the entry at an index, or all of it. What its entries name is
// earlier in the log, so this ends, and a session that is being read has all that is asked of it.
func (j *Joined) session(ctx context.Context, name string, to uint64) error {
	s := j.of(name)
	if !Marked(name) || s.next > 0 && s.last >= to {
		return nil
	}
	var reader contracts.Reader
	for p, err := range j.store.Session(ctx, name, s.next) {
		if err != nil {
			return err
		}
		if p.Index > to {
			return nil
		}
		st, err := entry.Open(&reader, p.Entry)
		if err == nil {
			err = j.add(ctx, s, st, p)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", p.Index, err)
		}
	}
	return nil
}

// add folds the next entry of a session.
func (j *Joined) add(ctx context.Context, s *readSession, st *contracts.Statement, p proofgraph.Placed) error {
	var parents []uint64
	for _, hash := range st.Parents {
		if st.Receipt != nil && st.Receipt.DecisionHash == hash { // of the same session
			continue
		}
		index, err := j.search(ctx, hash, p.Index)
		if err == nil {
			err = j.entry(ctx, index)
		}
		if err != nil {
			return err
		}
		parents = append(parents, index)
	}
	taints, labels, err := j.brings(s, st)
	if err != nil {
		return err
	}
	if d := st.Decision; d != nil {
		s.open[p.Entry.Hash()] = called{d.Tool, d.PolicyHash}
	}
	s.past.Mark(&j.marks, p.Index, parents, taints, labels)
	s.next, s.last = st.Seq+1, p.Index
	return nil
}

// brings returns what an entry brings to its session: a receipt of a call of which something was
// released.
func (j *Joined) brings(s *readSession, st *contracts.Statement) (bool, []string, error) {
	r := st.Receipt
	if r == nil || r.Decision != nil { // no receipt, or a denial
		return false, nil, nil
	}
	call, ok := s.open[r.DecisionHash]
	if !ok {
		return false, nil, errors.New("a receipt of no decision of its session that lacks one")
	}
	taints, labels, err := j.fold.Brings(RunOf(r, call.tool, call.policy), j.read)
	if err == nil { // else it is read again
		delete(s.open, r.DecisionHash)
	}
	return taints, labels, err
}
