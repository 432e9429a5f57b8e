package check

import (
	"encoding/json"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

// TestDocumentExamples checks the code in documents, by the tag of its fence: policies in YAML and
// JSON compile, JSON is JSON, and Go is formatted. Go that is no whole program is made of lines of
// examples and of a guest, which compile and run.
func TestDocumentExamples(t *testing.T) {
	t.Parallel()
	var examples []byte
	for _, name := range []string{
		"example_test.go", "conformance/example_test.go", "helmtest/example_test.go",
		"sandbox/example_test.go", "sandbox/testdata/sum/main.go", "integrations/otel/example_test.go",
		"integrations/witness/example_client_test.go",
	} {
		source, err := os.ReadFile(root + "/" + name)
		require.NoError(t, err)
		examples = append(examples, source...)
	}
	blocks := make(map[string]int)
	for name, text := range readTree(t, root).pages {
		if filepath.Ext(name) != ".md" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var policies []contracts.Document
			for _, m := range fences.FindAllStringSubmatch(string(text), -1) {
				tag, block := m[1], m[2]
				blocks[tag]++
				switch tag {
				case "go":
					checkGo(t, block, string(examples))
				case "json":
					assert.True(t, json.Valid([]byte(block)), "no JSON:\n%s", block)
				}
				if document := tag == "yaml" || tag == "json"; document {
					if doc, ok := checkPolicy(t, name+"."+tag, block); ok {
						policies = append(policies, doc)
					}
				}
			}
			checkStack(t, policies)
		})
	}
	assert.Positive(t, blocks["go"], "no Go was checked")
	assert.Positive(t, blocks["yaml"], "no policy was checked")
}

// checkGo checks a list of statements, or a whole file.
func checkGo(t *testing.T, text, examples string) {
	t.Helper()
	formatted, err := format.Source([]byte(text))
	if assert.NoError(t, err, text) {
		assert.Equal(t, string(formatted), text, "gofmt would change it")
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(text, "package ") {
			assert.Contains(t, examples, strings.TrimSpace(line), "not a line of an example")
		}
	}
}

// checkPolicy parses a document, and reports whether it is a whole policy.
func checkPolicy(t *testing.T, name, text string) (contracts.Document, bool) {
	t.Helper()
	doc, err := policy.Parse(name, []byte(text))
	if !assert.NoError(t, err, text) {
		return contracts.Document{}, false
	}
	_, whole := doc.Lines["/helm"]
	_, layer := doc.Lines["/layer"] // which a configuration has not
	return doc, whole && layer
}

// checkStack compiles the policies of a page: each bundle with the documents of other layers.
func checkStack(t *testing.T, policies []contracts.Document) {
	t.Helper()
	var bundles, layers []contracts.Document
	for _, doc := range policies {
		if _, bundle := doc.Lines["/bundle"]; bundle {
			bundles = append(bundles, doc)
		} else {
			layers = append(layers, doc)
		}
	}
	for _, doc := range bundles {
		stack := append([]contracts.Document{doc}, layers...)
		_, err := guardian.Compile(stack...)
		assert.NoError(t, err)
	}
	assert.True(t, len(bundles) > 0 || len(layers) == 0, "layers without a bundle to be over")
}
