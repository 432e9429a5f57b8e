package policy

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/table"
)

func mustParse(t testing.TB, name, text string) contracts.Document {
	t.Helper()
	doc, err := Parse(name, []byte(text))
	require.NoError(t, err, "%q is refused", text)
	return doc
}

func mustRefuse(t testing.TB, name, text, want string) {
	t.Helper()
	doc, err := Parse(name, []byte(text))
	var refused *guardian.LoadError
	switch {
	case err == nil:
		t.Errorf("%.80q is read as %.80s", text, doc.Canonical)
	case !errors.As(err, &refused) || err.Error() != want:
		t.Errorf("%.80q is refused with\n%v; want\n%s", text, err, want)
	}
	if doc.Name != "" || doc.Canonical != nil || doc.Lines != nil {
		t.Errorf("%.80q is refused, and half a document comes with the error", text)
	}
}

// The package comment is the specification, so its example is read as it says.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "policy.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	var blocks []string // each without its tabs
	inside := false
	for line := range strings.Lines(f.Doc.Text()) {
		code, ok := strings.CutPrefix(line, "\t")
		switch {
		case ok && inside:
			blocks[len(blocks)-1] += code
		case ok:
			blocks = append(blocks, code)
		}
		inside = ok
	}
	require.Len(t, blocks, 4, "the comment has %d blocks of code", len(blocks))
	doc := mustParse(t, "doc.yaml", blocks[1])
	assert.Equal(t, strings.ReplaceAll(blocks[2], "\n", ""), string(doc.Canonical))
	text := strings.Repeat("#\n", 11) + "limits: [     no]\n"
	mustRefuse(t, "bank.yaml", text,
		"bank.yaml:12:15: the plain scalar no means different things to different readers of YAML; "+
			"quote it to mean the string, or write true, false, null or a JSON number")
	assert.Equal(t, strings.ReplaceAll(blocks[3], "\n", " "), "bank.yaml:12:15: the plain scalar no means different "+
		"things to different readers of YAML; quote it to mean the string ")
}

// A whole bundle, in the form that people write and in the one that is signed.
func TestBundle(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/bank.json")
	require.NoError(t, err)
	doc := mustParse(t, "bank.yaml", string(text))
	assert.True(t, bytes.Equal(append(doc.Canonical, '\n'), want), "testdata/bank.yaml became\n%s", doc.Canonical)
	again := mustParse(t, "bank.json", string(want))
	if !bytes.Equal(again.Canonical, doc.Canonical) || len(again.Lines) != len(doc.Lines) {
		t.Errorf("testdata/bank.json became\n%s", again.Canonical)
	}
	for _, c := range table.Read[struct {
		Pointer      string
		Line, Column int
	}](t, "bank_places", 8) {
		want := contracts.Pos{Line: c.Line, Column: c.Column}

		assert.Equal(t, want, doc.Lines[c.Pointer], "%s stands at", c.Pointer)
	}
}

// specification holds the example documents of the policy language, one for each layer. They use
// parts of the language that this version refuses.
var specification = []string{"floor.yaml", "bank.yaml", "task.yaml"}

// Each example document of the language is a document, and the same one in JSON.
func TestSpecificationExamples(t *testing.T) {
	t.Parallel()
	for _, name := range specification {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		doc := mustParse(t, name, string(text))
		asJSON := mustParse(t, name+".json", string(doc.Canonical))
		assert.Equal(t, string(doc.Canonical), string(asJSON.Canonical), name)
		assert.Len(t, asJSON.Lines, len(doc.Lines), name)
	}
}

func TestJSONAndYAMLAgree(t *testing.T) {
	t.Parallel()
	forms := table.Read[struct{ Name, Text string }](t, "json_and_yaml_agree", 4)
	const want = `{"a":"yes","b":[1,"xA/",true,null,{"":[],"c/d":"~","e~":{}}],"f":100,"n":"1e2","é":0}`
	pointers := []string{"", "/a", "/b", "/b/0", "/b/1", "/b/2", "/b/3", "/b/4", "/b/4/", "/b/4/c~1d", "/b/4/e~0", "/f",
		"/n", "/é"}
	for _, f := range forms {
		doc := mustParse(t, f.Name, f.Text)
		if string(doc.Canonical) != want || doc.Name != f.Name {
			t.Errorf("%s became %s", f.Name, doc.Canonical)
		}
		assert.Equal(t, len(pointers), len(doc.Lines), "%s: %d places", f.Name, len(doc.Lines))
		for _, p := range pointers {
			if doc.Lines[p].Line < 1 || doc.Lines[p].Column < 1 {
				t.Errorf("%s does not know where %s stands", f.Name, p)
			}
		}
	}
}

// Places are of the value, or of its key if the value begins on a line below it. Both readers
// agree, and count characters.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct {
		Name, Text, Pointer string
		Line, Column        int
	}](t, "places", 11) {
		want := contracts.Pos{Line: c.Line, Column: c.Column}
		assert.Equal(t, want, mustParse(t, c.Name, c.Text).Lines[c.Pointer], "%q: %s stands at", c.Text, c.Pointer)
	}
}

func TestParseKeepsNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.json", "a.yaml"} {
		text := []byte(`{"a":"bbbb","c":["d"]}`)
		doc := mustParse(t, name, string(text))
		again, err := Parse(name, text)
		require.NoError(t, err)
		for i := range text {
			text[i] = 'x'
		}
		assert.True(t, bytes.Equal(doc.Canonical, again.Canonical),
			"%s: the caller's bytes are part of the document: %s", name, again.Canonical)
	}
}

// seeds are texts of all sorts, for fuzzing.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 2 {
		f.Fatalf("found %d seeds, error %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	for _, c := range refusals(f) {
		f.Add([]byte(c.Text))
	}
	for _, c := range scalars(f) {
		f.Add([]byte("a: " + c.Text))
	}
}

// A document that Parse accepts is canonical JSON, and parses to itself. If a text is JSON, YAML's
// reading of it is the same or there is none.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := Parse("doc", text)
		if err != nil {
			var refused *guardian.LoadError
			if !errors.As(err, &refused) || refused.Pos.Line < 1 || refused.Pos.Column < 1 || refused.What == "" {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		var tree crypto.Tree
		require.NoError(t, tree.Parse(doc.Canonical, crypto.Limits{Bytes: 1 << 30, Depth: 128, Object: true}),
			"%q became %q", text, doc.Canonical)
		if again := tree.Root().Append(nil); !bytes.Equal(again, doc.Canonical) {
			t.Errorf("%q became %q, and that %q", text, doc.Canonical, again)
		}
		again := mustParse(t, "doc.json", string(doc.Canonical))
		for pointer := range again.Lines {
			if doc.Lines[pointer].Line < 1 {
				t.Errorf("%q: nobody knows where %q stands", text, pointer)
			}
		}
		assert.Equal(t, len(doc.Lines), len(again.Lines), "%q has %d places, its canonical form", text, len(doc.Lines))
		if asYAML, refused := readYAML(text); refused == nil && !bytes.Equal(asYAML.Canonical, doc.Canonical) {
			t.Errorf("%q is %q as YAML and %q as JSON", text, asYAML.Canonical, doc.Canonical)
		}
	})
}
