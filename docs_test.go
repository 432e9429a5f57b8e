package helm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// A promise in the documents whose proof is a test: the test is there. So are the files that they point to.
func TestDocuments(t *testing.T) {
	tests := testNames(t)
	if len(tests) < 50 {
		t.Fatalf("only %d tests were found in this repository", len(tests))
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)`")
	linked := regexp.MustCompile(`\]\(([^)#]+)\)`)
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || documents == nil {
		t.Fatalf("no documents in docs: %v", err)
	}
	for _, document := range append(documents, "README.md", "SECURITY.md", "RATIONALE.md", "CHANGELOG.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, and there is no such test", document, m[1])
			}
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s points to %s: %v", document, m[1], err)
			}
		}
		if strings.HasPrefix(document, "README") || strings.HasPrefix(document, "SECURITY") {
			if !named.Match(text) {
				t.Errorf("%s names no test: its promises have no proof", document)
			}
		}
	}
}

// README is read in terminals too: no line outside a table has more than 140 characters.
func TestReadmeWidth(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 50 {
		t.Fatalf("README.md has only %d lines", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 140 && !strings.HasPrefix(line, "|") {
			t.Errorf("README.md:%d: %d characters", i+1, n)
		}
	}
}

// testNames gives every function of a test file that go test runs.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
