package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/internal/table"
)

// scalars are plain ones; without JSON they are refused.
func scalars(t testing.TB) []scalar {
	t.Helper()
	return table.Read[scalar](t, "scalars", 118)
}

type scalar struct{ Text, JSON string }

func TestPlainScalars(t *testing.T) {
	t.Parallel()
	for _, c := range scalars(t) {
		doc, err := Parse("a.yaml", []byte("a: "+c.Text))
		switch {
		case c.JSON == "" && err == nil:
			t.Errorf("%q is read as %s", c.Text, doc.Canonical)
		case c.JSON != "" && err != nil:
			t.Errorf("%q is refused: %v", c.Text, err)
		case c.JSON != "" && string(doc.Canonical) != `{"a":`+c.JSON+`}`:
			t.Errorf("%q is read as %s", c.Text, doc.Canonical)
		}
	}
}

// A remedy must help: every text that is refused plain is a string in quotes.
func TestQuotedScalars(t *testing.T) {
	t.Parallel()
	for _, c := range scalars(t) {
		for _, quote := range []string{"'", `"`} {
			doc, err := Parse("a.yaml", []byte("a: "+quote+c.Text+quote))
			if err != nil || string(doc.Canonical[:6]) != `{"a":"` {
				t.Errorf("%s in quotes is %s, error %v", c.Text, doc.Canonical, err)
			}
		}
	}
	doc := mustParse(t, "a.yaml", "a: |\n  on\nb: >-\n  1\n  2\n")
	assert.Equal(t, `{"a":"on\n","b":"1 2"}`, string(doc.Canonical), "block scalars are %s", doc.Canonical)
}

func TestKeysAreStrings(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, "a.yaml",
		"yes: 1\n~: 2\n0x1f: 3\n1: 4\nnull: 5\n2026-01-31: 6\n.5: 7\ntrue: {on: 8, n: 9}\n'': 10\n=: 11\n")
	assert.Equal(t, `{"":10,".5":7,"0x1f":3,"1":4,"2026-01-31":6,"=":11,"null":5,"true":{"n":9,"on":8},"yes":1,"~":2}`,
		string(doc.Canonical), "keys are read as %s", doc.Canonical)
}
