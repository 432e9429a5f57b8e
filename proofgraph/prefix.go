package proofgraph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// A Prefix is what a log holds of its first entries, for others to go on from there without reading
// them: see [Options].Prefix. [Fold] makes it. Of one log and size there is one. It has no record
// of any entry but its hash, the names of sessions and their times.
//
// Whoever opens a log from a prefix trusts it, as far as it cannot be compared with the store. Keep
// it where nobody can write, or signed.
type Prefix struct {
	Size       uint64             // number of the entries: one or more
	Genesis    contracts.Digest   // hash of the first
	Last       contracts.Digest   // hash of the last
	Nodes      []contracts.Digest // roots of the complete subtrees, the largest first: one for each bit of Size
	Open       []ChainEnd         // the sessions that are not closed, by their names; "" is the first
	Closed     []ClosedChain      // the others, by their names
	Unanswered []EntryAt          // the ALLOWs without a receipt, by their indexes: entries that come will name them
	Forgotten  []byte             // bit i%8 of byte i/8 is 1 if entry i is in a set of Options.Condensed; ends with a 1
}

// A ChainEnd is the last entry of a session.
type ChainEnd struct {
	Session string
	Next    uint64           // seq of the next entry
	Last    contracts.Digest // hash of the last one
	Lamport uint64           // of the last one
	Time    contracts.Time   // of the last one
	Index   uint64           // of the last one
}

// A ClosedChain is a session that is closed.
type ClosedChain struct {
	Session string
	Index   uint64 // of the entry that closed it
}

// An EntryAt is an entry that others may name.
type EntryAt struct {
	Index   uint64
	Hash    contracts.Digest
	Lamport uint64
}

// Tree returns the tree of the entries. Its root is that of the log at this size. It returns an
// error if there is not a node for each bit of Size.
func (p *Prefix) Tree() (t Tree, err error) {
	nodes := p.Nodes
	for k := len(t.nodes) - 1; k >= 0; k-- {
		if p.Size>>k&1 == 0 {
			continue
		}
		if len(nodes) == 0 {
			return Tree{}, errNodes
		}
		t.nodes[k], nodes = nodes[0], nodes[1:]
	}
	if len(nodes) > 0 {
		return Tree{}, errNodes
	}
	t.size = p.Size
	return t, nil
}

var errNodes = errors.New("proofgraph: prefix: not as many nodes as its size has bits")

// Fold reads the first size entries of the log in a store, or those of them that come after
// Options.Prefix, and checks and calls what [Open] does, but for the store's checkpoint. It returns
// the prefix of that size. It needs no key and changes nothing: a log may be open over the store
// and go on. Of the options it uses Origin, Prefix and Condensed.
func Fold(ctx context.Context, s Store, o Options, size uint64, each func(Line) error) (p *Prefix, err error) {
	defer contain.Error(&err, "proofgraph: fold: the store")
	if s == nil {
		return nil, errors.New("proofgraph: fold: no store")
	}
	if each == nil {
		each = func(Line) error { return nil }
	}
	l := newLog(s, o)
	defer l.Seal(errors.New("it was folded"))
	r := &restoring{Log: l, origin: o.Origin, size: size, each: each, condensed: o.Condensed, ctx: ctx,
		unanswered: map[contracts.Digest]EntryAt{}}
	if err := r.run(o.Prefix); err != nil {
		return nil, fmt.Errorf("proofgraph: fold: %w", err)
	}
	return r.prefix(), nil
}

// prefix returns what was folded.
func (r *restoring) prefix() *Prefix {
	p := &Prefix{Size: r.queue.size, Genesis: r.genesis, Last: r.last}
	for k := len(r.tree.nodes) - 1; k >= 0; k-- {
		if r.tree.size>>k&1 != 0 {
			p.Nodes = append(p.Nodes, r.tree.nodes[k])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.chains)) {
		if c := r.chains[name]; c.closed {
			p.Closed = append(p.Closed, ClosedChain{name, c.end})
		} else {
			p.Open = append(p.Open, ChainEnd{name, c.next, c.last, c.lamport, c.time, c.end})
		}
	}
	p.Unanswered = slices.SortedFunc(maps.Values(r.unanswered), func(a, b EntryAt) int {
		return cmp.Compare(a.Index, b.Index)
	})
	all := older{forgotten: slices.Clone(r.older.forgotten)}
	for i := r.older.size; i < p.Size; i++ {
		if !r.index.found(i) {
			all.forget(i)
		}
	}
	p.Forgotten = all.forgotten
	return p
}
