package check

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A tree is the Go files and the documents below a directory, of all modules there.
type tree struct {
	root  string
	fset  *token.FileSet
	files []source
	pages map[string][]byte // documents and policies by their path
}

// A source is one Go file, whatever its build tags.
type source struct {
	dir, name string // dir is "." in the root
	text      []byte
	syntax    *ast.File
}

func (s source) path() string { return path.Join(s.dir, s.name) }

// harness are packages that tests share: their files count as tests.
var harness = []string{
	"evidence/internal/forge",
	"internal/kerneltest",
	"internal/table",
	"proofgraph/filestore/internal/crash",
	"proofgraph/filestore/internal/disktest",
}

func (s source) test() bool {
	return strings.HasSuffix(s.name, "_test.go") || slices.Contains(harness, s.dir)
}

func readTree(t testing.TB, root string) *tree {
	t.Helper()
	tr := &tree{root: root, fset: token.NewFileSet(), pages: make(map[string][]byte)}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); file != root && (name == "testdata" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		return tr.read(file)
	})
	require.NoError(t, err)
	return tr
}

func (tr *tree) read(file string) error {
	kind := filepath.Ext(file)
	if kind != ".go" && kind != ".md" && kind != ".yaml" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(tr.root, file)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	if kind != ".go" {
		tr.pages[name] = text
		return nil
	}
	syntax, err := parser.ParseFile(tr.fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	tr.files = append(tr.files, source{path.Dir(name), path.Base(name), text, syntax})
	return err
}

// A line is one line of a file: its width with a tab as four columns, and what is on it.
type line struct {
	width         int
	whole         bool // the signature line of a note, or an example's output: it cannot be broken
	code, comment bool
}

// lines splits a Go file. A line has code if a token is on it, a raw string's inner lines included.
func (s source) lines() []line {
	var lines []line
	output := false // of an example, up to its end
	for text := range strings.Lines(string(s.text)) {
		text = strings.TrimRight(text, "\r\n")
		output = s.test() && strings.HasPrefix(text, "\t//") && (output || strings.TrimSpace(text) == "// Output:")
		lines = append(lines, line{
			width: utf8.RuneCountInString(text) + 3*strings.Count(text, "\t"),
			whole: strings.Contains(text, "// — ") || strings.Contains(text, "//\t— ") || output,
		})
	}
	file := token.NewFileSet().AddFile(s.name, -1, len(s.text))
	var scan scanner.Scanner
	scan.Init(file, s.text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own
		}
		first := file.Line(pos) - 1
		for i := first; i <= first+strings.Count(literal, "\n"); i++ {
			lines[i].code = lines[i].code || tok != token.COMMENT
			lines[i].comment = lines[i].comment || tok == token.COMMENT
		}
	}
}

// banned are words that a reader of other Go code does not expect, each with what to write.
var banned = map[string]*regexp.Regexp{
	"returns":          regexp.MustCompile(`(?i)\bgives\b`),
	"reports whether":  regexp.MustCompile(`(?i)\btells\s+whether\b`),
	"the caller, who":  regexp.MustCompile(`(?i)\bwhoever\b`),
	"again":            regexp.MustCompile(`(?i)\banew\b`),
	"so that not":      regexp.MustCompile(`(?i)\blest\b`),
	"they":             regexp.MustCompile(`(?i)\b(he|his|him)\b`),
	"a caller, a user": regexp.MustCompile(`(?i)\bsomebody\b`),
	"holds, has":       regexp.MustCompile(`(?i)\bbears\b`),
	"the active voice": regexp.MustCompile(`(?i)\bit\s+is\s+asked\b`),
}

// doubtful are words that have a right use too, which TestMeasures cannot tell from the other.
var doubtful = map[string]*regexp.Regexp{
	"and, with, next to": regexp.MustCompile(`(?i)\bbeside\b`),
	"after":              regexp.MustCompile(`(?i)\bbehind\b`),
	"if":                 regexp.MustCompile(`(?i)\bwhere\s+(there|one|it|none|nothing|nobody)\b`),
}

// prose is a comment without its markers, line by line.
func prose(c *ast.CommentGroup) string {
	var b strings.Builder
	for i, comment := range c.List {
		if strings.TrimSpace(comment.Text) == "// Output:" {
			break // it is what a program prints
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimPrefix(comment.Text, "//"))
	}
	return b.String()
}

// fences are the code blocks of a Markdown page.
var fences = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
