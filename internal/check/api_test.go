package check

import (
	"bytes"
	"cmp"
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
)

var update = flag.Bool("update", false, "rewrite testdata/api.txt of the module")

const apiFile = root + "/testdata/api.txt"

// What users can name is what they come to depend on: a line for each name, so that a change of any shows in review.
//
//	go test ./internal/check -run TestAPI -update
func TestAPI(t *testing.T) {
	packages, exports := compiled(t)
	var lines []string
	for _, path := range packages {
		p, err := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }).Import(path)
		if err != nil {
			t.Fatal(err)
		}
		names := apiOf(p)
		if len(names) == 0 {
			t.Errorf("%s exports nothing", path)
		}
		lines = append(lines, names...)
	}
	if len(packages) == 0 || len(lines) == 0 {
		t.Fatalf("%d packages with %d names were seen: nothing was checked", len(packages), len(lines))
	}
	got := []byte(strings.Join(lines, "\n") + "\n")
	if *update {
		if err := os.WriteFile(apiFile, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	before := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	for _, line := range before {
		if !slices.Contains(lines, line) {
			t.Errorf("gone:  %s", line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(before, line) {
			t.Errorf("added: %s", line)
		}
	}
	t.Errorf("the exported API is not %s; if that is meant: go test ./internal/check -run TestAPI -update", apiFile)
}

// compiled gives the public packages, sorted, and the export data of all that they need.
func compiled(t *testing.T) (packages []string, exports map[string]string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Name}}\t{{with .Module}}{{.Path}}{{end}}", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports = make(map[string]string)
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[1]
		if inside := "/" + f[0] + "/"; f[3] == modulePath && f[2] != "main" && !strings.Contains(inside, "/internal/") && !strings.Contains(inside, "/examples/") {
			packages = append(packages, f[0])
		}
	}
	slices.Sort(packages)
	return packages, exports
}

// apiOf gives a line for each exported name, field and method of a package.
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
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a, b) })
	return lines
}

func apiOfType(o *types.TypeName, brief types.Qualifier, add func(string, ...any)) {
	if o.IsAlias() {
		add("%s", types.ObjectString(o, brief))
		return
	}
	named := o.Type().(*types.Named)
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
			shape = " struct, opaque" // so that losing the last hidden field, which makes literals without names possible, shows
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
		add("method (%s) %s%s", receiver, m.Obj().Name(), strings.TrimPrefix(types.TypeString(m.Obj().Type(), brief), "func"))
	}
}
