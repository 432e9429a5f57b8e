package helm

import (
	"container/list"
	"sync"

	"github.com/helmkernel/helm/contracts"
)

// A room bounds what stands in the log's queue while the store is slow: decisions, from before they take their place until they are durable.
// Who finds no room waits for it without a lock, a place or room of its own. So whoever has room waits for nothing but the signer, the store
// and locks that are held for one entry, and gives it back. Receipts need none: what has run is recorded.
type room struct {
	mu    sync.Mutex // protects all below
	limit int
	taken int
	line  list.List // of guest: who waits, first come first
}

// A guest waits for room.
type guest struct {
	size int
	in   chan struct{} // closed when it has its room
}

// capacity is a kernel's limit: a decision takes one, and one more for each 64 KiB of arguments and envelopes. So there are at most 1,024
// decisions in the queue, as many as one Append writes, and 64 MiB of their inputs.
const capacity = 1024

// fits is true, too, for what is larger than an empty room: it would wait for ever.
func (r *room) fits(size int) bool { return r.taken == 0 || r.taken+size <= r.limit }

// take is false where there is no room. Nobody is overtaken.
func (r *room) take(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.line.Len() > 0 || !r.fits(size) {
		return false
	}
	r.taken += size
	return true
}

func (r *room) leave(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= size
	r.admit()
}

// wait takes room when it is its turn. It is false, and nothing is taken, where done or sealed comes first.
func (r *room) wait(size int, done, sealed <-chan struct{}) bool {
	in := make(chan struct{})
	r.mu.Lock()
	at := r.line.PushBack(guest{size, in})
	r.admit() // perhaps somebody has left by now
	r.mu.Unlock()
	select {
	case <-in:
		return true
	case <-done:
	case <-sealed:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if over(in) {
		return true
	}
	r.line.Remove(at)
	r.admit() // those behind may need less
	return false
}

// admit lets in who comes first, while there is room. The caller holds mu.
func (r *room) admit() {
	for e := r.line.Front(); e != nil; e = r.line.Front() {
		g := e.Value.(guest)
		if !r.fits(g.size) {
			return
		}
		r.taken += g.size
		r.line.Remove(e)
		close(g.in)
	}
}

// size is the room that the call's decision takes.
func (c *call) size() int {
	n := len(c.args)
	for _, list := range [...][]contracts.Envelope{c.inputs.Envelopes.Approvals, c.inputs.Envelopes.Attestations, c.inputs.Envelopes.Delegation} {
		for _, e := range list {
			n += len(e)
		}
	}
	return 1 + n>>16
}

// admitted takes room for the call's decision, unless it has some. It is false where there is none, and waits for nothing.
func (c *call) admitted() bool {
	if c.holds == 0 {
		if size := c.size(); c.room.take(size) {
			c.holds = size
		}
	}
	return c.holds > 0
}

// queue waits for room. It is false where the context ended first. That the kernel was sealed is for the answer to tell.
func (c *call) queue() bool {
	if size := c.size(); c.room.wait(size, c.done, c.log.Sealed()) {
		c.holds = size
	}
	return c.holds > 0 || c.log.Err() != nil
}

// vacate gives the call's room back, if it has any.
func (c *call) vacate() {
	if c.holds > 0 {
		c.room.leave(c.holds)
		c.holds = 0
	}
}
