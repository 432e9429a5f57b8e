package graph

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// WriteDOT writes a set of this graph for Graphviz. What was written before an error is no graph.
func (g *Graph) WriteDOT(ctx context.Context, w io.Writer, s Set) error {
	begin := fmt.Sprintf("// %d of %d entries: solid edges lead to causes, dotted ones along the chain of a session\n"+
		"digraph log {\n\trankdir=BT; node [shape=box];\n", s.Len(), g.Size())
	return g.write(ctx, w, s, form{begin, "", appendDOT, "}\n"})
}

// WriteJSON writes a set of this graph as one JSON object. What was written before an error is none.
func (g *Graph) WriteJSON(ctx context.Context, w io.Writer, s Set) error {
	return g.write(ctx, w, s, form{fmt.Sprintf(`{"size":%d,"entries":[`, g.Size()), ",", appendJSON, "\n]}\n"})
}

// A form is what stands before the entries, between them, of each, and behind them.
type form struct {
	begin, between string
	entry          func([]byte, *shown) []byte
	end            string
}

// A shown is an entry that is written, and its edges within the set.
type shown struct {
	index uint64
	hash  contracts.Digest
	edges []edge
	*contracts.Statement
}

func (g *Graph) write(ctx context.Context, w io.Writer, s Set, f form) (err error) {
	defer contain(&err)
	if w == nil {
		return errors.New("nowhere to write to")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	out := bufio.NewWriterSize(w, 64<<10) // which keeps the first error
	out.WriteString(f.begin)
	var buf []byte
	var room [1 + contracts.MaxParents]edge
	between := ""
	entry := func(i uint64, hash contracts.Digest, st *contracts.Statement) error {
		if hash != g.index.Hash(i) {
			return errors.New("the source has another one than it had when it was read")
		}
		edges := slices.DeleteFunc(g.edges(room[:0], i), func(e edge) bool { return !s.Has(uint64(e.to)) })
		buf = f.entry(append(buf[:0], between...), &shown{i, hash, edges, st})
		between = f.between
		_, err := out.Write(buf)
		return err
	}
	for from, to := range s.stretches() {
		if to > g.Size() {
			return fmt.Errorf("entry %d is in the set and not in this graph", to-1)
		}
		if err := each(ctx, g.source, from, to, &s, entry); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // of an empty set too
		return err
	}
	out.WriteString(f.end)
	return out.Flush()
}

// near is how many entries are rather read in vain than passed over: to ask a store for others costs some ten of them.
const near = 16

// stretches gives the ranges in which the entries of the set are.
func (s Set) stretches() iter.Seq2[uint64, uint64] {
	return func(yield func(uint64, uint64) bool) {
		from, to := uint64(0), uint64(0)
		for i := range s.All() {
			if to > 0 && i-to > near {
				if !yield(from, to) {
					return
				}
				from = i
			} else if to == 0 {
				from = i
			}
			to = i + 1
		}
		if to > 0 {
			yield(from, to)
		}
	}
}
