package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// Every question about every entry of random logs has the answer of the naive implementation.
func TestQuestions(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	cases, byPrev, deepest := 0, 0, 0
	for seed := range uint64(12) {
		w := newWorld(t, seed).calls(12)
		g, err := Read(t.Context(), w.store)
		require.NoError(t, err)
		n := newNaive(t, entries(t, w.store))
		require.Equal(t, uint64(len(n.order)), g.Size(), "%d entries of %d", g.Size(), len(n.order))
		for name, h := range n.names {
			i := slices.Index(n.order, h)
			for _, name := range []string{name, h, fmt.Sprint(i)} {
				got, err := g.Find(name)
				require.True(t, got == uint64(i) && err == nil, "seed %d: %s is %d, %v, want %d", seed, name, got, err,
					i)
				cases++
			}
		}
		for _, e := range []Edges{Causes, Links} {
			below, distances := map[string][]string{}, map[string]map[string]int{}
			for i, h := range n.order {
				above := n.above(h, e)
				distances[h] = above
				want := []string{}
				for j, x := range n.order {
					if _, ok := above[x]; ok {
						want = append(want, x)
						below[x] = append(below[x], h)
					}
					cases += compare(t, n, g, uint64(i), uint64(j), e, distances)
				}
				got := hashes(n, g.Ancestors(uint64(i), e))
				require.True(t, slices.Equal(got, want), "seed %d: ancestors of %d: %q, want %q", seed, i, got, want)
				for _, distance := range above {
					deepest = max(deepest, distance)
				}
				if g.during.Has(uint64(i)) && n.said[h].Predicate.Decision.Verdict == "ALLOW" {
					byPrev++
				}
			}
			for i, h := range n.order {
				got := hashes(n, g.Descendants(uint64(i), e))
				require.True(t, slices.Equal(got, below[h]), "seed %d: descendants of %d: %q, want %q", seed, i, got,
					below[h])
				cases++
			}
		}
	}
	t.Logf("%d cases; %d calls whose prev is the call around them; paths of up to %d edges", cases, byPrev, deepest)
	assert.True(t, cases >= 50_000 && byPrev >= 50 && deepest >= 10,
		"%d cases, %d calls whose prev is the call around them, paths of up to %d edges: too few", cases, byPrev,
		deepest)
}

// compare holds one path to the distances of all entries above each one. A path has the fewest
// edges, and each is one of the log: from the later end on, the one to the latest entry of those
// from which the path is as short.
func compare(t *testing.T, n *naive, g *Graph, later, earlier uint64, e Edges,
	above map[string]map[string]int) int {
	t.Helper()
	if earlier > later {
		return 0
	}
	distance, ok := above[n.order[later]][n.order[earlier]]
	for _, p := range []Set{g.Path(later, earlier, e), g.Path(earlier, later, e)} {
		got := hashes(n, p)
		if !ok && len(got) == 0 {
			continue
		}
		require.True(t, ok && len(got) == distance+1 && got[0] == n.order[earlier] && got[distance] == n.order[later],
			"the path from %d to %d has %d entries, want %d edges, %v", later, earlier, len(got), distance, ok)
		for i := range distance {
			require.Contains(t, n.along(e)[got[i+1]], got[i], "the path from %d to %d has an edge that the log has not",
				later, earlier)
			for _, x := range n.along(e)[got[i+1]] {
				edges, leads := above[x][n.order[earlier]]
				require.False(t, leads && edges == i && slices.Index(n.order, x) > slices.Index(n.order, got[i]),
					"the path from %d to %d passes over a later entry", later, earlier)
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

// An empty log, a log of its genesis alone, and names of what is not there.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	for size, store := range map[uint64]*proofgraph.Memory{0: proofgraph.NewMemory(), 1: newWorld(t, 1).store} {
		g, err := Read(t.Context(), at(store, size))
		require.True(t, err == nil && g.Size() == size, "size %d: %v", size, err)
		for _, name := range []string{"", "/", "1", "/1", "x/0", "x/", "//0", "x", hash, "/00", "00", "+0", "-1", "0x0",
			" 0", "0 ", "1e0", hash[1:],
			strings.ToUpper(hash), "18446744073709551615", "18446744073709551616", "/18446744073709551615",
			"@refused/0", "main/0", "\u202e0", "0/0"} {
			i, err := g.Find(name)
			says := fmt.Sprint(err)
			assert.True(t, err != nil && i == 0 && strings.HasPrefix(says, "graph: find: ") && !strings.Contains(says,
				"\u202e"), "size %d: %q is %d, %v", size, name, i, err)
		}
		for _, name := range []string{"0", "/0"} {
			i, err := g.Find(name)
			assert.True(t, (err == nil) == (size == 1) && i == 0, "size %d: %q is %d, %v", size, name, i, err)
		}
		for _, e := range []Edges{Causes, Links, 7} {
			for i := range uint64(3) {
				want := []uint64(nil)
				if i < size {
					want = []uint64{i}
				}
				for _, s := range []Set{g.Ancestors(i, e), g.Descendants(i, e), g.Path(i, i, e)} {
					got := slices.Collect(s.All())
					assert.True(t, slices.Equal(got, want) && s.Len() == len(want) && s.Has(i) == (i < size),
						"size %d: of entry %d there are %d", size, i, got)
				}
			}
			const far = 1 << 63
			for _, p := range []Set{g.Path(0, 5, e), g.Path(5, 0, e), g.Path(far, far, e), g.Ancestors(far, e),
				g.Descendants(far, e)} {
				assert.Equal(t, 0, p.Len(), "size %d: %d entries of what is not there", size, p.Len())
			}
		}
		all := g.All()
		assert.True(t, uint64(all.Len()) == size && !all.Has(size) && !all.Has(1<<63), "size %d: all are %d", size,
			all.Len())
	}
}

// A chain as deep as the log is long is no deeper recursion.
func TestDeepChain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 20_000
	g, err := Read(t.Context(), newLong(t, n, 1, 0))
	require.NoError(t, err)
	for _, s := range []Set{g.Path(n-1, 0, Links), g.Ancestors(n-1, Links), g.Descendants(0, Links)} {
		assert.Equal(t, n, s.Len(), "%d entries", s.Len())
	}
	i, err := g.Find("chat-0/0")
	assert.True(t, i == 1 && err == nil, "%v %v", i, err)
}
