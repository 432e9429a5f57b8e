package evidence

import (
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/trust/registry"
)

// Where there is more than one processor, entries are opened by several goroutines ahead of the one that folds them, which is the caller's and
// the only one that reads. They hand on what passed: whatever fails, or cannot be told yet, is opened anew in its turn, as if nobody had
// tried. So the first fault in log order is the answer however they were scheduled, and none of them can be the reason for one.

const (
	batchBytes = 64 << 10 // some milliseconds of work
	batchLines = 128      // entries are longer, but what is between line ends need not be one
	maxWorkers = 16       // the fold takes a tenth of the time of all: more would wait for it
)

// A batch is some entries that follow one another.
type batch struct {
	state  *registry.State // of a turn at or before that of the first
	first  uint64          // index
	text   []byte
	lines  []line // in text
	opened []early
	ready  bool // it was taken, and is opened as far as it can be
}

// A pipeline has a ring of batches, of which the caller fills one, others are opened, and the caller folds the oldest.
type pipeline struct {
	v      *verifier
	ring   []batch
	wait   sync.WaitGroup // for the workers
	ending atomic.Bool

	mu      sync.Mutex // protects what follows, and ready
	changed sync.Cond
	filled  uint64 // batches so far
	taken   uint64 // to be opened
	folded  uint64
}

// ahead folds the log with workers who open entries ahead.
func (v *verifier) ahead() error {
	p := &pipeline{v: v, ring: make([]batch, 2*v.workers)}
	p.changed.L = &p.mu
	defer p.end()
	index := uint64(0)
	for l, f := range v.from.lines() {
		var err error
		switch {
		case f != nil: // the last pair: in its turn
			if err = p.drain(); err == nil {
				err = v.next(l, early{}, f)
			}
		case index == 0: // without it there may be no trust state
			err = v.next(l, early{}, nil)
		default:
			err = p.add(l, index)
		}
		if err != nil {
			return err
		}
		index++
	}
	return p.drain()
}

// add copies an entry into the batch at hand. Where that is full it goes to the workers.
func (p *pipeline) add(l line, index uint64) error {
	b := p.at(p.filled)
	if n := len(b.lines); n == batchLines || n > 0 && len(b.text)+len(l.bytes) > p.v.batch {
		p.start()
		if err := p.give(); err != nil {
			return err
		}
		b = p.at(p.filled)
	}
	if len(b.lines) == 0 {
		b.first, b.state = index, p.v.state
	}
	if b.text == nil {
		b.text = make([]byte, 0, p.v.batch)
	}
	n := len(b.text)
	b.text = append(b.text, l.bytes...) // beyond its capacity if the batch was empty, so nothing in it moves
	l.bytes = b.text[n:]
	b.lines, b.opened = append(b.lines, l), append(b.opened, early{})
	return nil
}

func (p *pipeline) at(n uint64) *batch { return &p.ring[n%uint64(len(p.ring))] }

// give hands on the batch at hand, and makes room for another one.
func (p *pipeline) give() error {
	p.mu.Lock()
	p.filled++
	p.changed.Broadcast()
	p.mu.Unlock()
	for p.filled-p.folded == uint64(len(p.ring)) {
		if err := p.fold(); err != nil {
			return err
		}
	}
	return nil
}

// drain folds all that there is.
func (p *pipeline) drain() error {
	if err := p.give(); err != nil {
		return err
	}
	for p.folded < p.filled {
		if err := p.fold(); err != nil {
			return err
		}
	}
	return nil
}

// fold folds the oldest batch.
func (p *pipeline) fold() error {
	p.await()
	b := p.at(p.folded)
	for i, l := range b.lines {
		if err := p.v.next(l, b.opened[i], nil); err != nil {
			return err
		}
	}
	clear(b.opened)
	*b = batch{text: b.text[:0], lines: b.lines[:0], opened: b.opened[:0]}
	if cap(b.text) > p.v.batch {
		b.text = nil
	}
	p.folded++
	return nil
}

// await returns when the oldest batch is opened, or when nobody has taken it: the fold then opens it entry by entry. Until then it opens others.
func (p *pipeline) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for oldest := p.at(p.folded); !oldest.ready; {
		switch {
		case p.taken == p.folded:
			p.taken++
			return
		case p.taken < p.filled:
			p.open(&p.v.opener)
		default:
			p.changed.Wait()
		}
	}
}

// open takes the next batch and opens it. It is called, and returns, with the lock held.
func (p *pipeline) open(o *opener) {
	b := p.at(p.taken)
	p.taken++
	p.mu.Unlock()
	defer func() {
		if recover() != nil { // the fold will come to it, where the caller can see it
			clear(b.opened)
		}
		p.mu.Lock()
		b.ready = true
		p.changed.Broadcast()
	}()
	for i, l := range b.lines {
		if p.ending.Load() {
			return
		}
		b.opened[i] = o.open(l.bytes, b.state, b.first+uint64(i))
	}
}

// start has the workers begin.
func (p *pipeline) start() {
	if p.filled > 0 {
		return
	}
	for range p.v.workers - 1 {
		p.wait.Go(func() {
			o := opener{canonical: p.v.canonical}
			p.mu.Lock()
			defer p.mu.Unlock()
			for !p.ending.Load() {
				if p.taken < p.filled {
					p.open(&o)
				} else {
					p.changed.Wait()
				}
			}
		})
	}
}

// end returns when all workers have.
func (p *pipeline) end() {
	p.mu.Lock()
	p.ending.Store(true)
	p.changed.Broadcast()
	p.mu.Unlock()
	p.wait.Wait()
}
