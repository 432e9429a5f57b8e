package archivist

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

// An Archivist knows the sets of the condense entries of one log. While the log is opened it is
// told of each line. After that [Archivist.Condense] and [Archivist.Drop] are safe for concurrent
// use: one of them runs at a time, and others wait.
type Archivist struct {
	store proofgraph.Store
	busy  chan struct{} // full while Condense or Drop runs; protects all below
	scan  scan
	bits  bitset             // the members of all sets
	whole []*set             // of which members may stand whole in the store, by index
	left  uint64             // no entry below may go with a later set
	owed  []contracts.Digest // names of blobs that a Drop which failed did not forget
	stubs pending            // while the log is opened: those of no set so far
	base  uint64             // the entries below were not read: see Load
}

// A Closer is a log, or the part of one that was read.
type Closer interface {
	// Closed reports whether the session has its close below the index size.
	Closed(session string, size uint64) bool
}

// A Log is a log that is open.
type Log interface {
	Closer

	// Tree returns the tree of the durable entries.
	Tree() proofgraph.Tree
}

// A set is that of a condense entry.
type set struct {
	index   uint64 // of the condense entry
	fields  contracts.Condense
	members bitset
}

// New returns the archivist of a log in a store, of which nothing was read. document returns the
// bytes of a policy document that the store does not have; it may be nil.
func New(store proofgraph.Store, document func(contracts.Digest) []byte) *Archivist {
	return &Archivist{store: store, busy: make(chan struct{}, 1), scan: newScan(store, document)}
}

// Line adds the next line of the log that is opened.
func (a *Archivist) Line(l *proofgraph.Line) {
	if l.Stub != nil {
		a.scan.add(l.Hash, l.Stub.Time, l.Tree)
		a.stubs.add(l.Index, l.Bytes)
		return
	}
	if p := l.Statement.Policy; p != nil {
		a.scan.policy(l.Index, p)
	}
	a.scan.add(l.Hash, l.Statement.Time, l.Tree)
}

// Condensed returns the set of a condense entry of the log that is opened, as
// [proofgraph.Options].Condensed does. If the stubs in its range are the set there is nothing to
// compute; else the lines of the range are read again.
func (a *Archivist) Condensed(
	ctx context.Context, log Closer, index uint64, c *contracts.Condense,
) (members iter.Seq[uint64], err error) {
	defer contain.Error(&err, "Options.Store")
	s := &set{index: index, fields: *c, members: bitsFrom(c.From)}
	if c.Size > index {
		return nil, fmt.Errorf("size %d is above its index", c.Size)
	}
	if !a.stubs.are(c, &s.members) {
		computed, err := a.compute(ctx, log, c.From, c.To, c.Size, c.Until, false)
		if err != nil {
			return nil, err
		}
		if computed.Dropped != c.Dropped || computed.Stubs != c.Stubs {
			return nil, fmt.Errorf("its set is of %d entries by the log, and it says another one, of %d",
				computed.Dropped, c.Dropped)
		}
		for i := range computed.Members() {
			s.members.add(i)
		}
		whole := a.stubs.remove(&s.members) < c.Dropped
		if whole && c.From < a.base { // stubs below the base were not read
			if whole, err = a.stands(ctx, s); err != nil {
				return nil, err
			}
		}
		if whole {
			a.whole = append(a.whole, s)
		}
	}
	a.enter(s)
	return s.members.all(), nil
}

// enter adds a set.
func (a *Archivist) enter(s *set) {
	for i := range s.members.all() {
		a.bits.add(i)
	}
}

// lock waits for its turn.
func (a *Archivist) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case a.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Archivist) unlock() { <-a.busy }

// Opened is called after the last line. It returns an error if a stub is of no set: then the store
// has lost an entry.
func (a *Archivist) Opened() error {
	if i, ok := a.stubs.first(); ok {
		return fmt.Errorf("entry %d: %w", i, ErrNotCovered)
	}
	a.stubs = pending{}
	a.scan.opened()
	return nil
}

// ErrNotCovered is about a stub that is of no set.
var ErrNotCovered = errors.New("a stub that no condense entry covers: the store has lost the entry")

// Covers reports whether an entry is in a set.
func (a *Archivist) Covers(index uint64) bool { return a.bits.has(index) }

// Members returns the entries of all sets, ascending.
func (a *Archivist) Members() iter.Seq[uint64] { return a.bits.all() }

// compute returns the set of a range that no condense entry has yet. It reads entries and stubs in
// their places in the log, and of the members of the set it knows no more than that. The caller
// compares their stubs with a condense entry or, to write one, has each stub refused that is of no
// set.
func (a *Archivist) compute(
	ctx context.Context, log Closer, from, to, size uint64, until contracts.Time, refuse bool,
) (*condense.Set, error) {
	index, near := from/block*block, from/interval*interval
	latest := a.scan.times[from/interval]
	var r *condense.Range
	for line, err := range a.scan.blocks(ctx, from, to) {
		if err == nil && refuse && contracts.IsStub(line) && !a.bits.has(index) {
			err = fmt.Errorf("entry %d: %w", index, ErrNotCovered)
		}
		if err == nil && near <= index && index < from {
			x, bad := readLine(&a.scan.reader, line)
			latest, err = max(latest, x.time), bad
		}
		if err == nil && from <= index && index < to {
			if r == nil {
				r = condense.NewRange(from, to, size, until, condense.Log{Gone: a.bits.has, Closed: log.Closed,
					Policy: a.scan.policyOf, Latest: latest,
					Terms: func(p uint64) (*condense.Terms, error) { return a.scan.terms(ctx, p) }})
			}
			err = r.Add(line)
		}
		if err != nil {
			return nil, err
		}
		index++
	}
	return r.Set(), nil
}
