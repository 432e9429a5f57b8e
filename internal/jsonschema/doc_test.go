package jsonschema

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPackageComment compiles the schema in the package comment and validates values.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(doc), "//\t{")
	schema, _, found := strings.Cut(rest, "\n//\n")
	require.True(t, found, "no schema in the package comment")
	s := compile(t, "{"+strings.ReplaceAll(schema, "//\t", ""), true)
	var got strings.Builder
	for _, value := range []string{
		`{"to":"GB29NWBK60161331926819","amount":4.35}`, `{"to":"GB29","amount":4.35}`,
		`{"amount":4.355,"to":"GB29NWBK60161331926819"}`, `{"amount":0}`, `{"too":1}`, `{}`,
	} {
		filled, _ := s.AppendDefaults(nil, parse(t, value))
		fmt.Fprintln(&got, string(filled), s.Validate(parse(t, string(filled))))
	}
	place, _ := s.Lookup([]string{"note"})
	fmt.Fprintf(&got, "%+v\n", place)
	const want = `{"amount":4.35,"note":"","to":"GB29NWBK60161331926819"} <nil>
{"amount":4.35,"note":"","to":"GB29"} /to: pattern: ^[A-Z]{2}[0-9A-Z]{13,32}$
{"amount":4.355,"note":"","to":"GB29NWBK60161331926819"} /amount: multipleOf: 0.01
{"amount":0,"note":""} /amount: exclusiveMinimum: 0
{"note":"","too":1} : required: amount
{"note":""} : required: amount
{Types:string Optional:true Nullable:false Filled:true Map:false Open:false}
`
	assert.Equal(t, want, got.String())
}
