package graph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// A Source holds the entries of a log. It is an *evidence.Pack, which was verified, or any
// proofgraph.Store.
type Source interface {
	// Size returns the number of entries.
	Size(ctx context.Context) (uint64, error)

	// Entries yields the entries with from ≤ index < to, in order. A pair with an error is the
	// last.
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
}

var _ Source = proofgraph.Store(nil)

// A Graph holds the edges between the entries of a log, as they were when it was read. It is safe
// for concurrent use by multiple goroutines if its source is.
type Graph struct {
	source   Source
	index    proofgraph.Index // hash → index
	nodes    []node
	parents  []uint32 // of all entries, one after the other
	during   Set      // entries whose prev is a cause
	sessions map[string]session
}

// A node is the edges of an entry. It has 8 bytes, because there are many.
type node struct {
	prev    uint32
	parents uint32 // end of its parents in Graph.parents; they begin at the end of the entry before
}

type session struct{ last, next uint32 } // index of its last entry, seq of the next

// maxEntries keeps the number of entries, and the number of all their parents, below 2^32.
const maxEntries = 1 << 32 / contracts.MaxParents

// Read reads a log up to the size that it has now, which may be 0. A nil ctx never ends, here and
// in the methods of a Graph.
func Read(ctx context.Context, s Source) (g *Graph, err error) {
	defer name(&err)
	defer contain.Error(&err, foreign)
	if s == nil {
		return nil, errors.New("no source: give a pack that was verified, or a store")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size, err := s.Size(ctx)
	if err != nil {
		return nil, err
	}
	if size > maxEntries {
		return nil, fmt.Errorf("%d entries; at most %d can be read", size, maxEntries)
	}
	read := &Graph{source: s, sessions: map[string]session{}}
	var decisions Set
	err = each(ctx, s, 0, size, nil, func(i uint64, l *entry.Line) error {
		if l.Kind() == contracts.KindDecision {
			decisions.add(i)
		}
		return read.add(i, l, &decisions)
	})
	if err != nil {
		return nil, err
	}
	return read, nil
}

// add adds the next entry. It refuses an entry that names one that is not there, or whose seq is
// not the next: the rest of the graph relies on both.
func (g *Graph) add(i uint64, l *entry.Line, decisions *Set) error {
	if (l.Kind() == contracts.KindGenesis) != (i == 0) {
		return errors.New("predicateType: entry 0, and only it, is the genesis")
	}
	name, seq, _ := l.Place()
	c := g.sessions[name] // the zero value of a new session has entry 0 as prev
	if seq != uint64(c.next) {
		return errors.New("predicate.seq: not the next of its session")
	}
	from := len(g.parents)
	cause, err := g.link(i, l, uint64(c.last), decisions)
	if err != nil {
		return err
	}
	slices.Sort(g.parents[from:]) // they are in the order of hashes, which means nothing to people
	g.nodes = append(g.nodes, node{c.last, uint32(len(g.parents))})
	if cause {
		g.during.add(i)
	}
	g.sessions[name] = session{uint32(i), c.next + 1}
	return g.index.Add(l.Hash, 0) // Lamport times are not used here
}

// link appends the parents of the next entry. It reports whether prev, the entry before it in its
// session, is a cause; see the package comment.
func (g *Graph) link(i uint64, l *entry.Line, prev uint64, decisions *Set) (cause bool, err error) {
	if s := l.Stub; s != nil {
		if s.Receipt == nil {
			return decisions.Has(prev), g.name(s.Parents)
		}
		of := s.Receipt.Decision
		if of >= i {
			return false, errors.New("stub.decision: no earlier entry")
		}
		if of != prev { // it is a parent of the entry, which its stub does not repeat
			g.parents = append(g.parents, uint32(of))
		}
		return of == prev, g.name(s.Parents)
	}
	st := l.Entry
	var before contracts.Digest
	if i > 0 {
		before = g.index.Hash(prev)
	}
	if st.Prev != before {
		return false, errors.New("predicate.prev: not the hash of the session's previous entry, or of the genesis")
	}
	if r := st.Receipt; r != nil && r.Decision == nil {
		return st.Prev == r.DecisionHash, g.name(st.Parents)
	}
	return st.Judgement() != nil && decisions.Has(prev), g.name(st.Parents)
}

// name appends parents, which the next entry names by their hashes.
func (g *Graph) name(parents []contracts.Digest) error {
	for _, p := range parents {
		at, _, ok := g.index.Lookup(p)
		if !ok {
			return errors.New("predicate.parents: one is no earlier entry")
		}
		g.parents = append(g.parents, uint32(at))
	}
	return nil
}

// Size returns the number of entries.
func (g *Graph) Size() uint64 { return uint64(len(g.nodes)) }

// An edge leads to an earlier entry.
type edge struct {
	to     uint32
	parent bool // rather than prev
	cause  bool
}

// edges appends the edges of entry i, prev first.
func (g *Graph) edges(list []edge, i uint64) []edge {
	if i == 0 {
		return list
	}
	list = append(list, edge{g.nodes[i].prev, false, g.during.Has(i)})
	for _, p := range g.parents[g.nodes[i-1].parents:g.nodes[i].parents] {
		list = append(list, edge{p, true, true})
	}
	return list
}
