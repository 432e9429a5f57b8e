package proofgraph

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A Draft is an entry that has no place yet. What an entry says may follow from its place: a
// decision names its seq, and is made on the balances at its place. So its record is made for the
// place, by functions that [Log.Place] calls, on the goroutine of its caller.
type Draft struct {
	Chain   *Chain
	Time    contracts.Time     // not before Chain.Time
	Parents []contracts.Digest // the entries that caused it, in any order; repeats and Chain.Last are left out

	// Take, if it is not nil, is called while no other place can be taken, so in the order of the
	// log. It must be quick and must not use the log. If it returns an error, the place is not
	// taken.
	Take func(Place) error

	// Write is called when the place is taken, while others take theirs, and returns the record.
	// Its Header is set then, and it is signed as the entry of the place. Its Decision must not
	// change after that: [Slot.Durable] returns it. If Write returns an error the log is sealed,
	// because nothing is written after a hole.
	Write func(Place) (*contracts.Statement, error)

	// Forget, if it is not nil, is the set of a condense entry: indexes of durable entries,
	// ascending. The log forgets them. No entry that is placed after this one has them as parents:
	// Place returns ErrUnknownParent, also to a caller that found them by [Log.Lookup] before.
	// Lookup may find them no more a little earlier. If Place fails after the log has begun to
	// forget, the log is sealed with that error.
	Forget iter.Seq[uint64]

	// End, if it is not nil, says that the entry ends the log, and why: for instance because it
	// revokes the log's own key, after which nothing that the key signs would count. No further
	// place is taken and no checkpoint is signed: calls for either wait until the entry is durable,
	// which seals the log with that cause. If the entry cannot be signed or stored, the log is
	// sealed with that error.
	End error

	// What follows is for a log over a [Shared] store, and is not read otherwise. Others write to
	// such a log too. So Place waits until the entry is durable. Take and Write are called by the
	// goroutine that appends for all who wait, and are called again if the log was not as guessed.
	// Place returns ErrMoved if the entry has no place, since what it was judged on does not hold.

	Anywhere bool                // it follows from nothing that the session has: it stands wherever that ends
	AnyTime  bool                // it has the time of the session's last entry, if that is later
	Turn     bool                // Take must know the index; what is placed after the entry is judged by it
	Balances []contracts.Balance // those that it reads or moves; Spent is not read
	Nonces   []string            // of approvals that it uses
	Asks     []string            // of approvals: whether they are used is what Take must know
	Settles  uint64              // the index of the decision that it is the receipt of; 0: none
	Others   bool                // that decision is another writer's, which is dead
	Undo     func()              // takes back what Take did; nil: there is nothing but what Remembered has
}

// A Place is where a [Draft] is to stand in the log. Only the functions of the draft have it.
type Place struct{ slot *Slot }

// Index returns the index of the entry in the log. Over a [Shared] store it is known of drafts with
// Turn alone, before the entry is durable.
func (p Place) Index() uint64 { return p.slot.index }

// Header returns the header of the entry. All of it is final.
func (p Place) Header() contracts.Header {
	h := p.slot.header
	h.Parents = slices.Clone(h.Parents)
	return h
}

// Keep has the store keep a blob, durable no later than the entry. It is not copied and must not
// change before [Slot.Wait] returns. It is for Write to call.
func (p Place) Keep(blob []byte) { p.slot.blobs = append(p.slot.blobs, blob) }

// Next returns the index that the next place will have, unless another is taken first. After the
// last place it waits for the end of the log.
func (l *Log) Next() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.notSealed(); err != nil {
		return 0, err
	}
	return l.next(), nil
}

// Place takes the next place of the log for an entry, the next one of its chain, and makes and
// signs the entry. If it returns an error no place was taken: ErrClosed; ErrUnknownParent if one of
// the parents is not durable, or in the set of a condense entry before the place; what Take
// returned.
//
// If the entry cannot be made, since Write or the signer fails or panics, or the record is too
// large, the log is sealed: [Slot.Wait] says why. A signer that is not in memory has failed if it
// does not answer within 10 seconds.
func (l *Log) Place(d Draft) (*Slot, error) {
	if d.Write == nil {
		return nil, errors.New("proofgraph: place: nothing writes the entry")
	}
	if l.sharing != nil {
		return l.sharing.place(d)
	}
	s, err := l.take(&d)
	if err != nil {
		return nil, err
	}
	s.write(d.Write)
	return s, nil
}

// take takes the place of a draft, which is to be written.
func (l *Log) take(d *Draft) (*Slot, error) {
	if err := l.placeable(d.Chain, d.Time); err != nil {
		return nil, err
	}
	if d.Forget == nil {
		return l.takeNext(d)
	}
	l.indexMu.RLock()
	durable := l.index.Len()
	l.indexMu.RUnlock()
	var s *Slot
	err := l.forget(d.Forget, durable)
	if err == nil {
		s, err = l.takeNext(d)
	}
	if err != nil {
		l.Seal(err)
	}
	return s, err
}

// placeable returns an error if the next entry of a chain cannot be placed, at that time.
func (l *Log) placeable(c *Chain, at contracts.Time) error {
	if err := l.Err(); err != nil {
		return err
	}
	switch {
	case c == nil || c.log != l:
		return errors.New("proofgraph: place: not a chain of this log")
	case l.sharing != nil: // others move the chain: see joint.add
	case c.closed:
		return ErrClosed
	case c.open:
		return errors.New("proofgraph: place: the chain's entry before this one is not signed yet")
	case at < c.time:
		return errors.New("proofgraph: place: time runs back within the session; give at least Chain.Time")
	}
	switch {
	case c.session != contracts.SessionKernel && c.session != contracts.SessionRefused &&
		!contracts.IsSession(c.session):
		return errors.New("proofgraph: place: not a legal session name")
	case contracts.TimeOf(at.Time()) != at:
		return errors.New("proofgraph: place: a time outside the years 1970 to 9999")
	}
	return nil
}

func (l *Log) takeNext(d *Draft) (*Slot, error) {
	c := d.Chain
	s := &Slot{chain: c, waiter: waiter{log: l}}
	s.blobs = s.blob[:0]
	forgotten := l.forgotten.Load()
	s.header = contracts.Header{Key: l.keyID, Prev: c.last, Seq: c.next, Session: c.session, Time: d.Time}
	if err := s.link(d.Parents); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock() // a panic in Take takes no place
	if err := l.notSealed(); err != nil {
		return nil, err
	}
	if l.forgotten.Load() != forgotten { // since the parents were looked up
		if err := s.link(d.Parents); err != nil {
			return nil, err
		}
	}
	s.index = l.next()
	if s.index >= maxEntries {
		return nil, errors.New("proofgraph: place: the log is full")
	}
	if d.Take != nil {
		if err := d.Take(Place{s}); err != nil {
			return nil, err
		}
	}
	if d.Forget != nil {
		l.forgotten.Add(1)
	}
	l.slots = append(l.slots, s)
	l.last = d.End
	c.open = true
	return s, nil
}

// link fills in the parents and the Lamport time, which is later than that of every entry named.
func (s *Slot) link(parents []contracts.Digest) error {
	h := &s.header
	h.Lamport = s.chain.lamport
	list := append(s.parent[:0], parents...)
	if len(list) > 1 {
		slices.SortFunc(list, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
		list = slices.Compact(list)
	}
	if i := slices.Index(list, h.Prev); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) > contracts.MaxParents {
		return fmt.Errorf("proofgraph: place: %d parents, want at most %d", len(list), contracts.MaxParents)
	}
	if len(list) > 0 {
		h.Parents = list
		s.log.indexMu.RLock()
		defer s.log.indexMu.RUnlock()
		for _, p := range list {
			_, lamport, ok := s.log.lookup(p)
			if !ok {
				return ErrUnknownParent
			}
			h.Lamport = max(h.Lamport, lamport)
		}
	}
	h.Lamport++
	return nil
}
