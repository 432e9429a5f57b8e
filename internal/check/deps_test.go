package check

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readImports returns the lists of testdata/imports.txt: what each package may import and do, and
// what tests may import besides.
func readImports(t *testing.T) (packages map[string]allowed, tests allowed) {
	t.Helper()
	text, err := os.ReadFile("testdata/imports.txt")
	require.NoError(t, err)
	packages = parseImports(t, string(text))
	tests = packages["tests"]
	delete(packages, "tests")
	return packages, tests
}

func parseImports(t *testing.T, text string) (packages map[string]allowed) {
	t.Helper()
	packages = map[string]allowed{}
	var list allowed
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch entry, indented := strings.CutPrefix(line, "\t"); {
		case line == "" || line[0] == '#':
		case !indented:
			require.NotContains(t, packages, line, "two lists of one package")
			list = allowed{}
			packages[line] = list
		default:
			name, reason, ok := strings.Cut(entry, "  ")
			require.True(t, ok && list != nil && strings.TrimSpace(reason) != "", "not a name and a reason: %q", line)
			require.NotContains(t, list, name, "listed twice")
			list[name] = strings.TrimSpace(reason)
		}
	}
	return packages
}

func TestDeps(t *testing.T) {
	t.Parallel()
	imports, tests := readImports(t)
	for _, breach := range checkImports(root, modulePath, imports, tests) {
		t.Error(breach)
	}
}

// TestLinked checks what a program that embeds the kernel links, directly or through other
// packages; and one that hands calls off.
func TestLinked(t *testing.T) {
	t.Parallel()
	packages := goList(t, "{{.ImportPath}}", ".", "./handoff")
	require.True(t, slices.Contains(packages, modulePath) && slices.Contains(packages, "crypto/ed25519"),
		"go list names %d packages, and not what is surely linked", len(packages))
	for _, p := range packages {
		for _, never := range []string{"wazero", "yaml", "filestore", "sandbox"} {
			assert.NotContains(t, p, never, "the kernel links")
		}
		assert.False(t, slices.Contains([]string{"net", "net/http", "os/exec", "plugin", "testing", "C", "runtime/cgo"},
			p), "the kernel links %s", p)
	}
	modules := goList(t, "{{with .Module}}{{.Path}}{{end}}", ".", "./proofgraph")
	slices.Sort(modules)
	modules = slices.Compact(slices.DeleteFunc(modules, func(m string) bool { return m == "" }))
	n := len(modules)
	assert.True(t, n >= 1 && n <= 6 && slices.Contains(modules, modulePath),
		"the kernel and the store in memory link %d modules, of 6 at most: %q", n, modules)
}

func goList(t *testing.T, format string, packages ...string) []string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
