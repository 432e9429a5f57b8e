package proofgraph

import (
	"github.com/helmkernel/helm/contracts"
)

// A Chain is where a session stands: its entries follow one another, each naming the one before. The caller sees to it that one goroutine
// at a time uses it, from reading Time to signing the entry that it placed; different chains are independent.
type Chain struct {
	log     *Log
	session string
	next    uint64
	last    contracts.Digest
	lamport uint64
	time    contracts.Time
	closed  bool
	open    bool // an entry was placed and is not signed yet
}

// Session is the chain's name.
func (c *Chain) Session() string { return c.session }

// Next is the seq of the next entry.
func (c *Chain) Next() uint64 { return c.next }

// Time is that of the last entry, 0 where there is none.
func (c *Chain) Time() contracts.Time { return c.time }

// Last is the hash of the last entry, that of genesis where there is none.
func (c *Chain) Last() contracts.Digest { return c.last }

// Closed tells whether the last entry closed the session.
func (c *Chain) Closed() bool { return c.closed }

// advance makes an entry the last one.
func (c *Chain) advance(h *contracts.Header, hash contracts.Digest, closes bool) {
	c.next, c.last, c.lamport, c.time, c.closed, c.open = h.Seq+1, hash, h.Lamport, h.Time, closes, false
}

// legal tells whether an entry can be written in a session of that name.
func legal(session string) bool {
	return session == contracts.SessionKernel || session == contracts.SessionRefused || contracts.IsSession(session)
}
