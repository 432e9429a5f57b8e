package check

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const cellPath = modulePath + "/internal/cell"

// makers are the packages that may make cells, and so claim that what they run is in a sandbox.
// Not all of them exist yet.
var makers = map[string]string{
	"sandbox":    "runs WebAssembly, metered and contained",
	"handoff":    "says that a tool ran elsewhere, and claims nothing of it",
	"policytest": "for kernels that it makes itself, in which no tool runs",
	"helmtest":   "for kernels that it makes itself in tests, with keys that anyone knows",
}

// cellMakers returns the directories of the files that refer to cell.New, by whether they are
// tests, and what hides such a reference from the syntax.
func cellMakers(tr *tree) (makers, tests, hidden []string) {
	into := map[bool]map[string]bool{false: {}, true: {}}
	for _, s := range tr.files {
		names := map[string]bool{}
		for _, spec := range s.syntax.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			switch {
			case imported != cellPath:
			case spec.Name == nil:
				names[path.Base(cellPath)] = true
			case spec.Name.Name == ".":
				hidden = append(hidden, s.path())
			default:
				names[spec.Name.Name] = true
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "New" {
				if pkg, ok := x.X.(*ast.Ident); ok && names[pkg.Name] {
					into[s.test()][s.dir] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(into[false])), slices.Sorted(maps.Keys(into[true])), hidden
}

// Outside of tests only the packages of the list make cells: no other code of this library can
// claim a sandbox, and no other module can name the package.
func TestCellMakers(t *testing.T) {
	t.Parallel()
	found, tests, hidden := cellMakers(readTree(t, root))
	for _, dir := range found {
		assert.Contains(t, makers, dir, "makes cells, and is not listed")
	}
	assert.Empty(t, hidden, "import cell under no name")
	assert.Contains(t, tests, "internal/kerneltest", "or the search sees nothing")
}

// An invented package that makes a cell is found, under whatever name it imports cell, and whether
// it calls New or only names it.
func TestCellMakersBreach(t *testing.T) {
	t.Parallel()
	file := func(imports, use string) string {
		return "package p\n\nimport " + imports + " \"" + cellPath + "\"\n\n" + use + "\n"
	}
	tr := readTree(t, written(t, map[string]string{
		"go.mod":          "module " + modulePath + "\n",
		"calls/a.go":      file("", "var c = cell.New(nil, i, nil, nil)"),
		"renamed/a.go":    file("box", "func f() { box.New(nil, i, nil, nil) }"),
		"named/a.go":      file("", "var make = cell.New"),
		"dotted/a.go":     file(".", "var c = New(nil, i, nil, nil)"),
		"takes/a.go":      file("", "var c = cell.Take(nil, nil)"),
		"tests/a_test.go": file("", "var c = cell.New"),
	}))
	found, tests, hidden := cellMakers(tr)
	require.Equal(t, []string{"calls", "named", "renamed"}, found)
	require.Equal(t, []string{"tests"}, tests)
	require.Equal(t, []string{"dotted/a.go"}, hidden)
}
