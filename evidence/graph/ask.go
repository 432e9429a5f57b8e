package graph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Edges is which edges a question follows; see the package comment. The zero value is Causes.
type Edges uint8

// The edges that a question may follow.
const (
	Causes Edges = iota // what made a call happen, as far as the log says so
	Links               // everything that an entry commits to
)

// follow appends the edges of entry i that e follows.
func (e Edges) follow(g *Graph, list []edge, i uint64) []edge {
	list = g.edges(list, i)
	if e == Links || len(list) == 0 || list[0].cause {
		return list
	}
	return list[1:]
}

// Find returns the index of the entry with that name. A name is the index, in decimal; the entry's
// hash, 64 lower-case hex digits; or session/seq, as in the id of a decision, such as chat-1/4, or
// /0 for the genesis.
func (g *Graph) Find(name string) (uint64, error) {
	if hash, err := crypto.ParseDigest([]byte(name)); err == nil {
		if i, _, ok := g.index.Lookup(hash); ok {
			return i, nil
		}
		return 0, fmt.Errorf("graph: find: no entry has the hash %s", hash)
	}
	slash := strings.LastIndexByte(name, '/')
	n, err := strconv.ParseUint(name[slash+1:], 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != name[slash+1:] {
		return 0, fmt.Errorf("graph: find: %q is no name: give an index, 64 lower-case hex digits, or session/seq",
			name)
	}
	if slash < 0 {
		if n >= g.Size() {
			return 0, fmt.Errorf("graph: find: no entry %d: the log has %d", n, g.Size())
		}
		return n, nil
	}
	c, ok := g.sessions[name[:slash]]
	switch {
	case !ok:
		return 0, fmt.Errorf("graph: find: no session %q", name[:slash])
	case n >= uint64(c.next):
		return 0, fmt.Errorf("graph: find: no entry %d in the session %q: it has %d", n, name[:slash], c.next)
	}
	i := c.last
	for range uint64(c.next) - 1 - n {
		i = g.nodes[i].prev
	}
	return uint64(i), nil
}

// All returns the set of all entries.
func (g *Graph) All() Set {
	var s Set
	for i := range g.Size() {
		s.add(i)
	}
	return s
}

// Ancestors returns entry of and all entries that led to it. The set is empty if there is no such
// entry.
func (g *Graph) Ancestors(of uint64, along Edges) Set {
	var s Set
	if of >= g.Size() {
		return s
	}
	s.add(of)
	var room [1 + contracts.MaxParents]edge
	for i := of; i > 0; i-- { // edges lead back, so this one pass is enough
		if s.Has(i) {
			for _, e := range along.follow(g, room[:0], i) {
				s.add(uint64(e.to))
			}
		}
	}
	return s
}

// Descendants returns entry of and all entries that it led to. The set is empty if there is no such
// entry.
func (g *Graph) Descendants(of uint64, along Edges) Set {
	var s Set
	if of >= g.Size() {
		return s
	}
	s.add(of)
	var room [1 + contracts.MaxParents]edge
	for i := of + 1; i < g.Size(); i++ {
		for _, e := range along.follow(g, room[:0], i) {
			if s.Has(uint64(e.to)) {
				s.add(i)
				break
			}
		}
	}
	return s
}

// Path returns the shortest chain of edges between entries a and b, in either order: both of them,
// and one entry for each step from the later back to the earlier. If there are several, it returns
// the one that goes through the latest entries, starting from the later end. The set is empty if
// the earlier entry did not lead to the later, or if there is no such entry.
func (g *Graph) Path(a, b uint64, along Edges) Set {
	var s Set
	from, to := max(a, b), min(a, b)
	if from >= g.Size() {
		return s
	}
	away := make([]uint32, from-to+1) // entries on a path to the earlier one; 0 if there is none
	away[0] = 1
	var room [1 + contracts.MaxParents]edge
	step := func(i uint64) (next uint64, n uint32) {
		for _, e := range along.follow(g, room[:0], i) {
			if t := uint64(e.to); t >= to && away[t-to] > 0 && (n == 0 || away[t-to] < n ||
				away[t-to] == n && t > next) {
				next, n = t, away[t-to]
			}
		}
		return next, n
	}
	for i := to + 1; i <= from; i++ {
		if _, n := step(i); n > 0 {
			away[i-to] = n + 1
		}
	}
	for i, n := from, away[from-to]; n > 0; i, n = step(i) {
		s.add(i) // no step leads on from the earlier one, because away begins there
	}
	return s
}
