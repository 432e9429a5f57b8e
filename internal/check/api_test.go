package check

import (
	"bytes"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/api.txt, and the composed parts of docs/adapters.md")

const apiFile = root + "/testdata/api.txt"

// TestAPI compares the exported names with testdata/api.txt, a line for each name: a change of any
// shows in review.
//
//	go test ./internal/check -run TestAPI -update
func TestAPI(t *testing.T) {
	_, packages, exports := compiled(t, root)
	var lines []string
	for _, path := range packages {
		open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
		p, err := importer.ForCompiler(token.NewFileSet(), "gc", open).Import(path)
		require.NoError(t, err)
		names := apiOf(p)
		assert.NotEqual(t, 0, len(names), "%s exports nothing", path)
		lines = append(lines, names...)
	}
	require.True(t, len(packages) != 0 && len(lines) != 0, "%d packages with %d names were seen: nothing was checked",
		len(packages), len(lines))
	got := []byte(strings.Join(lines, "\n") + "\n")
	if *update {
		require.NoError(t, os.WriteFile(apiFile, got, 0o666))
	}
	want, err := os.ReadFile(apiFile)
	require.NoError(t, err)
	if bytes.Equal(got, want) {
		return
	}
	before := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	for _, line := range before {
		assert.True(t, slices.Contains(lines, line), "gone: %s", line)
	}
	for _, line := range lines {
		assert.True(t, slices.Contains(before, line), "added: %s", line)
	}
	t.Errorf("the exported API is not %s; if that is meant: go test ./internal/check -run TestAPI -update", apiFile)
}

// A listed is a package of a module, as go list has it.
type listed struct {
	path, module, name string
	files              []string
}

// compiled returns the packages of the module in dir, those of them that users can import, and the
// export data of all that they need by path.
func compiled(t testing.TB, dir string) (module []listed, public []string, exports map[string]string) {
	t.Helper()
	const format = `{{.ImportPath}}	{{.Export}}	{{with .Module}}{{.Path}} ` +
		`{{.Main}}{{end}}	{{.Name}}	{{join .GoFiles " "}}`
	list := exec.Command("go", "list", "-export", "-deps", "-f", format, "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	exports = make(map[string]string)
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[1]
		name, ours := strings.CutSuffix(f[2], " true")
		if !ours {
			continue
		}
		module = append(module, listed{f[0], name, f[3], strings.Fields(f[4])})
		inside := "/" + f[0] + "/"
		if f[3] != "main" && !strings.Contains(inside, "/internal/") && !strings.Contains(inside, "/examples/") {
			public = append(public, f[0])
		}
	}
	slices.Sort(public)
	return module, public, exports
}

// apiOf returns a line for each exported name, field and method of a package.
func apiOf(p *types.Package) []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, p.Path()[len(modulePath)-len("helm"):]+": "+fmt.Sprintf(format, args...))
	}
	brief := func(q *types.Package) string {
		if q == p {
			return ""
		}
		return q.Name()
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			add("const %s %s = %s", name, types.TypeString(o.Type(), brief), o.Val().ExactString())
		case *types.TypeName:
			apiOfType(o, brief, add)
		default: // functions and variables
			add("%s", types.ObjectString(o, brief))
		}
	}
	slices.Sort(lines)
	return lines
}

func apiOfType(o *types.TypeName, brief types.Qualifier, add func(string, ...any)) {
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if o.IsAlias() && (!ok || !strings.Contains(named.Obj().Pkg().Path(), "/internal/")) {
		add("%s", types.ObjectString(o, brief))
		return
	}
	if o.IsAlias() { // users know the type by this name alone
		outer := brief
		brief = func(q *types.Package) string {
			if q == named.Obj().Pkg() {
				return ""
			}
			return outer(q)
		}
	}
	shape := "" // of a struct or an interface: its fields and methods have lines of their own
	switch under := named.Underlying().(type) {
	case *types.Struct:
		shape = " struct"
		hidden := 0
		for i := range under.NumFields() {
			if f := under.Field(i); f.Exported() {
				add("field %s.%s %s", o.Name(), f.Name(), types.TypeString(f.Type(), brief))
			} else {
				hidden++
			}
		}
		if hidden > 0 {
			// so that the loss of the last hidden field, which makes literals without names
			// possible, shows
			shape = " struct, opaque"
		}
	case *types.Interface:
		shape = " interface"
	default:
		shape = " " + types.TypeString(under, brief)
	}
	add("type %s%s", types.TypeString(named, brief), shape)
	set := types.NewMethodSet(named)
	pointer := types.NewMethodSet(types.NewPointer(named))
	if types.IsInterface(named) {
		pointer = set
	}
	for m := range pointer.Methods() { // promoted ones too
		if !m.Obj().Exported() {
			continue
		}
		receiver := o.Name()
		if set.Lookup(m.Obj().Pkg(), m.Obj().Name()) == nil {
			receiver = "*" + receiver
		}
		add("method (%s) %s%s", receiver, m.Obj().Name(), strings.TrimPrefix(types.TypeString(m.Obj().Type(), brief),
			"func"))
	}
}
