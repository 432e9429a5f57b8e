package check

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// watched are packages of the standard library that a module below this one imports only if its
// list says why.
var watched = []string{"C", "net", "net/http", "os/exec", "plugin", "syscall", "unsafe"}

// TestModules compares what the other modules of the workspace, and the adapters that cannot stand
// in it, import with testdata/modules.txt:
// other modules, internal packages of this one, and of the standard library what is watched. Its
// public packages, and tests, are free.
func TestModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/modules.txt")
	require.NoError(t, err)
	lists := parseImports(t, string(text))
	modules := workspace(t, root)
	require.NotEmpty(t, modules)
	for dir, m := range modules {
		for _, breach := range checkModule(t, filepath.Join(root, dir), m, lists[dir]) {
			t.Errorf("%s: %s", dir, breach)
		}
		delete(lists, dir)
	}
	for dir := range lists {
		t.Errorf("%s: listed, but there is no such module", dir)
	}
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	f, err := modfile.Parse("go.mod", own, nil)
	require.NoError(t, err)
	for _, r := range f.Require {
		assert.False(t, strings.HasPrefix(r.Mod.Path, modulePath), "the library requires %s", r.Mod.Path)
	}
	assert.Empty(t, f.Replace)
}

// workspace returns the other modules of a workspace and those of integrations, by their directory.
func workspace(t *testing.T, root string) map[string]*modfile.File {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	work, err := modfile.ParseWork("go.work", b, nil)
	require.NoError(t, err)
	found := map[string]*modfile.File{}
	files, err := filepath.Glob(filepath.Join(root, "integrations", "*", "go.mod"))
	require.NoError(t, err)
	for _, use := range work.Use {
		files = append(files, filepath.Join(root, use.Path, "go.mod"))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := modfile.Parse(file, b, nil)
		require.NoError(t, err)
		dir, err := filepath.Rel(root, filepath.Dir(file))
		require.NoError(t, err)
		if dir = filepath.ToSlash(dir); dir != "." {
			found[dir] = m
		}
	}
	return found
}

// checkModule returns what a module imports and its list does not have, and what the list has and
// nothing imports.
func checkModule(t *testing.T, dir string, m *modfile.File, list allowed) (breaches []string) {
	t.Helper()
	used := map[string]bool{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if entry.Name() == "testdata" || file != dir && err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if name = imported(m, name); name == "" {
				continue
			}
			if list[name] == "" && !used[name] {
				rel, _ := filepath.Rel(dir, file)
				breaches = append(breaches, rel+" imports "+name+", which is not listed")
			}
			used[name] = true
		}
		return nil
	}))
	for name := range list {
		if !used[name] {
			breaches = append(breaches, name+" is listed, and not imported")
		}
	}
	slices.Sort(breaches)
	return breaches
}

// imported returns what is listed for an import of a module: another module, an internal package, a
// watched one, or nothing.
func imported(m *modfile.File, name string) string {
	within := func(module string) bool { return name == module || strings.HasPrefix(name, module+"/") }
	switch {
	case slices.Contains(watched, name):
		return name
	case within(m.Module.Mod.Path):
		return ""
	}
	found := ""
	for _, r := range m.Require {
		if within(r.Mod.Path) && len(r.Mod.Path) > len(found) {
			found = r.Mod.Path
		}
	}
	switch first, _, _ := strings.Cut(name, "/"); {
	case found == modulePath:
		if own := "helm" + strings.TrimPrefix(name, modulePath); strings.HasPrefix(own, "helm/internal/") {
			return own
		}
		return ""
	case found == "" && strings.Contains(first, "."):
		return name
	}
	return strings.Replace(found, modulePath, "helm", 1)
}

// TestModuleBreaches: a check of a module finds what it is for.
func TestModuleBreaches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.work", "go 1.25.0\n\nuse (\n\t.\n\t./faces\n)\n")
	write("go.mod", "module "+modulePath+"\n")
	write("faces/go.mod", "module "+modulePath+"/faces\n\nrequire (\n\texample.org/x v1.0.0\n\t"+modulePath+" v0.0.0\n)\n")
	write("faces/a/a.go", "package a\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n\t\""+modulePath+
		"/policy\"\n\t\""+modulePath+"/faces/b\"\n)\n")
	write("faces/b/b.go", "package b\n\nimport (\n\t\"os/exec\"\n\t\"example.org/x/y\"\n\t\"example.org/unnamed\"\n\t\""+
		modulePath+"/internal/several\"\n)\n")
	write("faces/b/b_test.go", "package b\n\nimport \"example.org/tests\"\n")
	write("faces/inner/go.mod", "module "+modulePath+"/faces/inner\n")
	write("faces/inner/a.go", "package a\n\nimport \"example.org/inner\"\n")
	write("integrations/outside/go.mod", "module "+modulePath+"/integrations/outside\n")
	found := workspace(t, dir)
	require.Len(t, found, 2)
	require.Contains(t, found, "integrations/outside")
	list := allowed{"net/http": "serves", "example.org/gone": "once"}
	assert.Equal(t, []string{
		"b/b.go imports example.org/unnamed, which is not listed",
		"b/b.go imports example.org/x, which is not listed",
		"b/b.go imports helm/internal/several, which is not listed",
		"b/b.go imports os/exec, which is not listed",
		"example.org/gone is listed, and not imported",
	}, checkModule(t, filepath.Join(dir, "faces"), found["faces"], list))
}
