package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/helmkernel/helm/contracts"
)

// A Line is what [Open] reads in one place of a log: an entry, or the stub that is left of one.
type Line struct {
	Index     uint64
	Bytes     contracts.Entry      // as the store has them
	Hash      contracts.Digest     // of the entry
	Statement *contracts.Statement // nil if there is a stub
	Stub      *contracts.Stub      // nil if there is the entry
	Parents   []uint64             // the indexes of the parents; reused for the next line
	Tree      *Tree                // of the entries up to this one; the log's own: copy it to keep it
}

// A restoring reads the log in a store.
type restoring struct {
	*Log
	ctx       context.Context
	origin    string
	size      uint64 // of the log that is read
	mark      Checkpoint
	each      func(Line) error
	condensed func(*Log, uint64, *contracts.Condense) (iter.Seq[uint64], error)
	reader    contracts.Reader
	parents   []uint64
	last      contracts.Digest // hash of the last line
	recalled  bool             // the older entries that lines name were looked for

	unanswered map[contracts.Digest]EntryAt // the ALLOWs that have no receipt yet; nil: nobody asks
}

// restore reads the log in the store.
func (l *Log) restore(ctx context.Context, size uint64, o Options, each func(Line) error) error {
	note, err := l.store.Checkpoint(ctx)
	if err != nil {
		return err
	}
	r := &restoring{Log: l, ctx: ctx, origin: o.Origin, size: size, each: each, condensed: o.Condensed}
	if note != nil {
		if r.mark, _, err = ParseCheckpoint(note); err != nil {
			return err
		}
		switch {
		case r.mark.Origin != o.Origin:
			return fmt.Errorf("the store's checkpoint is of the log %s, not of %s: give the origin that it was "+
				"begun with", r.mark.Origin, o.Origin)
		case r.mark.Size > size:
			return errors.New("the store's checkpoint is of entries that it does not have any more")
		}
		l.marked = r.mark.Size
	}
	return r.run(o.Prefix)
}

// run reads the lines after a prefix, or all of them.
func (r *restoring) run(p *Prefix) error {
	if p != nil {
		if err := r.begin(p); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	r.index.expect(r.size - r.queue.size)
	for line, err := range readAhead(r.ctx, r.store, r.queue.size, r.size) {
		if err != nil {
			return err
		}
		if err := r.add(&line); err != nil {
			return err
		}
	}
	return nil
}

// add adds the next line to the log. If it is a condense entry, its set may be forgotten.
func (r *restoring) add(x *storedLine) error {
	at := r.queue.size
	line, err := r.next(x)
	if err != nil {
		return fmt.Errorf("entry %d: %w", at, err)
	}
	if err := r.each(line); err != nil {
		return err
	}
	if r.queue.size++; r.queue.size == r.mark.Size && r.tree.Root() != r.mark.Root {
		return errors.New("the store's checkpoint is of other entries")
	}
	if st := line.Statement; st != nil && st.Condense != nil && r.condensed != nil {
		if err := r.condense(at, st.Condense); err != nil {
			return fmt.Errorf("entry %d: %w", at, err)
		}
	}
	return nil
}

// next checks that a line follows from those before, and adds it to them.
func (r *restoring) next(x *storedLine) (Line, error) {
	line := Line{Index: r.queue.size, Bytes: x.bytes, Hash: x.hash, Stub: x.stub, Tree: &r.tree}
	if x.err != nil {
		return line, x.err
	}
	var h *contracts.Header
	var closes bool
	if s := x.stub; s != nil {
		h = &contracts.Header{Lamport: s.Lamport, Parents: s.Parents, Seq: s.Seq, Session: s.Session, Time: s.Time}
	} else {
		st, err := openEntry(&r.reader, x.bytes)
		if err != nil {
			return line, err
		}
		line.Statement, h, closes = st, &st.Header, st.Close != nil
	}
	if line.Index == 0 {
		r.genesis = line.Hash
	}
	c := r.Chain(h.Session)
	if err := r.follows(c, h, &line); err != nil {
		return line, err
	}
	c.advance(h, line.Hash, line.Index, closes)
	r.last = line.Hash
	r.answer(&line, h.Lamport)
	return line, r.indexEntry(line.Hash, h.Lamport)
}

// answer notes an ALLOW, or that one has its receipt.
func (r *restoring) answer(line *Line, lamport uint64) {
	if r.unanswered == nil {
		return
	}
	switch st, s := line.Statement, line.Stub; {
	case st != nil && st.Decision != nil, s != nil && s.Decision != nil:
		r.unanswered[line.Hash] = EntryAt{line.Index, line.Hash, lamport}
	case st != nil && st.Receipt != nil:
		delete(r.unanswered, st.Receipt.DecisionHash)
	case s != nil && s.Receipt != nil:
		delete(r.unanswered, r.hashAt(s.Receipt.Decision))
	}
}

// openEntry reads an entry.
func openEntry(r *contracts.Reader, e contracts.Entry) (*contracts.Statement, error) {
	sealed, bad := r.Open(e)
	if bad != nil {
		return nil, bad
	}
	st, bad := sealed.Statement()
	if bad != nil {
		return nil, bad
	}
	if st.Key != sealed.KeyID {
		return nil, errors.New("key: not that of the signature")
	}
	return st, nil
}

// follows checks that a line follows from those before, and finds its parents.
func (r *restoring) follows(c *Chain, h *contracts.Header, line *Line) error {
	st := line.Statement
	if (st != nil && st.Genesis != nil) != (line.Index == 0) {
		return errors.New("genesis is the first entry and no other")
	}
	if line.Index == 0 {
		return isFirst(st, r.origin)
	}
	lamport := c.lamport
	r.parents = r.parents[:0]
	for _, p := range h.Parents {
		index, at, err := r.parent(p)
		if err != nil {
			return err
		}
		lamport = max(lamport, at)
		r.parents = append(r.parents, index)
	}
	line.Parents = r.parents
	if line.Stub != nil && line.Stub.Receipt != nil { // its parents are without the decision
		decision := line.Stub.Receipt.Decision
		if decision >= line.Index {
			return ErrUnknownParent
		}
		at, err := r.lamportAt(decision)
		if err != nil {
			return err
		}
		lamport = max(lamport, at)
	}
	switch {
	case c.closed:
		return ErrClosed
	case h.Seq != c.next:
		return errors.New("seq: not the next of its session")
	case st != nil && h.Prev != c.last:
		return errors.New("prev: not the last of its session")
	case h.Lamport != lamport+1:
		return errors.New("lamport: not one more than that of what is named")
	case h.Time < c.time:
		return errors.New("time: runs back within its session")
	}
	return nil
}

// isFirst returns an error if a statement is not the genesis of the log with that origin.
func isFirst(st *contracts.Statement, origin string) error {
	if g := st.Genesis; g.Origin != origin {
		return fmt.Errorf("origin: this store has the log %s, not %s: give the log its own store, "+
			"or the origin that it was begun with (of itself that has the first key's name)", g.Origin, origin)
	}
	if st.Seq != 0 || st.Lamport != 0 || len(st.Parents) != 0 || st.Prev != (contracts.Digest{}) {
		return errors.New("genesis follows nothing")
	}
	return nil
}

// condense forgets the set of a condense entry.
func (r *restoring) condense(index uint64, c *contracts.Condense) error {
	set, err := r.condensed(r.Log, index, c)
	if err != nil {
		return err
	}
	return r.forget(set, index)
}
