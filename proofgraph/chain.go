package proofgraph

import (
	"github.com/helmkernel/helm/contracts"
)

// A Chain is the sequence of entries of one session, each of which names the one before. It is for
// one goroutine at a time, from reading Time to signing the entry that was placed. Different chains
// are independent.
type Chain struct {
	log     *Log
	session string
	next    uint64
	last    contracts.Digest
	lamport uint64
	time    contracts.Time
	closed  bool
	end     uint64 // index of the entry that closed it
	open    bool   // an entry was placed and is not signed yet

	// Of a log over a Shared. All of the chain is protected by log.mu then.
	calls   int  // decisions that have no receipt yet
	seen    End  // what was read of the session
	unknown bool // where the session ends: nobody has asked yet
}

// Session returns the session's name.
func (c *Chain) Session() string { return c.session }

// Next returns the seq of the next entry.
func (c *Chain) Next() uint64 {
	if c.log.sharing != nil {
		return c.now().Next
	}
	return c.next
}

// Time returns the time of the last entry, or 0 if there is none.
func (c *Chain) Time() contracts.Time {
	if c.log.sharing != nil {
		return c.now().Time
	}
	return c.time
}

// Last returns the hash of the last entry, or that of genesis if there is none.
func (c *Chain) Last() contracts.Digest {
	if c.log.sharing != nil {
		c.log.mu.Lock()
		defer c.log.mu.Unlock()
	}
	return c.last
}

// Closed reports whether the last entry closed the session.
func (c *Chain) Closed() bool {
	if c.log.sharing != nil {
		return c.now().Closed
	}
	return c.closed
}

// Open returns how many decisions of the session have no receipt yet, if the log is over a [Shared]
// store. Over another one it returns 0.
func (c *Chain) Open() int {
	if c.log.sharing != nil {
		return c.now().Open
	}
	return 0
}

// Unread reports whether the session may have entries that [Log.Follow] has not read. Over a store
// that is not [Shared] it has none.
func (c *Chain) Unread() bool {
	if c.log.sharing == nil {
		return false
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.unknown || c.seen.Next < c.next
}

// now returns where the chain ends, of a log over a Shared.
func (c *Chain) now() End {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.ending()
}

// ending is now for a caller that holds log.mu.
func (c *Chain) ending() End {
	e := End{Next: c.next, Lamport: c.lamport, Time: c.time, Open: c.calls, Closed: c.closed}
	if c.next > 0 {
		e.Last = c.last
	}
	return e
}

func (c *Chain) setEnd(e End) {
	c.next, c.last, c.lamport, c.time, c.closed, c.calls = e.Next, e.Last, e.Lamport, e.Time, e.Closed, e.Open
	if e.Next == 0 {
		c.last = c.log.genesis
	}
}

// advance makes the entry at an index the last one.
func (c *Chain) advance(h *contracts.Header, hash contracts.Digest, index uint64, closes bool) {
	c.next, c.last, c.lamport, c.time, c.closed, c.open = h.Seq+1, hash, h.Lamport, h.Time, closes, false
	c.end = index
}
