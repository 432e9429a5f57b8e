package proofgraph

import (
	"context"
	"math"
	"sync"

	"github.com/helmkernel/helm/internal/contain"
)

// A queue holds the entries after the last durable one, in the order of their places. They are
// signed in any order. The longest signed prefix is written by one Append, and there is one Append
// at a time.
//
// There is no timer and no goroutine for it. A goroutine that waits for an entry of the signed
// prefix takes the lead if no other has it. The leader writes, and then hands the lead to a
// goroutine that waits for an entry of the next prefix. So while the lead is free, no goroutine
// sleeps whose entry could be written.
//
// The queue counts sleeping goroutines itself and wakes those that have something to do. With a
// sync.Cond each batch would wake all of them: that was measured to be no faster, and with 8,000
// goroutines to take a tenth more processor time.
type queue struct {
	size    uint64    // durable entries
	marked  uint64    // of which the latest checkpoint is
	slots   []*Slot   // of the places from size on
	ready   int       // how many of slots are the signed prefix
	writing int       // how many of ready are being written
	last    error     // not nil: no place is taken after those of slots, and why
	led     bool      // a goroutine has the lead, or was woken to take it
	asleep  int       // sleeping goroutines
	pending request   // a checkpoint that goes with the next batch
	batch   Batch     // its slices are reused
	wakeups sync.Pool // of channels for waiter.wakeup
}

// A request is a checkpoint to be stored.
type request struct {
	*waiter
	note []byte
	size uint64
}

const (
	maxEntries      = math.MaxUint32 // see Index
	maxBatchEntries = 1024           // so that a leader does not write for others forever
	maxBatchBytes   = 4 << 20        // exceeded by one entry at most
)

type slotState int8

const (
	placed  slotState = iota
	signed            // may be written
	writing           // is being written
	stored            // is durable
	refused           // writing it failed: it is unknown whether it is stored
)

// A waiter is what a goroutine waits for: the entry of a slot, or a request.
type waiter struct {
	log    *Log
	index  uint64 // of a slot; 0 for requests, which need no place
	state  slotState
	leader bool          // a goroutine that sleeps here was woken to take the lead
	asleep int           // goroutines that sleep here
	wakeup chan struct{} // wakes one of them; nil if none sleeps
}

func (l *Log) next() uint64 { return l.size + uint64(len(l.slots)) }

// progress returns the present state.
func (w *waiter) progress() slotState {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.state
}

// fill puts a signed entry in its place. It returns false if the log was sealed meanwhile.
func (l *Log) fill(s *Slot, closes bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() != nil {
		return false
	}
	s.state = signed
	for l.ready < len(l.slots) && l.slots[l.ready].state == signed {
		l.ready++
	}
	s.chain.advance(&s.header, s.hash, s.index, closes)
	l.handOver() // goroutines that wait for later entries must not depend on one that waits for this
	return true
}

func (w *waiter) wait() error {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case w.state == stored:
			return nil
		case w.finished():
			return l.Err()
		case w.leader || !l.led && w.state == signed && w.index < l.size+uint64(l.ready):
			w.leader, l.led = false, true
			l.commit()
		default:
			l.sleep(w)
		}
	}
}

// finished reports whether there is nothing left to wait for.
func (w *waiter) finished() bool {
	return w.state >= stored || w.state != writing && w.log.Err() != nil
}

// sleep returns when there may be something to do.
func (l *Log) sleep(w *waiter) {
	if w.wakeup == nil {
		if w.wakeup, _ = l.wakeups.Get().(chan struct{}); w.wakeup == nil {
			w.wakeup = make(chan struct{}, 1)
		}
	}
	bell := w.wakeup
	w.asleep++
	l.asleep++
	l.mu.Unlock()
	<-bell
	l.mu.Lock()
	w.asleep--
	l.asleep--
	switch {
	case w.asleep == 0:
		w.wakeup = nil
		l.wakeups.Put(bell) // it may hold one more signal: then a goroutine wakes for nothing
	case w.finished():
		w.wake() // the next one: a signal wakes one
	}
}

// wake wakes one goroutine that sleeps here, if there is one. A goroutine that is woken for nothing
// sleeps again.
func (w *waiter) wake() {
	if w.asleep > 0 {
		select {
		case w.wakeup <- struct{}{}:
		default:
		}
	}
}

// handOver passes the lead, if it is free, to a goroutine that sleeps and has something to write.
func (l *Log) handOver() {
	if l.led || l.asleep == 0 {
		return
	}
	heir := l.pending.waiter
	for i := 0; i < l.ready && (heir == nil || heir.asleep == 0); i++ {
		heir = &l.slots[i].waiter
	}
	if heir != nil && heir.asleep > 0 && !heir.finished() {
		l.led, heir.leader = true, true
		heir.wake()
	}
}

// commit writes the longest signed prefix, within limits. The caller has the lead and holds mu,
// which is released meanwhile.
func (l *Log) commit() {
	b := &l.batch
	b.At, b.Checkpoint = l.size, l.pending.note
	for bytes := 0; l.writing < l.ready && l.writing < maxBatchEntries && bytes < maxBatchBytes; l.writing++ {
		s := l.slots[l.writing]
		s.state = writing
		b.Entries = append(b.Entries, s.entry)
		b.Blobs = append(b.Blobs, s.blobs...)
		bytes += len(s.entry)
		for _, blob := range s.blobs {
			bytes += len(blob)
		}
	}
	note := l.pending.waiter
	if note != nil {
		note.state = writing
	}
	written := l.slots[:l.writing]
	l.mu.Unlock()
	err := errGone
	defer func() { // on every way out: a store may panic, or end the goroutine
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: store: Append", x)
		}
		l.mu.Lock()
		l.settle(note, err)
	}()
	// Not the waiter's context: what is signed is to be stored.
	if err = l.store.Append(context.Background(), *b); err != nil {
		return
	}
	for _, s := range written {
		if err = l.indexEntry(s.hash, s.header.Lamport); err != nil {
			return
		}
	}
}

// settle records the outcome of an Append and passes the lead on. The caller holds mu.
func (l *Log) settle(note *waiter, err error) {
	n, outcome, marks := l.writing, stored, l.pending.size
	if err != nil {
		outcome = refused
	}
	written := l.slots[:n]
	l.writing, l.led = 0, false
	for _, s := range written {
		s.state, s.blobs, s.blob = outcome, nil, [1][]byte{}
	}
	if note != nil {
		note.state = outcome
		l.pending = request{}
	}
	for _, s := range written {
		s.wake()
	}
	if note != nil {
		note.wake()
	}
	clear(l.batch.Entries)
	clear(l.batch.Blobs)
	l.batch = Batch{Entries: l.batch.Entries[:0], Blobs: l.batch.Blobs[:0]}
	rest := copy(l.slots, l.slots[n:])
	clear(l.slots[rest:])
	l.slots, l.ready = l.slots[:rest], l.ready-n
	if err != nil {
		l.seal(err)
		return
	}
	l.size += uint64(n)
	if note != nil {
		l.marked = marks
	}
	l.grown(l.size, l.marked)
	if l.last != nil && rest == 0 {
		l.seal(l.last)
		return
	}
	l.handOver()
}

// drop removes everything from the queue that is not being written.
func (l *Log) drop() {
	for _, s := range l.slots[l.writing:] {
		s.wake()
	}
	if r := l.pending.waiter; r != nil && r.state != writing {
		r.wake()
		l.pending = request{}
	}
	clear(l.slots[l.writing:])
	l.slots, l.ready = l.slots[:l.writing], l.writing
}

// flush waits until the signed prefix is durable.
func (l *Log) flush() error {
	l.mu.Lock()
	var last *Slot
	if l.ready > 0 {
		last = l.slots[l.ready-1]
	}
	l.mu.Unlock()
	if last == nil {
		return l.Err()
	}
	return last.wait()
}
