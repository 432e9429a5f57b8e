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
	for r.queue.size < r.size {
		c, err := r.read()
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if err := r.condense(r.queue.size-1, c); err != nil {
			return fmt.Errorf("entry %d: %w", r.queue.size-1, err)
		}
	}
	return nil
}

// read reads the lines up to the next condense entry, if its set is to be forgotten, and returns
// that. It returns nil if there is none.
func (r *restoring) read() (*contracts.Condense, error) {
	l := r.Log
	for e, err := range l.store.Entries(r.ctx, l.queue.size, r.size) {
		if err != nil {
			return nil, err
		}
		if l.queue.size == r.size {
			return nil, errors.New("the store has more entries than it says")
		}
		at := l.queue.size
		line, err := r.next(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", at, err)
		}
		if err := r.each(line); err != nil {
			return nil, err
		}
		if l.queue.size++; l.queue.size == r.mark.Size && l.tree.Root() != r.mark.Root {
			return nil, errors.New("the store's checkpoint is of other entries")
		}
		if st := line.Statement; st != nil && st.Condense != nil && r.condensed != nil {
			return st.Condense, nil
		}
	}
	if l.queue.size < r.size {
		return nil, errors.New("the store has fewer entries than it says")
	}
	return nil, nil
}

// next reads the next line, checks that it follows from those before, and adds it to the log.
func (r *restoring) next(e contracts.Entry) (Line, error) {
	line := Line{Index: r.queue.size, Bytes: e, Tree: &r.tree}
	var h *contracts.Header
	var closes bool
	if contracts.IsStub(e) {
		s, err := r.reader.Stub(e)
		if err != nil {
			return line, err
		}
		line.Stub, line.Hash = s, s.Entry
		h = &contracts.Header{Lamport: s.Lamport, Parents: s.Parents, Seq: s.Seq, Session: s.Session, Time: s.Time}
	} else {
		st, err := r.open(e)
		if err != nil {
			return line, err
		}
		line.Statement, line.Hash, h, closes = st, e.Hash(), &st.Header, st.Close != nil
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

// open reads an entry.
func (r *restoring) open(e contracts.Entry) (*contracts.Statement, error) {
	return openEntry(&r.reader, e)
}

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
		return r.begins(st)
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

// begins checks that genesis is that of the log.
func (r *restoring) begins(st *contracts.Statement) error { return isFirst(st, r.origin) }

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
