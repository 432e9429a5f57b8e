// Package frameworks holds the test of the table in README.md.
package frameworks

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

const most = 60 // lines of glue of a program

// TestTable compares README.md with go.mod and with the programs: versions, and lines of glue.
func TestTable(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	versions := make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	row := regexp.MustCompile("(?m)^\\| \\[([a-z]+)\\]\\(([a-z]+)/glue.go\\) \\| `([^ `]+)` (v[^ ]+) \\|.* ([0-9]+) \\|$")
	rows := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(string(readme), -1) {
		program, dir, framework, version, glue := m[1], m[2], m[3], m[4], m[5]
		rows[program] = true
		assert.Equal(t, program, dir)
		assert.Equal(t, versions[framework], version, framework)
		lines := codeLines(t, dir+"/glue.go")
		assert.Equal(t, strconv.Itoa(lines), glue, "%s: lines of glue", program)
		assert.LessOrEqual(t, lines, most, program)
	}
	programs := 0
	dirs, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, d := range dirs {
		if _, err := os.Stat(d.Name() + "/main.go"); err == nil {
			programs++
			assert.True(t, rows[d.Name()], "%s: no row", d.Name())
		}
	}
	assert.Equal(t, 6, programs)
	assert.Len(t, rows, programs)
}

// codeLines returns the number of lines with code after the imports.
func codeLines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, file, text, parser.ImportsOnly)
	require.NoError(t, err)
	imports := fset.Position(syntax.Decls[len(syntax.Decls)-1].End()).Line
	f := fset.AddFile(file, -1, len(text))
	var scan scanner.Scanner
	scan.Init(f, text, nil, 0) // without comments
	lines := make(map[int]bool)
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if line := f.Line(pos); line > imports && (tok != token.SEMICOLON || literal != "\n") {
			lines[line] = true
		}
	}
}
