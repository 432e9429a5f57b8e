package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// note_add map[result:did tea]
	// vault_open map[error:vault_open was denied: NO_POLICY_DEFINED. No rule allows this call. Find another way or report this. (no rule matches the call)]
}

// TestLength holds the program to 30 lines of code: without imports, comments and empty lines.
func TestLength(t *testing.T) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "main.go", nil, 0)
	require.NoError(t, err)
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	all := strings.Split(string(text), "\n")
	lines := 0
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		for _, line := range all[set.Position(d.Pos()).Line-1 : set.Position(d.End()).Line] {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	assert.LessOrEqual(t, lines, 30)
	assert.Greater(t, lines, 10, "the count has missed the program")
}
