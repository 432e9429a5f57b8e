package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/race"
)

// A written is what WriteJSON writes.
type written struct {
	Size    uint64
	Entries []struct {
		Index                                               uint64
		Kind, Session, Time, Tool, Verdict, Outcome, Reason string
		Risk, Hash                                          string
		Seq                                                 uint64
		Edges                                               []writtenEdge
	}
}

type writtenEdge struct {
	To    uint64
	Kind  string
	Cause bool
}

func readJSON(t testing.TB, b []byte) (w written) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&w))
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("something is behind the value: %v", err)
	}
	return w
}

// Sets of random logs are written as they are: the entries in order, what they say, the edges among
// them, and nothing else.
func TestWrite(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	sets, edges, left := 0, 0, 0
	for seed := range uint64(6) {
		w := newWorld(t, seed).calls(12)
		g, err := Read(t.Context(), w.store)
		require.NoError(t, err)
		n := newNaive(t, entries(t, w.store))
		last := g.Size() - 1
		for _, s := range []Set{{}, g.All(), g.Ancestors(last, Causes), g.Ancestors(last/2, Links),
			g.Descendants(last/2, Causes), g.Path(last, 0, Links),
			g.Ancestors(0, Links)} {
			var dot, text bytes.Buffer
			require.NoError(t, g.WriteDOT(t.Context(), &dot, s))
			require.NoError(t, g.WriteJSON(t.Context(), &text, s))
			require.NotContains(t, dot.String()+text.String(), secret, "an argument, an output or a caller is shown")
			var again bytes.Buffer
			require.NoError(t, g.WriteDOT(t.Context(), &again, s))
			require.NoError(t, g.WriteJSON(t.Context(), &again, s))
			require.Equal(t, dot.String()+text.String(), again.String(), "the same set is written in two ways")
			kept, all := checkWritten(t, n, s, readJSON(t, text.Bytes()), readDOT(t, dot.String()))
			sets, edges, left = sets+1, edges+kept, left+all-kept
		}
	}
	assert.True(t, sets >= 40 && edges >= 1000 && left >= 80, "%d sets with %d edges, %d left out: too few", sets,
		edges, left)
}

// checkWritten compares both forms with the naive reading, and returns the numbers of edges within
// the set and in all.
func checkWritten(t *testing.T, n *naive, s Set, w written, d drawing) (kept, all int) {
	t.Helper()
	if w.Size != uint64(len(n.order)) || len(w.Entries) != s.Len() || len(d.nodes) != s.Len() {
		t.Fatalf("size %d, %d entries, %d drawn; want %d and %d", w.Size, len(w.Entries), len(d.nodes), len(n.order),
			s.Len())
	}
	k := 0
	for i := range s.All() {
		e, h := w.Entries[k], n.order[i]
		st := n.said[h]
		p := st.Predicate
		want := fmt.Sprint(i, h, st.kind(), p.Session, p.Seq, p.Time, p.Tool+p.Decision.Tool,
			p.Verdict+p.Decision.Verdict, p.Outcome,
			p.Reason+p.Decision.Reason, p.Decision.Risk)
		require.Equal(t, want, fmt.Sprint(e.Index, e.Hash, e.Kind, e.Session, e.Seq, e.Time, e.Tool, e.Verdict,
			e.Outcome, e.Reason, e.Risk), "entry %d", i)
		node := d.nodes[k]
		lines := strings.Split(node.attrs["label"], "\n")
		if node.id != fmt.Sprint("e", i) || node.attrs["group"] != p.Session ||
			lines[0] != fmt.Sprint(i, " ", st.kind()) ||
			lines[1] != fmt.Sprint(p.Session, "/", p.Seq) || lines[2] != p.Time {
			t.Fatalf("entry %d is drawn as %v", i, node)
		}
		if tool := e.Tool; tool != "" && (lines[3] != tool || !strings.Contains(lines[4], e.Outcome) ||
			e.Reason != "ALLOW" && !strings.Contains(lines[4], e.Reason) ||
			!strings.Contains(lines[4], e.Risk) || (node.attrs["color"] == "red") != (e.Verdict == "DENY")) {
			t.Fatalf("entry %d is drawn as %v", i, node)
		}
		var edges, drawn []string
		for _, x := range e.Edges {
			edges = append(edges, fmt.Sprintln(i, x.To, x.Kind, x.Cause))
		}
		for _, x := range d.edges {
			if x.from == node.id {
				drawn = append(drawn, fmt.Sprintln(i, strings.TrimPrefix(x.to, "e"), x.attrs["label"],
					x.attrs["style"] != "dotted"))
			}
		}
		var wanted []string
		for _, to := range n.links[h] {
			all++
			if j := slices.Index(n.order, to); s.Has(uint64(j)) {
				kind := map[bool]string{true: "prev", false: "parent"}[to == p.Prev]
				wanted = append(wanted, fmt.Sprintln(i, j, kind, slices.Contains(n.causes[h], to)))
				kept++
			}
		}
		slices.Sort(edges)
		slices.Sort(drawn)
		slices.Sort(wanted)
		require.True(t, slices.Equal(edges, wanted) && slices.Equal(drawn, wanted), "edges %q, drawn %q, want %q",
			edges, drawn, wanted)
		k++
	}
	return kept, all
}

var hostileNames = []string{"", "a", `"`, `\`, `\"`, `\\`, `\N`, `\l\r\n`, "\n", "\r\n", "\x00", "\x1b[2J", "\x7f",
	"\u0085", "\u202e\u2066",
	"\u2028", "\u200b", "\ufeff", "é", "😀", "\xff\xfe", "{a|b}", "<b>", "<<table>>", "</script>", "&lt;", "&#8238;",
	"&amp;amp;",
	`"]; x -> y; "`, "a/b", "//", "/*", "#", "%s%n", strings.Repeat(`\"`, 500), "\ufffd", " ", "'`"}

// Whatever names are in entries, what is written is what was meant: contracts lets few characters
// through, and nothing here relies on that.
func FuzzNames(f *testing.F) {
	for i, s := range hostileNames {
		f.Add(s, hostileNames[(i+7)%len(hostileNames)])
	}
	f.Fuzz(func(t *testing.T, session, tool string) {
		st := &contracts.Statement{Header: contracts.Header{Session: session, Seq: 5},
			Decision: &contracts.DecisionRecord{Tool: tool, Reason: contracts.ReasonAllow, Verdict: contracts.Allow,
				Risk: "low"}}
		n := shown{3, []edge{{2, false, false}, {1, true, true}}, &entry.Line{Hash: contracts.Digest{1}, Entry: st}}
		dot := "digraph log {\n" + string(appendDOT(nil, &n)) + "}\n"
		text := append(appendJSON([]byte(`{"size":9,"entries":[`), &n), "]}"...)
		for _, c := range []byte(dot + string(text)) {
			require.False(t, (c < ' ' || c > '~') && c != '\n' && c != '\t', "%q %q: there is a byte %#x", session,
				tool, c)
		}
		require.False(t, bytes.ContainsAny(text, "<>&"), "%s: HTML would read it", text)
		valid := func(s string) string { return string([]rune(s)) }
		w := readJSON(t, text)
		e := w.Entries[0]
		require.True(t, e.Session == valid(session) && e.Tool == valid(tool) && len(e.Edges) == 2 && e.Risk == "low",
			"%q %q became %q %q", session, tool, e.Session, e.Tool)
		d := readDOT(t, dot)
		want := "3 decision\n" + spelled(session) + "/5\n1970-01-01T00:00:00.000Z"
		if tool != "" {
			want += "\n" + spelled(tool)
		}
		want += "\nALLOW, low risk"
		require.True(t, len(d.nodes) == 1 && len(d.edges) == 2 && d.nodes[0].attrs["label"] == want &&
			d.nodes[0].attrs["group"] == spelled(session), "%q %q: %v", session, tool, d)
	})
}

// spelled is a name as people are to see it.
func spelled(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r > '~' || r == '\\' {
			fmt.Fprintf(&b, `\u%06x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// TestStretches: a set is read in ranges that join entries with a small gap between them.
func TestStretches(t *testing.T) {
	t.Parallel()
	var s Set
	for _, i := range []uint64{3, 4, 5, 9, 9 + near + 1, 9 + 2*near + 3, 9 + 2*near + 4, 1000} {
		s.add(i)
	}
	var got []uint64
	for from, to := range s.ranges() {
		got = append(got, from, to)
	}
	want := []uint64{3, 9 + near + 2, 9 + 2*near + 3, 9 + 2*near + 5, 1000, 1001}
	assert.True(t, slices.Equal(got, want), "%d, want %d", got, want)
	for range s.ranges() { // after a break no more is yielded
		break
	}
}

// Writing holds nothing of the entries that it has written.
func TestWriteMemory(t *testing.T) {
	race.Alone(t)
	g, err := Read(t.Context(), newLong(t, 12_000, 64, 1))
	require.NoError(t, err)
	all := g.All()
	for _, write := range []func(context.Context, io.Writer, Set) error{g.WriteDOT, g.WriteJSON} {
		p := peak{before: allocated()}
		require.NoError(t, write(t.Context(), &p, all))
		assert.True(t, p.written >= 3<<19 && p.samples >= 12 && !(p.most > 512<<10),
			"%d bytes were written and looked at %d times, %.0f more bytes were held", p.written, p.samples, p.most)
	}
	runtime.KeepAlive(g)
}

// A peak is a writer that looks now and then at how much is held.
type peak struct {
	before, most     float64
	written, samples int
}

func (p *peak) Write(b []byte) (int, error) {
	if p.written/(128<<10) != (p.written+len(b))/(128<<10) {
		p.most = max(p.most, allocated()-p.before)
		p.samples++
	}
	p.written += len(b)
	return len(b), nil
}
