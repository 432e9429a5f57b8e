package policy

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/several"
)

// valid returns a function that reports whether another library finds a document valid by Schema.
func valid(t *testing.T) func(canonical []byte) error {
	t.Helper()
	schema, err := santhosh.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := santhosh.NewCompiler()
	require.NoError(t, c.AddResource("mem:///policy", schema))
	compiled, err := c.Compile("mem:///policy")
	require.NoError(t, err)
	return func(canonical []byte) error {
		v, err := santhosh.UnmarshalJSON(bytes.NewReader(canonical))
		require.NoError(t, err)
		return compiled.Validate(v)
	}
}

// repository is read once.
var repository = sync.OnceValues(readRepository)

// readRepository returns the documents of this repository that stand in a stack that loads, each
// with such a stack, itself first: of files, of tests and of pages.
func readRepository() (stacks [][]contracts.Document, err error) {
	var all []contracts.Document
	seen := map[string]bool{}
	add := func(name string, text []byte) {
		doc, err := Parse(name, text)
		if err == nil && bytes.Contains(doc.Canonical, []byte(`"helm":"policy/v1"`)) && !seen[string(doc.Canonical)] {
			seen[string(doc.Canonical)] = true
			all = append(all, doc)
		}
	}
	err = filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch ext := filepath.Ext(file); {
		case err != nil || d.IsDir():
			return err
		case ext != ".yaml" && ext != ".json" && ext != ".txt" && ext != ".md" && ext != ".go":
			return nil
		}
		text, err := os.ReadFile(file)
		add(file, text)
		for i, part := range strings.Split(string(text), "```") {
			if i%2 == 1 {
				_, part, _ = strings.Cut(part, "\n")
				add(file, []byte(part))
			}
		}
		for i, part := range strings.Split(string(text), "`") {
			if i%2 == 1 && strings.Contains(part, "policy/v1") {
				add(file, []byte(part))
			}
		}
		for _, line := range strings.Split(string(text), "\n") {
			for _, field := range strings.Split(line, "\t") {
				if strings.HasPrefix(field, "{") {
					add(file, []byte(field))
				}
			}
		}
		return err
	})
	for _, doc := range all {
		if _, err := guardian.Compile(doc); err == nil {
			stacks = append(stacks, []contracts.Document{doc})
		}
	}
	bundles := slices.Clone(stacks)
	for _, doc := range all {
		if bytes.Contains(doc.Canonical, []byte(`"layer":"P1"`)) {
			continue
		}
		for _, b := range bundles {
			if _, err := guardian.Compile(doc, b[0]); err == nil {
				stacks = append(stacks, []contracts.Document{doc, b[0]})
				break
			}
		}
	}
	return stacks, err
}

// TestSchema: every document of the repository that loads is valid by the schema, and so is what
// New writes.
func TestSchema(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	check, layers := valid(t), map[string]int{}
	stacks, err := repository()
	require.NoError(t, err)
	for _, stack := range stacks {
		assert.NoError(t, check(stack[0].Canonical), "%s: %s", stack[0].Name, stack[0].Canonical)
		for _, layer := range []string{"P0", "P1", "P2"} {
			if bytes.Contains(stack[0].Canonical, []byte(`"layer":"`+layer+`"`)) {
				layers[layer]++
			}
		}
	}
	t.Log("documents by layer:", layers)
	assert.True(t, layers["P0"] >= 20 && layers["P1"] >= 50 && layers["P2"] >= 10, "too few were compared: %v", layers)
	for name, list := range servers(t) {
		yaml, _, err := New([]byte(encoded(t, list)), "x")
		require.NoError(t, err, name)
		doc, err := Parse(name, yaml)
		require.NoError(t, err)
		assert.NoError(t, check(doc.Canonical), name)
	}
}

// TestSchemaMisspelt: what the loader refuses as a key that it does not know is not valid by the
// schema.
func TestSchemaMisspelt(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	check, tried, refused := valid(t), map[string]bool{}, 0
	stacks, err := repository()
	require.NoError(t, err)
	for _, stack := range stacks {
		var tree crypto.Tree
		require.NoError(t, tree.Parse(stack[0].Canonical, crypto.Limits{Bytes: 1 << 20, Depth: crypto.MaxDepth}))
		var walk func(n, root *node, above string)
		walk = func(n, root *node, above string) {
			for i := range n.kids {
				name := n.kids[i].name
				if n.kind == crypto.Array {
					walk(n.kids[i].node, root, above)
					continue
				}
				for _, wrong := range misspellings(name) {
					if tried[above+"/"+wrong] || n.has(wrong) {
						continue
					}
					tried[above+"/"+wrong] = true
					n.kids[i].name = wrong
					if unknownKey(t, check, stack, root, wrong) {
						refused++
					}
					n.kids[i].name = name
				}
				walk(n.kids[i].node, root, name)
			}
		}
		root := nodeOf(tree.Root(), "")
		walk(root, root, "")
	}
	t.Logf("%d misspelt keys, of which the loader does not know %d", len(tried), refused)
	assert.Greater(t, refused, 200)
}

// unknownKey reports whether the loader does not know a key of a document. The document is not
// valid then, and it is valid if the loader takes it.
func unknownKey(
	t *testing.T, check func([]byte) error, stack []contracts.Document, root *node, key string,
) bool {
	t.Helper()
	docs := slices.Clone(stack)
	docs[0].Canonical = canonical(t, root)
	_, err := guardian.Compile(docs...)
	if err == nil {
		assert.NoError(t, check(docs[0].Canonical), "%s: the loader takes %q", stack[0].Name, key)
		return false
	}
	for _, one := range several.All(err) {
		var err *guardian.LoadError
		if !errors.As(one, &err) {
			continue
		}
		if strings.HasPrefix(err.What, `unknown key "`+key+`"`) ||
			strings.HasPrefix(err.What, "keyword "+key+" is not") {
			assert.Error(t, check(docs[0].Canonical), "%s: %q", stack[0].Name, key)
			return true
		}
	}
	return false
}

func canonical(t *testing.T, n *node) []byte {
	t.Helper()
	text := n.json(nil)
	return root(t, text).Append(nil)
}

// misspellings returns a word with a letter less, one more, two swapped, and another case.
func misspellings(s string) []string {
	if len(s) < 2 || strings.Trim(s, letters+"_") != "" {
		return nil
	}
	i := len(s) / 2
	list := []string{s[:i] + s[i+1:], s[:i] + s[i:i+1] + s[i:], strings.ToUpper(s[:1]) + s[1:]}
	if s[i-1] != s[i] {
		list = append(list, s[:i-1]+s[i:i+1]+s[i-1:i]+s[i+1:])
	}
	return list
}

// TestSchemaForms: what the schema says of a key is said of one that the loader has.
func TestSchemaForms(t *testing.T) {
	t.Parallel()
	keys := map[string][]string{}
	for _, s := range slices.Concat(documentShapes(), partShapes(), predicateShapes(), caseShapes()) {
		keys[s.name] = s.keys
		for _, key := range s.keys {
			assert.NotNil(t, s.forms[key], "%s: %s takes anything", s.name, key)
		}
		if s.name == "floor" || s.name == "bundle" || s.name == "overlay" {
			continue // they share their forms
		}
		for key := range s.forms {
			assert.Contains(t, s.keys, key, s.name)
		}
	}
	every := slices.Concat(grammar.FloorKeys, grammar.BundleKeys, grammar.OverlayKeys)
	for key := range documentShapes()[0].forms {
		assert.Contains(t, every, key)
	}
	assert.Equal(t, grammar.Rule, keys["rule"])
}
