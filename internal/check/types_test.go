package check

import (
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked calls visit with each package of the module in the tree's root, type-checked without
// tests.
func (tr *tree) checked(t testing.TB, visit func(dir string, files []*ast.File, p *types.Package,
	uses map[*ast.Ident]types.Object)) {
	t.Helper()
	module, _, exports := compiled(t, tr.root)
	require.NotEmpty(t, module, "no packages: nothing was checked")
	byPath := make(map[string]*ast.File, len(tr.files))
	for _, s := range tr.files {
		byPath[s.path()] = s.syntax
	}
	imports := importer.ForCompiler(tr.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, p := range module {
		dir := "."
		if p.path != p.module {
			dir = strings.TrimPrefix(p.path, p.module+"/")
		}
		var files []*ast.File
		for _, name := range p.files {
			require.Contains(t, byPath, path.Join(dir, name))
			files = append(files, byPath[path.Join(dir, name)])
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		config := types.Config{Importer: imports}
		pkg, err := config.Check(p.path, tr.fset, files, info)
		require.NoError(t, err)
		visit(dir, files, pkg, info.Uses)
	}
}

// circle returns the names of the largest set of files that reach each other, one using a name that
// the next declares. It is empty if no two files do.
func circle(fset *token.FileSet, files []*ast.File, p *types.Package, uses map[*ast.Ident]types.Object) []string {
	next := make(map[string]map[string]bool)
	for _, f := range files {
		next[fset.File(f.FileStart).Name()] = make(map[string]bool)
	}
	for ident, object := range uses {
		if object.Pkg() == p && object.Pos().IsValid() {
			next[fset.File(ident.Pos()).Name()][fset.File(object.Pos()).Name()] = true
		}
	}
	reach := make(map[string]map[string]bool) // files are few: by breadth, from each
	for from := range next {
		seen := map[string]bool{}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			for to := range next[queue[0]] {
				if !seen[to] {
					seen[to] = true
					queue = append(queue, to)
				}
			}
		}
		reach[from] = seen
	}
	var largest []string
	for _, from := range slices.Sorted(maps.Keys(reach)) {
		round := []string{from}
		for to := range reach[from] {
			if to != from && reach[to][from] {
				round = append(round, to)
			}
		}
		if len(round) > 1 && len(round) > len(largest) {
			largest = round
		}
	}
	for i, name := range largest {
		largest[i] = path.Base(name)
	}
	slices.Sort(largest)
	return largest
}

// signatures calls visit with each exported function of a package and each exported method of its
// exported types, those of interfaces too.
func signatures(p *types.Package, visit func(name string, s *types.Signature)) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if f, ok := o.(*types.Func); ok {
			visit(name, f.Signature())
		}
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType {
			continue
		}
		methods := named.Methods()
		if i, ok := named.Underlying().(*types.Interface); ok {
			methods = i.ExplicitMethods()
		}
		for m := range methods {
			if m.Exported() {
				visit(name+"."+m.Name(), m.Signature())
			}
		}
	}
}

// concreteError reports whether a function returns an error as a type of its own: nil of it is an
// error that is not nil.
func concreteError(s *types.Signature) bool {
	failure := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	for v := range s.Results().Variables() {
		if !types.IsInterface(v.Type()) && types.Implements(v.Type(), failure) {
			return true
		}
	}
	return false
}

// anonymousInterface reports whether a parameter or a result has an interface without a name in it.
func anonymousInterface(s *types.Signature) bool {
	var in func(types.Type) bool
	in = func(t types.Type) bool {
		switch t := types.Unalias(t).(type) {
		case *types.Interface:
			return !t.Empty()
		case *types.Signature:
			return anonymousInterface(t)
		case *types.Map:
			return in(t.Key()) || in(t.Elem())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			return in(t.Elem())
		}
		return false
	}
	for _, list := range []*types.Tuple{s.Params(), s.Results()} {
		for v := range list.Variables() {
			if in(v.Type()) {
				return true
			}
		}
	}
	return false
}
