package check

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A size is the measured size of one package, or of all of them.
type size struct {
	files, functions, code, wide         int // without tests; wide: lines of more than 120 columns
	testFiles, testCode, testWide        int
	longComments, words, circle, circled int // circled: files that circle could have had
}

// measures is the result of measuring a tree. A gate that does not hold has a line for each breach.
type measures struct {
	sizes    map[string]*size // by directory, "." is the root
	breaches map[string][]string
	circles  map[string][]string // the files of the largest circle
}

func (m *measures) size(dir string) *size {
	if m.sizes[dir] == nil {
		m.sizes[dir] = new(size)
	}
	return m.sizes[dir]
}

func (m *measures) breach(gate, format string, args ...any) {
	m.breaches[gate] = append(m.breaches[gate], fmt.Sprintf(format, args...))
}

// The gates, each with what it is for. A new one has a row in TestMeasureBreaches.
const (
	gateCircle    = "circle"    // files that use each other in a round are read together: at most a handful
	gateRoot      = "root"      // the root's files are the front door
	gateCore      = "core"      // guardian's own folder is what a reader of the judgement reads
	gateMethods   = "methods"   // a type with methods in many files is several types
	gateFields    = "fields"    // so is a struct of many fields
	gateWide      = "wide"      // code that runs out of a window
	gateTestWide  = "test wide" // tests may, now and then
	gateComments  = "comments"  // comments are read, so they are narrower
	gateWords     = "words"     // the words of other Go code
	gateDoubtful  = "doubtful"  // words that may be right, and mostly are not
	gateErrors    = "errors"    // a nil of a concrete error type is an error
	gateInterface = "interface" // an interface without a name cannot be documented
)

// The gates' bounds.
const (
	columns        = 120
	commentColumns = 100
	maxCore        = 1850 // code lines of guardian
	maxFields      = 20
	maxMethodFiles = 7
	maxRoot        = 46 // files of any kind in the root
	maxRootTests   = 18
	maxRootCode    = 18
)

// manyFields are structs that have more than maxFields fields, and why.
var manyFields = map[string]string{
	"contracts.DecisionRecord": "the fields of the signed record",
}

// maxCircle returns the most files of a directory that may use each other in a round; 0 is any
// number.
func maxCircle(dir string) int {
	first, _, _ := strings.Cut(dir, "/")
	switch {
	case dir == "internal/jsonschema":
		return 0 // a schema holds schemas, so that its keywords call each other
	case dir == ".": // to fold what others wrote, a running kernel uses what New folds a log with
		return 13
	case dir == "proofgraph": // one log over both kinds of store
		return 14
	case first == "guardian" || first == "evidence":
		return 8
	}
	return 11
}

// measure measures the tree in a directory.
func measure(t testing.TB, root string) *measures {
	t.Helper()
	tr := readTree(t, root)
	require.NotEmpty(t, tr.files, "no Go files: nothing was measured")
	m := &measures{make(map[string]*size), make(map[string][]string), make(map[string][]string)}
	methods := make(map[string]map[string]bool) // files by type
	for _, s := range tr.files {
		m.text(s)
		m.declarations(s, methods)
		for _, c := range s.syntax.Comments {
			first := tr.fset.Position(c.Pos()).Line
			m.words(s.dir, s.path(), prose(c), first)
		}
	}
	for name, text := range tr.pages {
		m.words(path.Dir(name), name, fences.ReplaceAllStringFunc(string(text), blank), 1)
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := len(methods[name]); n > maxMethodFiles {
			m.breach(gateMethods, "%s: methods in %d files, of %d at most", name, n, maxMethodFiles)
		}
	}
	tr.checked(t, func(dir string, files []*ast.File, p *types.Package, uses map[*ast.Ident]types.Object) {
		round := circle(tr.fset, files, p, uses)
		m.circles[dir] = round
		m.size(dir).circle, m.size(dir).circled = len(round), len(files)
		if most := maxCircle(dir); most > 0 && len(round) > most {
			m.breach(gateCircle, "%s: %d files use each other, of %d at most: %s", dir, len(round), most,
				strings.Join(round, " "))
		}
		signatures(p, func(name string, s *types.Signature) {
			if concreteError(s) {
				m.breach(gateErrors, "%s: %s returns a concrete error type: return error", dir, name)
			}
			if anonymousInterface(s) {
				m.breach(gateInterface, "%s: %s has an interface without a name", dir, name)
			}
		})
	})
	m.bounds(t, root)
	return m
}

// blank is a text of as many lines without any words.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// words finds the banned words of a text that begins on a line of a file.
func (m *measures) words(dir, file, text string, first int) {
	find := func(gate string, words map[string]*regexp.Regexp) {
		for instead, word := range words {
			for _, at := range word.FindAllStringIndex(text, -1) {
				m.size(dir).words++
				line := first + strings.Count(text[:at[0]], "\n")
				m.breach(gate, "%s:%d: %q: write %s", file, line, text[at[0]:at[1]], instead)
			}
		}
	}
	find(gateWords, banned)
	find(gateDoubtful, doubtful)
}

// text measures the lines of a file.
func (m *measures) text(s source) {
	size := m.size(s.dir)
	code, wide := &size.code, &size.wide
	gate := gateWide
	if s.test() {
		code, wide, gate = &size.testCode, &size.testWide, gateTestWide
		size.testFiles++
	} else {
		size.files++
	}
	for i, line := range s.lines() {
		switch {
		case line.code:
			*code++
			if line.width > columns {
				*wide++
				m.breach(gate, "%s:%d: %d columns", s.path(), i+1, line.width)
			}
		case line.comment && line.width > commentColumns && !line.whole:
			size.longComments++
			m.breach(gateComments, "%s:%d: %d columns", s.path(), i+1, line.width)
		}
	}
}

// declarations measures the functions and types of a file that is no test.
func (m *measures) declarations(s source, methods map[string]map[string]bool) {
	if s.test() {
		return
	}
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		m.size(s.dir).functions++
		if f.Recv == nil {
			continue
		}
		name := path.Join(s.dir, s.syntax.Name.Name) + "." + receiver(f.Recv.List[0].Type)
		if methods[name] == nil {
			methods[name] = make(map[string]bool)
		}
		methods[name][s.name] = true
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			name := s.syntax.Name.Name + "." + spec.Name.Name
			switch n := fields(structure); {
			case n > maxFields && manyFields[name] == "":
				m.breach(gateFields, "%s: %s has %d fields, of %d at most", s.path(), name, n, maxFields)
			case n <= maxFields && manyFields[name] != "":
				m.breach(gateFields, "%s: %s has %d fields: it needs no exemption", s.path(), name, n)
			}
		}
		return true
	})
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func fields(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// bounds measures what is bounded as a number.
func (m *measures) bounds(t testing.TB, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() || e.Name() == ".git" })
	atMost := func(gate, what string, n, most int) {
		if n > most {
			m.breach(gate, "%d %s, of %d at most", n, what, most)
		}
	}
	atMost(gateRoot, "files in the root", len(entries), maxRoot)
	atMost(gateRoot, "tests in the root", m.size(".").testFiles, maxRootTests)
	atMost(gateRoot, "files of code in the root", m.size(".").files, maxRootCode)
	atMost(gateCore, "code lines in guardian", m.size("guardian").code, maxCore)
	all := m.all()
	if all.testWide*100 < all.testCode {
		delete(m.breaches, gateTestWide) // fewer than 1%
	}
}

func (m *measures) all() size {
	var all size
	for _, s := range m.sizes {
		all.files += s.files
		all.functions += s.functions
		all.code += s.code
		all.wide += s.wide
		all.testFiles += s.testFiles
		all.testCode += s.testCode
		all.testWide += s.testWide
		all.longComments += s.longComments
		all.words += s.words
		all.circle = max(all.circle, s.circle)
	}
	return all
}

// rows are the sizes by directory, and those of all, as numbers in the order of columns.
func (m *measures) rows() map[string][]int {
	rows := make(map[string][]int, len(m.sizes)+1)
	row := func(s size) []int {
		return []int{
			s.files, s.functions, s.code, s.wide, s.testFiles, s.testCode, s.testWide, s.longComments, s.words,
			s.circle,
		}
	}
	for dir, s := range m.sizes {
		rows[dir] = row(*s)
	}
	rows["all"] = row(m.all())
	return rows
}

// table prints sizes, a package a line, with those of before in parentheses if they were others.
func table(now, before map[string][]int) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "files\tfunctions\tcode\t>120\ttest files\ttest code\t>120\tcomments >100\twords\tcircle\t package")
	dirs := maps.Clone(before)
	maps.Copy(dirs, now)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		for i := range dirs[dir] {
			was, is := at(before[dir], i), at(now[dir], i)
			if was == is {
				fmt.Fprintf(w, "%d\t", is)
			} else {
				fmt.Fprintf(w, "%d (%d)\t", is, was)
			}
		}
		fmt.Fprintf(w, " %s\n", dir)
	}
	w.Flush()
	return b.String()
}

// at returns the element of a row, and 0 if there is no such row.
func at(row []int, i int) int {
	if row == nil {
		return 0
	}
	return row[i]
}

// measuredBefore are the rows of 1273a18, as TestMeasures printed them there.
func measuredBefore(t testing.TB) map[string][]int {
	t.Helper()
	text, err := os.ReadFile("testdata/before.txt")
	require.NoError(t, err)
	rows := make(map[string][]int)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		row := make([]int, len(f)-1)
		for i := range row {
			row[i], err = strconv.Atoi(f[i])
			require.NoError(t, err)
		}
		rows[f[len(f)-1]] = row
	}
	return rows
}

// TestMeasures checks the gates that are numbers, and prints the numbers:
//
//	go test ./internal/check -run TestMeasures -v
func TestMeasures(t *testing.T) {
	t.Parallel()
	m := measure(t, root)
	t.Logf("now, and in parentheses at 1273a18\n%s", table(m.rows(), measuredBefore(t)))
	for _, dir := range slices.Sorted(maps.Keys(m.circles)) {
		if round := m.circles[dir]; len(round) > 0 {
			t.Logf("%s: %d of %d files use each other: %s", dir, len(round), m.size(dir).circled,
				strings.Join(round, " "))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(m.breaches)) {
		lines := m.breaches[gate]
		slices.Sort(lines)
		assert.Empty(t, lines, "%s", gate)
	}
}
