package otel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named are the names of conventions and of HELM: words with dots, without capitals.
var named = regexp.MustCompile(`^(helm|gen_ai|mcp|jsonrpc|http|error)(\.[a-z_]+)+$`)

// names returns those of names.go.
func names(t *testing.T) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && named.MatchString(s) {
				list = append(list, s)
			}
		}
		return true
	})
	return list
}

// TestDocs compares docs/telemetry.md with the names that there are, and its queries with those
// that Prometheus makes of them.
func TestDocs(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/telemetry.md")
	require.NoError(t, err)
	text := string(b)
	known := names(t)
	require.Greater(t, len(known), 30)
	prometheus := []string{}
	for _, name := range known {
		assert.Contains(t, text, "`"+name+"`")
		under := strings.ReplaceAll(name, ".", "_")
		prometheus = append(prometheus, under, under+"_total")
	}
	for _, m := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(text, -1) {
		if named.MatchString(m[1]) {
			assert.Contains(t, known, m[1], "in the page")
		}
	}
	queries := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(text, -1)
	require.Len(t, queries, 3)
	used := 0
	for _, q := range queries {
		for _, name := range regexp.MustCompile(`\b(?:helm|gen_ai)_[a-z_]+`).FindAllString(q[1], -1) {
			assert.Contains(t, prometheus, name, q[1])
			used++
		}
	}
	assert.Equal(t, 8, used)
	trace := regexp.MustCompile(`event\.((?:helm)(?:\.[a-z]+)+)`).FindAllStringSubmatch(text, -1)
	require.Len(t, trace, 4)
	for _, m := range trace {
		assert.Contains(t, known, m[1])
	}
}

// TestGoldenNames: what was told in the golden files has names that the page has.
func TestGoldenNames(t *testing.T) {
	t.Parallel()
	known, seen := names(t), map[string]bool{}
	for _, file := range []string{"story", "handler", "facts", "calls"} {
		b, err := os.ReadFile("testdata/" + file + ".txt")
		require.NoError(t, err)
		for _, word := range regexp.MustCompile(`[a-z_]+(\.[a-z_]+)+`).FindAllString(string(b), -1) {
			if named.MatchString(word) {
				assert.Contains(t, known, word, file)
				seen[word] = true
			}
		}
	}
	seen["helm.late"] = true // TestDriverThatIsAbandoned
	missing := slices.DeleteFunc(known, func(name string) bool { return seen[name] })
	assert.Empty(t, missing, "told in no golden file")
}
