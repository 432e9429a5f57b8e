package graph

import (
	"bytes"
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
)

// TestStubs: a log of which stubs are left has the graph of the whole log, in which the stubs are
// marked and the rest is as it was.
func TestStubs(t *testing.T) {
	t.Parallel()
	stubs := 0
	for seed := range uint64(6) {
		m := forge.RandomLog(t, 500+seed, 100).Model()
		whole := forge.Shelve(t, m.Build())
		r := rand.New(rand.NewPCG(seed, 12))
		m.LetGo(func(int) bool { return r.IntN(3) > 0 })
		left := forge.Shelve(t, m.Build())
		g, err := Read(t.Context(), whole)
		require.NoError(t, err)
		of, err := Read(t.Context(), left)
		require.NoError(t, err)
		for i := range g.Size() {
			for _, along := range []Edges{Causes, Links} {
				require.Equal(t, g.Ancestors(i, along), of.Ancestors(i, along), "entry %d", i)
				require.Equal(t, g.Descendants(i, along), of.Descendants(i, along), "entry %d", i)
			}
			at, err := of.Find(whole.Lines[i].Hash().String())
			require.True(t, err == nil && at == i, "entry %d: %d, %v", i, at, err)
		}
		was, now := jsonOf(t, g), jsonOf(t, of)
		for i, line := range left.Lines {
			if !contracts.IsStub(line) {
				require.Equal(t, was[i], now[i])
				continue
			}
			stubs++
			require.Regexp(t, `"kind":"(decision|receipt)","stub":true,"session":`, now[i])
			require.Equal(t, unsaid(was[i]), unsaid(now[i]), "entry %d", i)
		}
		before, err := bytesOf(g)
		require.NoError(t, err)
		g.source = left // that let go of them meanwhile
		after, err := bytesOf(g)
		require.NoError(t, err)
		require.NotEqual(t, before, after)
		require.Equal(t, strings.Join(now, "\n"), after)
	}
	assert.Greater(t, stubs, 60)
}

// bytesOf writes a whole graph as JSON.
func bytesOf(g *Graph) (string, error) {
	var b bytes.Buffer
	err := g.WriteJSON(context.Background(), &b, g.All())
	return strings.Join(lines(b.String()), "\n"), err
}

// jsonOf are the entries of a graph, a line each.
func jsonOf(t *testing.T, g *Graph) []string {
	t.Helper()
	text, err := bytesOf(g)
	require.NoError(t, err)
	return strings.Split(text, "\n")
}

func lines(text string) []string {
	list := strings.Split(strings.TrimSuffix(text, "\n]}\n"), "\n")[1:]
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], ",")
	}
	return list
}

// unsaid takes out what a stub does not say, or says by itself.
func unsaid(line string) string {
	return regexp.MustCompile(`"(tool|verdict|reason|risk)":"[^"]*",|"stub":true,`).ReplaceAllString(line, "")
}

// TestStubsDrawn: a stub is marked in a drawing, and says what is left of the call.
func TestStubsDrawn(t *testing.T) {
	t.Parallel()
	m := forge.Condensed(t)
	m.LetGo(func(i int) bool { return i < 9 })
	s := forge.Shelve(t, m.Build())
	g, err := Read(t.Context(), s)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, g.WriteDOT(t.Context(), &b, g.All()))
	for _, want := range []string{
		`e5 [group="s2" label="5 decision, a stub\ns2/0\n2026-09-21T14:13:20.005Z\nfs.read\nALLOW" style=dashed];`,
		`e7 [group="main" label="7 receipt, a stub\nmain/4\n2026-09-21T14:13:20.007Z\nFAILED" style=dashed];`,
		`e8 [group="s2" label="8 receipt, a stub\ns2/1\n2026-09-21T14:13:20.008Z\nEXECUTED" style=dashed];`,
		"e5 -> e3 [label=parent];", "e8 -> e5 [label=prev];",
		`e16 [group="main" label="16 decision\n`,
	} {
		assert.Contains(t, b.String(), want)
	}
	assert.Equal(t, 4, strings.Count(b.String(), "a stub"))
}

// TestHostileStubs: a stub that does not fit is refused, as an entry is.
func TestHostileStubs(t *testing.T) {
	t.Parallel()
	m := forge.Condensed(t)
	m.LetGo(func(int) bool { return true })
	s := forge.Shelve(t, m.Build())
	good := slices.Clone(s.Lines)
	for name, x := range map[string]struct{ at, from, to, says string }{
		"its decision is itself": {"8", `"decision":5`, `"decision":8`, "entry 8: stub.decision: no earlier entry"},
		"its decision is far":    {"8", `"decision":5`, `"decision":9007199254740991`, "entry 8: stub.decision: no earlier"},
		"another seq":            {"8", `"seq":1`, `"seq":2`, "entry 8: predicate.seq: not the next"},
		"another session":        {"8", `"session":"s2"`, `"session":"s3"`, "entry 8: predicate.seq: not the next"},
		"a parent that is not there": {"5", `"parents":["`, `"parents":["0000000000000000000000000000000000000000000000000000000000000000","`,
			"entry 5: predicate.parents: one is no earlier entry"},
		"another hash":   {"8", `"entry":"9`, `"entry":"8`, "entry 9: predicate.prev: not the hash"},
		"not canonical":  {"8", `"seq":1`, `"seq": 1`, "entry 8: contracts: ENCODING: not canonical"},
		"a field more":   {"8", `"seq":1,`, `"seq":1,"seqs":1,`, "entry 8: contracts: RECORD: stub.seqs: unknown field"},
		"not an outcome": {"8", `EXECUTED`, `WITHHELD`, "entry 8: contracts: RECORD: stub.outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			i := map[string]int{"5": 5, "8": 8}[x.at]
			bad := *s
			bad.Lines = slices.Clone(good)
			bad.Lines[i] = contracts.Entry(strings.Replace(string(good[i]), x.from, x.to, 1))
			require.NotEqual(t, string(good[i]), string(bad.Lines[i]), "nothing was changed")
			_, err := Read(t.Context(), &bad)
			assert.ErrorContains(t, err, x.says)
		})
	}
}
