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
