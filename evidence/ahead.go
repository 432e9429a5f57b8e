package evidence

import (
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/trust/registry"
)

// If there is more than one processor, several goroutines open entries ahead of the one that folds
// them, which is the caller's and the only one that reads. They hand on what passed. Whatever
// fails, or cannot be known yet, is opened again in its turn as if nobody had tried. So the first
// fault in log order is the answer however they were scheduled, and none of them can be the reason
// for one.

const (
	batchBytes = 64 << 10 // some milliseconds of work
	batchLines = 128      // entries are longer, but the bytes between line ends need not be an entry
	maxWorkers = 16       // the fold takes a tenth of all the time: more would wait for it
)

// A batch is some entries that follow one another.
type batch struct {
	state  *registry.State // at the first entry or earlier
	first  uint64          // index
	text   []byte
	lines  []line  // in text
	opened []early // of the lines, as far as they could be opened
}

// open opens the entries of a batch. If it panics, the fold will come to the entry, and the caller
// sees the panic.
func (b *batch) open(o *opener, ending func() bool) {
	defer contain.Drop()
	for i, l := range b.lines {
		if ending() {
			return
		}
		b.opened[i] = o.open(l.bytes, b.state, b.first+uint64(i))
	}
}

// add copies an entry into the batch. It reports whether there was room.
func (b *batch) add(l line, index uint64, v *verifier) bool {
	switch {
	case len(b.lines) == batchLines, len(b.lines) > 0 && len(b.text)+len(l.bytes) > v.batch:
		return false
	case len(b.lines) == 0:
		b.first, b.state = index, v.fold.state
	}
	if b.text == nil {
		b.text = make([]byte, 0, v.batch)
	}
	n := len(b.text)
	b.text = append(b.text, l.bytes...) // beyond its capacity only if the batch was empty, so nothing in it moves
	l.bytes = b.text[n:]
	b.lines, b.opened = append(b.lines, l), append(b.opened, early{})
	return true
}

// entries folds the log, with workers that open entries ahead if there are several processors.
func (v *verifier) entries() error {
	var q *inorder.Queue[batch]
	work := func(o *opener) func(*batch) { return func(b *batch) { b.open(o, q.Ending) } }
	q = inorder.New(v.workers, 2*v.workers, work(&v.opener),
		func() func(*batch) { return work(&opener{canonical: v.canonical}) }, v.foldBatch)
	defer q.End()
	index := uint64(0)
	for l, f := range v.from.lines() {
		var err error
		switch {
		case f != nil: // the last pair: in its turn
			err = q.Drain()
			if err == nil {
				err = v.next(l, early{}, f)
			}
		case index == 0 || v.workers == 1: // without entry 0 there may be no trust state
			err = v.next(l, early{}, nil)
		case !q.Next().add(l, index, v):
			err = q.Push()
			if err == nil {
				q.Next().add(l, index, v)
			}
		}
		if err != nil {
			return err
		}
		index++
	}
	return q.Drain()
}

// foldBatch folds the entries of a batch and empties it.
func (v *verifier) foldBatch(b *batch) error {
	for i, l := range b.lines {
		if err := v.next(l, b.opened[i], nil); err != nil {
			return err
		}
	}
	clear(b.opened)
	*b = batch{text: b.text[:0], lines: b.lines[:0], opened: b.opened[:0]}
	if cap(b.text) > v.batch {
		b.text = nil
	}
	return nil
}
