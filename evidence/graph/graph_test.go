package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// Every question, of every entry of random logs, has the answer that the naive implementation gives.
func TestQuestions(t *testing.T) {
	race.Alone(t)
	cases, byPrev, deepest := 0, 0, 0
	for seed := range uint64(12) {
		w := newWorld(t, seed).calls(12)
		g, err := Read(t.Context(), w.store)
		if err != nil {
			t.Fatal(err)
		}
		n := newNaive(t, entries(t, w.store))
		if g.Size() != uint64(len(n.order)) {
			t.Fatalf("%d entries of %d", g.Size(), len(n.order))
		}
		for name, h := range n.names {
			i := slices.Index(n.order, h)
			for _, name := range []string{name, h, fmt.Sprint(i)} {
				if got, err := g.Find(name); got != uint64(i) || err != nil {
					t.Fatalf("seed %d: %s is %d, %v, want %d", seed, name, got, err, i)
				}
				cases++
			}
		}
		for _, e := range []Edges{Causes, Links} {
			below := map[string][]string{}
			for i, h := range n.order {
				above := n.above(h, e)
				want := []string{}
				for j, x := range n.order {
					if _, ok := above[x]; ok {
						want = append(want, x)
						below[x] = append(below[x], h)
					}
					cases += compare(t, n, g, uint64(i), uint64(j), e, above)
				}
				if got := hashes(n, g.Ancestors(uint64(i), e)); !slices.Equal(got, want) {
					t.Fatalf("seed %d: ancestors of %d: %q, want %q", seed, i, got, want)
				}
				for _, distance := range above {
					deepest = max(deepest, distance)
				}
				if g.during.Has(uint64(i)) && n.said[h].Predicate.Decision.Verdict == "ALLOW" {
					byPrev++
				}
			}
			for i, h := range n.order {
				if got := hashes(n, g.Descendants(uint64(i), e)); !slices.Equal(got, below[h]) {
					t.Fatalf("seed %d: descendants of %d: %q, want %q", seed, i, got, below[h])
				}
				cases++
			}
		}
	}
	t.Logf("%d cases; %d calls whose prev is the call around them; paths of up to %d edges", cases, byPrev, deepest)
	if cases < 50_000 || byPrev < 50 || deepest < 10 {
		t.Errorf("%d cases, %d calls whose prev is the call around them, paths of up to %d edges: too few", cases, byPrev, deepest)
	}
}

// compare holds one path to what is known of the distances from the later entry on. A path has the fewest edges, and each is one of the log.
func compare(t *testing.T, n *naive, g *Graph, later, earlier uint64, e Edges, above map[string]int) int {
	t.Helper()
	if earlier > later {
		return 0
	}
	distance, ok := above[n.order[earlier]]
	for _, p := range []Set{g.Path(later, earlier, e), g.Path(earlier, later, e)} {
		got := hashes(n, p)
		if !ok && len(got) == 0 {
			continue
		}
		if !ok || len(got) != distance+1 || got[0] != n.order[earlier] || got[distance] != n.order[later] {
			t.Fatalf("the path from %d to %d has %d entries, want %d edges, %v", later, earlier, len(got), distance, ok)
		}
		for i := range distance {
			if !slices.Contains(n.along(e)[got[i+1]], got[i]) {
				t.Fatalf("the path from %d to %d has an edge that the log has not", later, earlier)
			}
		}
	}
	return 2
}

func hashes(n *naive, s Set) []string {
	list := []string{}
	for i := range s.All() {
		list = append(list, n.order[i])
	}
	if len(list) != s.Len() {
		panic("Len is not what All gives")
	}
	return list
}

// What counts as a cause, and what does not: the package comment, case by case.
func TestCauses(t *testing.T) {
	list := entries(t, newWorld(t, 3).store)[:1]
	last := map[string]contracts.Header{}
	put := func(session string, st contracts.Statement, parents ...uint64) uint64 {
		i := uint64(len(list))
		h, ok := last[session]
		if !ok {
			h = contracts.Header{Session: session, Prev: list[0].Hash()}
		}
		for _, p := range parents {
			h.Parents = append(h.Parents, list[p].Hash())
		}
		slices.SortFunc(h.Parents, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
		st.Header = h
		if st.Close != nil {
			st.Close.Count, st.Close.Last = h.Seq, h.Prev
		}
		list = append(list, sealed(&st))
		last[session] = contracts.Header{Session: session, Seq: h.Seq + 1, Prev: list[i].Hash()}
		return i
	}
	call := func(session string, after ...uint64) uint64 {
		return put(session, contracts.Statement{Decision: &contracts.DecisionRecord{Condition: 8, EffectType: "read", Expires: 1, Reason: "ALLOW", Risk: "low", Rule: "P1:a:b", Tool: "t", Verdict: true}}, after...)
	}
	deny := func(session string, after ...uint64) uint64 {
		return put(session, contracts.Statement{Receipt: &contracts.Receipt{Outcome: contracts.Denied, Decision: &contracts.DecisionRecord{Condition: 1, Reason: "DENY_TOOL_NOT_FOUND", Tool: "t"}}}, after...)
	}
	end := func(session string, of uint64) uint64 {
		r := &contracts.Receipt{DecisionHash: list[of].Hash(), EffectType: "read", Outcome: contracts.Failed, Reason: "TOOL_ERROR", Tool: "t", Verdict: true}
		e := r.Effect()
		r.EffectHash = e.Hash()
		if last[session].Prev == r.DecisionHash {
			return put(session, contracts.Statement{Receipt: r})
		}
		return put(session, contracts.Statement{Receipt: r}, of)
	}
	want := map[uint64][]uint64{}
	a := call("a")
	want[a] = nil
	inside := call("a") // by prev alone
	want[inside] = []uint64{a}
	refused := deny("a") // inside that
	want[refused] = []uint64{inside}
	second := deny("a", a) // and inside the first again, behind the end of a call
	want[second] = []uint64{a}
	elsewhere := call("b", a) // inside the first, in a session of its own
	want[elsewhere] = []uint64{a}
	said := put("b", contracts.Statement{Message: new(contracts.Message)}) // which nobody called
	want[said] = nil
	endElsewhere := end("b", elsewhere)
	want[endElsewhere] = []uint64{elsewhere}
	meanwhile := call("a")
	want[meanwhile] = nil
	endInside := end("a", inside) // its prev is another's decision
	want[endInside] = []uint64{inside}
	endA := end("a", a)
	want[endA] = []uint64{a}
	endMeanwhile := end("a", meanwhile)
	want[endMeanwhile] = []uint64{meanwhile}
	after := call("c", endA, endElsewhere)
	want[after] = []uint64{endElsewhere, endA}
	endAfter := end("c", after) // its prev is its own decision
	want[endAfter] = []uint64{after}
	next := call("c", a)
	want[next] = []uint64{a}
	end("c", next)
	closed := put("c", contracts.Statement{Close: new(contracts.Close)})
	want[closed] = nil

	g, err := Read(t.Context(), having(uint64(len(list)), list...))
	must(t, err)
	for i, to := range want {
		var got []uint64
		for _, e := range g.edges(nil, i) {
			if e.cause {
				got = append(got, uint64(e.to))
			}
		}
		if !slices.Equal(got, to) {
			t.Errorf("entry %d has the causes %d, want %d", i, got, to)
		}
	}
	if got, want := slices.Collect(g.Ancestors(endAfter, Causes).All()), []uint64{a, elsewhere, endElsewhere, endA, after, endAfter}; !slices.Equal(got, want) {
		t.Errorf("%d led to what came last, want %d", got, want)
	}
	x, y := deny("x", endAfter), deny("y", endAfter)
	z := deny("z", x, y) // from which two paths are as short
	g, err = Read(t.Context(), having(uint64(len(list)), list...))
	must(t, err)
	if got, want := slices.Collect(g.Path(z, endAfter, Causes).All()), []uint64{endAfter, y, z}; !slices.Equal(got, want) {
		t.Errorf("the path is %d, want %d", got, want)
	}
}

// An empty log, a log of its genesis alone, and names of what is not there.
func TestNothingThere(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for size, store := range map[uint64]*proofgraph.Memory{0: proofgraph.NewMemory(), 1: newWorld(t, 1).store} {
		g, err := Read(t.Context(), at(store, size))
		if err != nil || g.Size() != size {
			t.Fatalf("size %d: %v", size, err)
		}
		for _, name := range []string{"", "/", "1", "/1", "x/0", "x/", "//0", "x", hash, "/00", "00", "+0", "-1", "0x0", " 0", "0 ", "1e0", hash[1:], strings.ToUpper(hash),
			"18446744073709551615", "18446744073709551616", "/18446744073709551615", "@refused/0", "main/0", "\u202e0", "0/0"} {
			if i, err := g.Find(name); err == nil || i != 0 || !strings.HasPrefix(err.Error(), "graph: find: ") || strings.Contains(err.Error(), "\u202e") {
				t.Errorf("size %d: %q is %d, %v", size, name, i, err)
			}
		}
		for _, name := range []string{"0", "/0"} {
			if i, err := g.Find(name); (err == nil) != (size == 1) || i != 0 {
				t.Errorf("size %d: %q is %d, %v", size, name, i, err)
			}
		}
		for _, e := range []Edges{Causes, Links, 7} {
			for i := range uint64(3) {
				want := []uint64(nil)
				if i < size {
					want = []uint64{i}
				}
				for _, s := range []Set{g.Ancestors(i, e), g.Descendants(i, e), g.Path(i, i, e)} {
					if got := slices.Collect(s.All()); !slices.Equal(got, want) || s.Len() != len(want) || s.Has(i) != (i < size) {
						t.Errorf("size %d: of entry %d there are %d", size, i, got)
					}
				}
			}
			for _, p := range []Set{g.Path(0, 5, e), g.Path(5, 0, e), g.Path(1<<63, 1<<63, e), g.Ancestors(1<<63, e), g.Descendants(1<<63, e)} {
				if p.Len() != 0 {
					t.Errorf("size %d: %d entries of what is not there", size, p.Len())
				}
			}
		}
		if all := g.All(); uint64(all.Len()) != size || all.Has(size) || all.Has(1<<63) {
			t.Errorf("size %d: all are %d", size, all.Len())
		}
	}
}

// A chain as deep as the log is long is no deeper recursion.
func TestDeepChain(t *testing.T) {
	race.Alone(t)
	const n = 20_000
	g, err := Read(t.Context(), newLong(t, n, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Set{g.Path(n-1, 0, Links), g.Ancestors(n-1, Links), g.Descendants(0, Links)} {
		if s.Len() != n {
			t.Errorf("%d entries", s.Len())
		}
	}
	if i, err := g.Find("chat-0/0"); i != 1 || err != nil {
		t.Error(i, err)
	}
}
