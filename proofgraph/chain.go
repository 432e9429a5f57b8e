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
}

// Session returns the session's name.
func (c *Chain) Session() string { return c.session }

// Next returns the seq of the next entry.
func (c *Chain) Next() uint64 { return c.next }

// Time returns the time of the last entry, or 0 if there is none.
func (c *Chain) Time() contracts.Time { return c.time }

// Last returns the hash of the last entry, or that of genesis if there is none.
func (c *Chain) Last() contracts.Digest { return c.last }

// Closed reports whether the last entry closed the session.
func (c *Chain) Closed() bool { return c.closed }

// advance makes the entry at an index the last one.
func (c *Chain) advance(h *contracts.Header, hash contracts.Digest, index uint64, closes bool) {
	c.next, c.last, c.lamport, c.time, c.closed, c.open = h.Seq+1, hash, h.Lamport, h.Time, closes, false
	c.end = index
}
