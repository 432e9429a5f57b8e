package graph

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A drawing is what Graphviz would read, by its grammar as far as it is used: comments, one
// digraph, settings, nodes, edges.
type drawing struct {
	nodes []drawn
	edges []drawn
}

type drawn struct {
	id       string // of a node
	from, to string // of an edge
	attrs    map[string]string
}

func readDOT(t testing.TB, s string) (d drawing) {
	t.Helper()
	tokens := tokensOfDOT(t, s)
	next := func() string {
		require.NotEqual(t, 0, len(tokens), "it ends too early")
		x := tokens[0]
		tokens = tokens[1:]
		return x
	}
	want := func(list ...string) {
		for _, w := range list {
			require.Equal(t, w, next())
		}
	}
	want("digraph", "log", "{")
	for {
		id := next()
		if id == "}" {
			break
		}
		x := drawn{attrs: map[string]string{}}
		switch y := next(); y {
		case "=": // a setting of the graph
			next()
			want(";")
			continue
		case "->":
			x.from, x.to = id, next()
			want("[")
		case "[":
			x.id = id
		default:
			t.Fatalf("%q behind %q", y, id)
		}
		for key := next(); key != "]"; key = next() {
			want("=")
			x.attrs[key] = strings.TrimPrefix(next(), `"`)
		}
		want(";")
		switch {
		case x.from != "":
			d.edges = append(d.edges, x)
		case x.id != "node":
			d.nodes = append(d.nodes, x)
		}
	}
	require.True(t, len(tokens) <= 0, "%q behind the end", tokens)
	return d
}

// tokensOfDOT takes DOT apart. Strings begin with their quote, and what labels escape in them is as
// it would be drawn.
func tokensOfDOT(t testing.TB, s string) (list []string) {
	t.Helper()
	for s != "" {
		n := 1
		switch c := s[0]; {
		case c == ' ' || c == '\t' || c == '\n':
			s = s[1:]
			continue
		case strings.HasPrefix(s, "//"):
			_, s, _ = strings.Cut(s, "\n")
			continue
		case strings.HasPrefix(s, "->"):
			n = 2
		case strings.IndexByte("{}[]=;", c) >= 0:
		case c == '"':
			var b strings.Builder
			for b.WriteByte('"'); ; n++ {
				require.NotEqual(t, n, len(s), "a string has no end")
				if s[n] == '"' {
					break
				}
				if s[n] == '\\' { // one pair, whatever follows it
					if n++; n < len(s) && s[n] == 'n' {
						b.WriteByte('\n')
					} else if n < len(s) && strings.IndexByte(`\"{}|<>`, s[n]) >= 0 {
						b.WriteByte(s[n])
					} else {
						t.Fatalf("the escape %q", s[n-1:n+1])
					}
					continue
				}
				require.True(t, strings.IndexByte("{}|<>", s[n]) < 0, "%q means something in a record", s[n])
				b.WriteByte(s[n])
			}
			list = append(list, strings.ReplaceAll(entities(t, b.String()), "&amp;", "&"))
			s = s[n+1:]
			continue
		default:
			for n = 0; n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' ||
				s[n] >= '0' && s[n] <= '9'); n++ {
			}
			if n == 0 {
				t.Fatalf("%q is no DOT", s[:min(len(s), 20)])
			}
		}
		list = append(list, s[:n])
		s = s[n:]
	}
	return list
}

// entities finds those that would be drawn as something else.
func entities(t testing.TB, s string) string {
	require.Equal(t, strings.Count(s, "&amp;"), strings.Count(s, "&"), "%q has an entity", s)
	return s
}
