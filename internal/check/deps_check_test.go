package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// allowed is what one package may do: an import path or an effect, with the reason. Paths of this
// module begin with "helm".
type allowed map[string]string

// Effects are named as they are written; "go" is a goroutine, however it is started.
const (
	startsGoroutine = "go"
	hasInit         = "init"
)

// effects are those of packages that may be imported for other things. Other effects are held by
// the import alone: os, math/rand, crypto/rand, …
var effects = map[string]map[string]string{
	"time": {
		"Now": "time.Now", "Since": "time.Now", "Until": "time.Now", // all three read the clock
		"After": "time.After", "AfterFunc": startsGoroutine, "NewTimer": "time.NewTimer", "NewTicker": "time.NewTicker",
		"Tick": "time.Tick", "Sleep": "time.Sleep",
	},
	"context": {"AfterFunc": startsGoroutine},
}

// checkImports compares the packages below root with their list, and test files with theirs. It
// returns one line for each breach, sorted, and one if there was nothing to check: an empty result
// means that everything was looked at.
func checkImports(root, module string, list map[string]allowed, tests allowed) []string {
	c := importCheck{root: root, module: module, list: list, tests: tests, used: make(map[string]map[string]bool)}
	if err := filepath.WalkDir(root, c.visit); err != nil {
		c.breach("the tree: cannot be read: %v", err)
	}
	if c.files == 0 {
		c.breach("the tree: no Go files were seen: nothing was checked")
	}
	for _, pkg := range slices.Sorted(maps.Keys(list)) {
		if _, seen := c.used[pkg]; !seen {
			c.breach("%s: listed, but there is no such package", pkg)
			continue
		}
		c.unused(pkg, list[pkg], c.used[pkg])
	}
	c.unused("tests", tests, c.used["tests"])
	slices.Sort(c.breaches)
	return c.breaches
}

type importCheck struct {
	root, module string
	list         map[string]allowed
	tests        allowed
	used         map[string]map[string]bool
	files        int
	breaches     []string
}

func (c *importCheck) breach(format string, args ...any) {
	c.breaches = append(c.breaches, fmt.Sprintf(format, args...))
}

func (c *importCheck) unused(where string, listed allowed, used map[string]bool) {
	for _, what := range slices.Sorted(maps.Keys(listed)) {
		if !used[what] {
			c.breach("%s: %s is listed and not used", where, what)
		}
		if listed[what] == "" {
			c.breach("%s: %s is listed without a reason", where, what)
		}
	}
}

// visit checks every Go file, whatever its build tags.
func (c *importCheck) visit(file string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name := entry.Name()
	if entry.IsDir() {
		if file == c.root {
			return nil
		}
		_, missing := os.Stat(filepath.Join(file, "go.mod"))
		// a module of its own has its own walls
		if name == "testdata" || name[0] == '.' || name[0] == '_' || missing == nil {
			return filepath.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(name, ".go") {
		return nil
	}
	c.files++
	dir, err := filepath.Rel(c.root, filepath.Dir(file))
	if err != nil {
		return err
	}
	pkg := path.Join("helm", filepath.ToSlash(dir))
	where := path.Join(filepath.ToSlash(dir), name)
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.breach("%s: cannot be parsed: %v", where, strings.TrimPrefix(err.Error(), file+":"))
		return nil
	}
	if strings.HasSuffix(name, "_test.go") {
		c.checkTest(where, f)
		return nil
	}
	listed, ok := c.list[pkg]
	if !ok {
		c.breach("%s: package %s is not listed", where, pkg)
		listed = allowed{}
	}
	c.checkFile(where, pkg, f, listed)
	return nil
}

func (c *importCheck) use(pkg, what string) {
	if c.used[pkg] == nil {
		c.used[pkg] = make(map[string]bool)
	}
	if what != "" {
		c.used[pkg][what] = true
	}
}

// checkTest looks at imports alone. Tests may import what any listed package may, and what their
// own list adds.
func (c *importCheck) checkTest(where string, f *ast.File) {
	c.use("tests", "")
	for _, spec := range f.Imports {
		imported := c.importPath(spec)
		if _, ok := c.tests[imported]; ok {
			c.use("tests", imported)
			continue
		}
		if _, ok := c.list[imported]; ok {
			continue
		}
		ok := false
		for _, listed := range c.list {
			_, here := listed[imported]
			ok = ok || here
		}
		if !ok {
			c.breach("%s: imports %s, which is not listed for tests", where, imported)
		}
	}
}

func (c *importCheck) importPath(spec *ast.ImportSpec) string {
	imported, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	if rest, ok := strings.CutPrefix(imported, c.module); ok && (rest == "" || rest[0] == '/') {
		return "helm" + rest
	}
	return imported
}

func (c *importCheck) checkFile(where, pkg string, f *ast.File, listed allowed) {
	c.use(pkg, "")
	permit := func(what, breach string) {
		if _, ok := listed[what]; !ok {
			c.breach("%s: %s, which is not listed for %s", where, breach, pkg)
			return
		}
		c.use(pkg, what)
	}
	names := make(map[string]string) // under which a package with effects is imported here
	for _, spec := range f.Imports {
		imported := c.importPath(spec)
		permit(imported, "imports "+imported)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			c.breach("%s: imports %s into its own names", where, imported)
		}
		if effects[imported] != nil {
			names[name] = imported
		}
	}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:linkname") {
				c.breach("%s: go:linkname reaches what no import shows", where)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			permit(startsGoroutine, "starts a goroutine")
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				permit(hasInit, "has an init function")
			}
		case *ast.SelectorExpr: // as a call or as a value
			if x, ok := n.X.(*ast.Ident); ok && names[x.Name] != "" {
				if effect := effects[names[x.Name]][n.Sel.Name]; effect != "" {
					permit(effect, "uses "+names[x.Name]+"."+n.Sel.Name)
				}
			}
			if n.Sel.Name == "Go" { // of sync.WaitGroup or errgroup.Group
				permit(startsGoroutine, "starts a goroutine by a method Go")
			}
		}
		return true
	})
}
