package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/graph"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/entry"
)

// drawing are the parameters of a graph, chosen those of a list of entries.
var (
	drawing = []string{"of", "along", "direction", "format"}
	chosen  = []string{"session", "entry"}
)

// proofgraph answers with the entries and what links them: page by page, or what led to one.
func (a *reading) proofgraph(w http.ResponseWriter, r *http.Request) {
	q := r.Form
	if !q.Has("of") {
		for _, name := range drawing {
			if q.Has(name) {
				bad(w, r, name+" goes with of")
				return
			}
		}
		a.nodes(w, r)
		return
	}
	for _, name := range slices.Concat(paging, chosen) {
		if q.Has(name) {
			bad(w, r, name+" does not go with of")
			return
		}
	}
	d := draw{along: graph.Causes}
	switch along := q.Get("along"); {
	case along == "links":
		d.along = graph.Links
	case q.Has("along") && along != "causes":
		bad(w, r, "along is causes or links")
		return
	}
	switch direction := q.Get("direction"); {
	case direction == "descendants":
		d.after = true
	case q.Has("direction") && direction != "ancestors":
		bad(w, r, "direction is ancestors or descendants")
		return
	}
	switch format := q.Get("format"); {
	case format == "dot":
		d.dot = true
	case q.Has("format") && format != "json":
		bad(w, r, "format is json or dot")
		return
	}
	s, ok := a.look(w, r)
	if !ok {
		return
	}
	if d.of, ok = a.named(w, r, s, q.Get("of")); ok {
		a.draw(w, r, s, &d)
	}
}

// named returns the entry with a name. If there is none that may be read it answers.
func (a *reading) named(w http.ResponseWriter, r *http.Request, s *sight, name string) (uint64, bool) {
	i, found, malformed, err := a.log.find(r.Context(), s, name)
	switch {
	case err != nil:
		unavailable(w, r, unreadable)
	case malformed:
		bad(w, r, "an entry is named by its index, its hash in 64 lower-case hex digits, or session/seq")
	case !found:
		absent(w, r, "there is no such entry")
	}
	return i, found && err == nil
}

// A draw is what a request for a graph asks for.
type draw struct {
	of         uint64
	along      graph.Edges
	after, dot bool
}

// A drawer keeps the graph of the log, which it reads again when it must. One goroutine has it at a
// time: it is there while turn has a place.
type drawer struct {
	turn  chan struct{}
	graph *graph.Graph
}

// read returns the graph of a log of at least that size. It needs the turn.
func (d *drawer) read(ctx context.Context, s graph.Source, size uint64) (*graph.Graph, error) {
	if d.graph == nil || d.graph.Size() < size {
		g, err := graph.Read(ctx, s)
		if err != nil {
			return nil, err
		}
		d.graph = g
	}
	return d.graph, nil
}

// take takes a turn. The caller calls done.
func take(ctx context.Context, turn chan struct{}) (done func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// draw answers with a graph.
func (a *reading) draw(w http.ResponseWriter, r *http.Request, s *sight, d *draw) {
	out := &begun{w: w}
	g, set, mine, err := a.drawn(r.Context(), s, d)
	if err != nil {
		out.broken(r)
		return
	}
	write := g.WriteJSON
	w.Header().Set("Content-Type", "application/json")
	if d.dot {
		write = g.WriteDOT
		w.Header().Set("Content-Type", "text/vnd.graphviz")
	}
	if s.all {
		err = write(r.Context(), out, set)
	} else {
		buffer := bufio.NewWriterSize(out, 64<<10)
		l := &lines{to: buffer, keep: mine, size: s.count(func(uint64) bool { return true }), dot: d.dot}
		if err = l.end(write(r.Context(), l, set)); err == nil {
			err = buffer.Flush()
		}
	}
	if err != nil {
		out.broken(r)
	}
}

// drawn returns the entries that are asked for, and which of these the asker may read, unless all.
func (a *reading) drawn(ctx context.Context, s *sight, d *draw) (
	g *graph.Graph, set graph.Set, mine map[uint64]bool, err error,
) {
	least := d.of + 1
	if d.after {
		least = uint64(len(s.entries))
	}
	done, err := take(ctx, a.drawer.turn)
	if err != nil {
		return nil, set, nil, err
	}
	defer done()
	if g, err = a.drawer.read(ctx, a.store, least); err != nil {
		return nil, set, nil, err
	}
	if set = g.Ancestors(d.of, d.along); d.after {
		set = g.Descendants(d.of, d.along)
	}
	if !s.all {
		mine, err = within(ctx, g, set, s, d)
	}
	return g, set, mine, err
}

// A begun writer knows whether an answer has begun.
type begun struct {
	w   http.ResponseWriter
	did bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.did = true
	return b.w.Write(p)
}

// broken ends an answer that cannot go on, so that what was sent of it is not taken for whole.
func (b *begun) broken(r *http.Request) {
	if b.did {
		panic(http.ErrAbortHandler)
	}
	unavailable(b.w, r, unreadable)
}

// within returns the entries of a set that the asker may read and that are reached by way of such
// entries alone. The others do not exist for the asker, so nothing led through them.
func within(ctx context.Context, g *graph.Graph, set graph.Set, s *sight, d *draw) (map[uint64]bool, error) {
	edges := map[uint64][]uint64{} // from each entry to where the walk goes on
	l := &lines{each: func(i uint64, to []edge) {
		if !s.may(i) {
			return
		}
		for _, e := range to {
			if !s.may(e.To) || d.along == graph.Causes && !e.Cause {
				continue
			}
			if d.after {
				edges[e.To] = append(edges[e.To], i)
			} else {
				edges[i] = append(edges[i], e.To)
			}
		}
	}}
	if err := l.end(g.WriteJSON(ctx, l, set)); err != nil {
		return nil, err
	}
	reached, todo := map[uint64]bool{d.of: true}, []uint64{d.of}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range edges[i] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached, nil
}

// nodes answers with entries and what links them, page by page.
func (a *reading) nodes(w http.ResponseWriter, r *http.Request) {
	s, ok := a.look(w, r)
	if !ok {
		return
	}
	l, err := listOf(r.Form, s)
	if err != nil {
		bad(w, r, err.Error())
		return
	}
	if r.Form.Has("entry") && r.Form.Get("entry") != "1" {
		bad(w, r, entryIsOne)
		return
	}
	in, ok := s.of(w, r)
	if !ok {
		return
	}
	var list []uint64
	p := page[*node[string]]{Size: s.count(in)}
	for i := range l.places(uint64(len(s.entries))) {
		if !s.may(i) || !in(i) {
			continue
		}
		if len(list) == l.limit {
			p.Next = &list[l.limit-1]
			break
		}
		list = append(list, i)
	}
	if p.Items, err = a.log.nodes(r.Context(), s, list, r.Form.Has("entry")); err != nil {
		unavailable(w, r, unreadable)
		return
	}
	p.cut(list)
	auth.Answer(w, p)
}

// nodes reads the first entries of a list, with those of their edges that lead to what the asker
// may read.
func (x *index) nodes(ctx context.Context, s *sight, list []uint64, signed bool) (found []*node[string], err error) {
	prevs := s.prevs(upwards(list))
	parents := map[contracts.Digest][]*node[string]{} // the entries that name it
	n, err := x.first(ctx, list, func(i uint64, e contracts.Entry, l *entry.Line) error {
		it := itemOf(i, l)
		n := &node[string]{Index: i, Kind: string(it.Kind), Stub: it.Stub, Session: it.Session, Seq: it.Seq,
			Time: it.Time, Tool: it.Tool, Verdict: it.Verdict, Outcome: string(it.Outcome), Reason: string(it.Reason),
			Risk: string(it.Risk), Hash: it.Hash.String(), Edges: []edge{}}
		if signed {
			n.Entry = base64.StdEncoding.EncodeToString(e)
		}
		prev, ok := prevs[i]
		if ok && s.may(prev) {
			n.Edges = append(n.Edges, edge{prev, "prev", s.causes(prev, l)})
		}
		for _, p := range parentsOf(l) {
			parents[p] = append(parents[p], n)
		}
		if of, ok := decisionOf(l); ok && of != prev && s.may(of) {
			n.Edges = append(n.Edges, edge{of, "parent", true})
		}
		found = append(found, n)
		return nil
	})
	if err == nil {
		err = x.join(ctx, s, parents)
	}
	return inOrder(found, list[:n], func(x *node[string]) uint64 { return x.Index }), err
}

// causes reports whether the entry before another in its session is a cause of it; see package
// graph.
func (s *sight) causes(prev uint64, l *entry.Line) bool {
	if of, ok := decisionOf(l); ok {
		return of == prev
	}
	if st := l.Entry; st != nil && st.Receipt != nil && st.Receipt.Decision == nil {
		return st.Prev == st.Receipt.DecisionHash
	}
	return s.entries[prev].what() == allow && l.Decides()
}

func parentsOf(l *entry.Line) []contracts.Digest {
	if l.Stub != nil {
		return l.Stub.Parents
	}
	return l.Entry.Parents
}

// decisionOf returns the decision that the stub of a receipt names.
func decisionOf(l *entry.Line) (uint64, bool) {
	if l.Stub == nil || l.Stub.Receipt == nil {
		return 0, false
	}
	return l.Stub.Receipt.Decision, true
}

// prevs returns the entry before each in its session, in a list in log order; before the first of a
// session that is entry 0.
func (s *sight) prevs(list []uint64) map[uint64]uint64 {
	prevs := make(map[uint64]uint64, len(list))
	last := make([]uint32, len(s.view.sessions))
	for i, n := uint64(0), 0; n < len(list); i++ {
		session := s.sessionOf(i)
		if i == list[n] {
			if n++; i > 0 {
				prevs[i] = uint64(last[session])
			}
		}
		last[session] = uint32(i)
	}
	return prevs
}

// join adds the edges to entries that others name as parents.
func (x *index) join(ctx context.Context, s *sight, parents map[contracts.Digest][]*node[string]) error {
	if len(parents) == 0 {
		return nil
	}
	bits := map[uint32]bool{}
	var some [1 << 16]bool // by the last of these bits, which is quicker
	for hash := range parents {
		bits[bitsOf(hash)] = true
		some[uint16(bitsOf(hash))] = true
	}
	var list []uint64
	for i, m := range s.entries {
		if some[uint16(m.bits())] && bits[m.bits()] && s.may(uint64(i)) {
			list = append(list, uint64(i))
		}
	}
	err := x.each(ctx, list, func(i uint64, _ contracts.Entry, l *entry.Line) error {
		for _, n := range parents[l.Hash] {
			n.Edges = append(n.Edges, edge{i, "parent", true})
		}
		return nil
	})
	for _, list := range parents {
		for _, n := range list { // a decision that a stub names came before them
			slices.SortStableFunc(n.Edges, func(a, b edge) int {
				return cmp.Or(strings.Compare(b.Kind, a.Kind), cmp.Compare(a.To, b.To))
			})
		}
	}
	return err
}
