package check

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocuments checks that each test and each file that a document names exists.
func TestDocuments(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	require.Greater(t, len(tests), 50, "tests found in this repository")
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)`")
	linked := regexp.MustCompile(`\]\(([^)#]+)\)`)
	documents, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	links := 0
	for _, document := range append(documents, root+"/README.md", root+"/SECURITY.md", root+"/CHANGELOG.md",
		root+"/CONTRIBUTING.md") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, tests[m[1]], "%s names %s, and there is no such test", document, m[1])
		}
		prose := fences.ReplaceAllString(string(text), "") // generic Go looks like a link
		for _, m := range linked.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			_, err := os.Stat(filepath.Join(filepath.Dir(document), filepath.FromSlash(m[1])))
			assert.NoError(t, err, "%s points to %s", document, m[1])
		}
		if name := filepath.Base(document); strings.HasPrefix(name, "README") || strings.HasPrefix(name, "SECURITY") {
			assert.True(t, named.Match(text), "%s names no test: its promises have no proof", document)
		}
	}
	assert.Positive(t, links, "no link was checked")
}

// README is read in terminals too: no line outside a table has more than 140 characters.
func TestReadmeWidth(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/README.md")
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.True(t, len(lines) >= 50, "README.md has only %d lines", len(lines))
	for i, line := range lines {
		n := utf8.RuneCountInString(line)
		assert.False(t, n > 140 && !strings.HasPrefix(line, "|"), "README.md:%d: %d characters", i+1, n)
	}
}

// testNames returns the name of every function in a test file.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, s := range readTree(t, root).files {
		if !strings.HasSuffix(s.name, "_test.go") {
			continue
		}
		for _, d := range s.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
