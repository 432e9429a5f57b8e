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
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
)

// WriteDOT writes a set of this graph in the language of Graphviz. Output before an error is not a
// valid graph.
func (g *Graph) WriteDOT(ctx context.Context, w io.Writer, s Set) error {
	begin := fmt.Sprintf("// %d of %d entries: solid edges lead to causes, dotted ones along the chain of a session\n"+
		"digraph log {\n\trankdir=BT; node [shape=box];\n", s.Len(), g.Size())
	return g.write(ctx, w, s, form{begin, "", appendDOT, "}\n"})
}

// WriteJSON writes a set of this graph as one JSON object. Output before an error is not a valid
// object.
func (g *Graph) WriteJSON(ctx context.Context, w io.Writer, s Set) error {
	return g.write(ctx, w, s, form{fmt.Sprintf(`{"size":%d,"entries":[`, g.Size()), ",", appendJSON, "\n]}\n"})
}

// A form is an output format: the text before the entries, between them and after them, and the
// text of an entry.
type form struct {
	begin, between string
	entry          func([]byte, *shown) []byte
	end            string
}

// A shown is an entry to be written, with its edges within the set.
type shown struct {
	index uint64
	edges []edge
	*entry.Line
}

func (g *Graph) write(ctx context.Context, w io.Writer, s Set, f form) (err error) {
	defer name(&err)
	defer contain.Error(&err, foreign)
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
	one := func(i uint64, l *entry.Line) error {
		if l.Hash != g.index.Hash(i) {
			return errors.New("the source has another one than it had when it was read")
		}
		edges := slices.DeleteFunc(g.edges(room[:0], i), func(e edge) bool { return !s.Has(uint64(e.to)) })
		buf = f.entry(append(buf[:0], between...), &shown{i, edges, l})
		between = f.between
		_, err := out.Write(buf)
		return err
	}
	for from, to := range s.ranges() {
		if to > g.Size() {
			return fmt.Errorf("entry %d is in the set and not in this graph", to-1)
		}
		if err := each(ctx, g.source, from, to, &s, one); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // also for an empty set
		return err
	}
	out.WriteString(f.end)
	return out.Flush()
}

// near is the largest gap that is read rather than skipped: a new call of a store costs as much as
// about ten entries.
const near = 16

// ranges returns the ranges that hold the entries of the set, gaps of up to near included.
func (s Set) ranges() iter.Seq2[uint64, uint64] {
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
