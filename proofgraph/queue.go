package proofgraph

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/helmkernel/helm/internal/contain"
)

// The entries behind the last durable one stand in a queue in the order of their places. They are signed in any order; what is written is
// always the longest signed prefix, by one Append, and never two at once. There is neither a timer nor a goroutine for it: whoever waits
// for an entry of the prefix, and finds that nobody has the lead, takes it, writes, and hands it to somebody who waits for one of the
// next prefix. So while nobody has the lead, nobody sleeps whose entry could be written.
type queue struct {
	size    uint64  // durable entries
	slots   []*Slot // of the places from size on
	ready   int     // of slots: the signed prefix
	flying  int     // of ready: being written
	last    error   // nil, or why no place is taken behind those of slots
	led     bool    // somebody has the lead, or has been woken to take it
	asleep  int     // goroutines
	pending request // a checkpoint, which goes with the next batch
	batch   Batch   // its slices are used again
	bells   sync.Pool
}

// request is a checkpoint to be stored.
type request struct {
	*waiter
	note []byte
}

const (
	maxEntries      = math.MaxUint32 // see Index
	maxBatchEntries = 1024           // one who leads is not to write for others forever
	maxBatchBytes   = 4 << 20        // reached by one entry at most
)

type state int8

const (
	placed  state = iota
	signed        // may be written
	flying        // is being written
	stored        // is durable
	refused       // writing it failed: whether it is stored is unknown
)

// A waiter is what a goroutine can wait for: a slot's entry, or a request.
type waiter struct {
	log    *Log
	index  uint64 // of a slot; 0 for requests, which need no place
	state  state
	leads  bool          // somebody who sleeps here was woken to take the lead
	asleep int           // goroutines
	bell   chan struct{} // wakes one of them; there while one sleeps
}

func (l *Log) next() uint64 { return l.size + uint64(len(l.slots)) }

func (w *waiter) signed() bool {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.state != placed
}

func (w *waiter) durable() bool {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.state == stored
}

// fill puts a signed entry in its place. It is false where the log was sealed meanwhile.
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
	s.chain.advance(&s.header, s.hash, closes)
	l.handOver() // who sleeps behind this entry must not depend on somebody waiting for this one
	return true
}

var errUnsigned = errors.New("proofgraph: wait: the entry is not signed")

func (w *waiter) wait() error {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case w.state == stored:
			return nil
		case w.settled():
			return l.Err()
		case w.state == placed:
			return errUnsigned
		case w.leads || !l.led && w.state == signed && w.index < l.size+uint64(l.ready):
			w.leads, l.led = false, true
			l.commit()
		default:
			l.sleep(w)
		}
	}
}

// settled tells whether there is nothing left to wait for.
func (w *waiter) settled() bool {
	return w.state >= stored || w.state != flying && w.log.Err() != nil
}

// sleep returns when there may be something to do.
func (l *Log) sleep(w *waiter) {
	if w.bell == nil {
		if w.bell, _ = l.bells.Get().(chan struct{}); w.bell == nil {
			w.bell = make(chan struct{}, 1)
		}
	}
	bell := w.bell
	w.asleep++
	l.asleep++
	l.mu.Unlock()
	<-bell
	l.mu.Lock()
	w.asleep--
	l.asleep--
	switch {
	case w.asleep == 0:
		w.bell = nil
		l.bells.Put(bell) // perhaps rung once more: then somebody wakes for nothing
	case w.settled():
		w.wake() // the next one: a bell wakes one
	}
}

// wake wakes one who sleeps here, if anybody does. Who is woken for nothing sleeps again.
func (w *waiter) wake() {
	if w.asleep > 0 {
		select {
		case w.bell <- struct{}{}:
		default:
		}
	}
}

// handOver gives the lead, if nobody has it, to somebody who sleeps and has something to write.
func (l *Log) handOver() {
	if l.led || l.asleep == 0 {
		return
	}
	heir := l.pending.waiter
	for i := 0; i < l.ready && (heir == nil || heir.asleep == 0); i++ {
		heir = &l.slots[i].waiter
	}
	if heir != nil && heir.asleep > 0 && !heir.settled() {
		l.led, heir.leads = true, true
		heir.wake()
	}
}

// commit writes the longest signed prefix, within limits. The caller has the lead and holds mu, which is not held meanwhile.
func (l *Log) commit() {
	b := &l.batch
	b.At, b.Checkpoint = l.size, l.pending.note
	for bytes := 0; l.flying < l.ready && l.flying < maxBatchEntries && bytes < maxBatchBytes; l.flying++ {
		s := l.slots[l.flying]
		s.state = flying
		b.Entries = append(b.Entries, s.entry)
		b.Blobs = append(b.Blobs, s.blobs...)
		bytes += len(s.entry)
		for _, blob := range s.blobs {
			bytes += len(blob)
		}
	}
	note := l.pending.waiter
	if note != nil {
		note.state = flying
	}
	written := l.slots[:l.flying]
	l.mu.Unlock()
	err := errGone
	defer func() { // on every way out: a store may panic, or end the goroutine
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: store: Append", x)
		}
		l.mu.Lock()
		l.land(note, err)
	}()
	if err = l.store.Append(context.Background(), *b); err != nil { // whoever waits, what is signed is to be stored
		return
	}
	for _, s := range written {
		if err = l.learn(s.hash, s.header.Lamport); err != nil {
			return
		}
	}
}

// land settles what was written, and hands the lead on. The caller holds mu.
func (l *Log) land(note *waiter, err error) {
	n, outcome := l.flying, stored
	if err != nil {
		outcome = refused
	}
	written := l.slots[:n]
	l.flying, l.led = 0, false
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
	if l.last != nil && rest == 0 {
		l.seal(l.last)
		return
	}
	l.handOver()
}

// abandon lets go of everything that is not being written.
func (l *Log) abandon() {
	for _, s := range l.slots[l.flying:] {
		s.wake()
	}
	if r := l.pending.waiter; r != nil && r.state != flying {
		r.wake()
		l.pending = request{}
	}
	clear(l.slots[l.flying:])
	l.slots, l.ready = l.slots[:l.flying], l.flying
}

// flush waits until what is signed is durable: the whole prefix.
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
