package guardian

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A test of a text takes one visit more for each whole KiB of it; one of a pattern takes as many
// more as its steps times the bytes over 8,192, the pattern of a schema too. Beyond 10,000 the call
// is denied before the test is made: no arguments of a model can hold up a session for long.
func TestVisitsOfTexts(t *testing.T) {
	t.Parallel()
	const any = `"s":{"type":"string"}`
	const slow = `(?s).*[a-z ]{1,500}x.*`
	failed := func(condition int) want { return want{contracts.ReasonFailClosedError, condition, ""} }
	allow := want{contracts.ReasonAllow, 8, "P1:b:all"}
	finds := func(pattern string) string { return fmt.Sprintf(`{"arg":"/s","finds":%q}`, pattern) }
	for _, c := range []struct {
		name, schema, test string
		tests, bytes       int
		want               want
	}{
		{"999 KiB ten times", any, `{"arg":"/s","prefix":"a"}`, 10, 1000<<10 - 1, allow}, // 10 × (1 + 999)
		{"1000 KiB ten times", any, `{"arg":"/s","prefix":"a"}`, 10, 1000 << 10, failed(5)},
		{"1000 KiB nine times", any, `{"arg":"/s","prefix":"a"}`, 9, 1000 << 10, allow},
		{"of equality", any, `{"arg":"/s","eq":"a"}`, 10, 1000 << 10, failed(5)},
		{"of a set", any, `{"arg":"/s","in":["a","b"]}`, 10, 1000 << 10, failed(5)},
		{"of a pattern instead", any, finds("a"), 70, 1000 << 10, allow}, // 70 × (1 + 125)
		{"as many steps as may be", any, finds("a{1000}"), 1, 81_919, allow},
		{"a step more", any, finds("a{1000}"), 1, 81_920, failed(5)},
		{"whole", any, `{"arg":"/s","regex":"a{1000}"}`, 1, 81_920, failed(5)},
		{"slow", any, finds(slow), 1, 1000 << 10, failed(5)},
		{"forty patterns", any, finds("[a-z]{20}x"), 40, 1000 << 10, failed(5)},
		{"of a schema", `"s":{"type":"string","pattern":"x{1000}"}`, "", 0, 81_920, allow},
		{"of a schema, a byte more", `"s":{"type":"string","pattern":"x{1000}"}`, "", 0, 81_929, failed(2)},
		{"of a schema, slow", fmt.Sprintf(`"s":{"type":"string","pattern":%q}`, slow), "", 0, 1000 << 10, failed(2)},
		{"of both", `"s":{"type":"string","pattern":"x{1000}"}`, finds("y{1000}"), 1, 40_959, allow},
		{"of both, a byte more", `"s":{"type":"string","pattern":"x{1000}"}`, finds("y{1000}"), 1, 40_960, failed(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var rules []string
			for i := range c.tests {
				rules = append(rules, fmt.Sprintf(`{"id":"r%d","deny":"t","when":{"all":[%s,{"arg":"/s","eq":"%d"}]}}`,
					i, c.test, i))
			}
			p := mustCompile(t, bundle("b", toolText("t", c.schema, "s"),
				strings.Join(append(rules, `{"id":"all","allow":"t"}`), ",")))
			in := inputs(t, "t", `{"s":"`+strings.Repeat("x", c.bytes)+`"}`)
			_, why := c.want.check(t, p, in)
			if c.want.reason != contracts.ReasonAllow {
				assert.Contains(t, why.What, "more than 10000 values")
			}
		})
	}
}

// What a pattern means must not depend on the Unicode tables of the Go that compiled it.
func TestPatternTables(t *testing.T) {
	t.Parallel()
	for pattern, good := range map[string]bool{
		`[a-zäöü]+`: true, `(?i)[a-z]+`: true, `\d{3}`: true, `(?i:a)é`: true,
		`\p{L}`: false, `\PL`: false, `[^\p{Greek}]`: false, `(?i)é`: false, `(?i)[à-ü]`: false,
	} {
		for _, test := range []string{`{"arg":"/s","finds":%q}`, `{"arg":"/s","regex":%q}`} {
			_, err := Compile(document(t, "b", bundle("b", toolText("t", `"s":{"type":"string"}`, "s"),
				`{"id":"no","deny":"t","when":`+fmt.Sprintf(test, pattern)+`},{"id":"all","allow":"t"}`)))
			if good {
				require.NoError(t, err, pattern)
				continue
			}
			var e *LoadError
			require.ErrorAs(t, err, &e, pattern)
			assert.Contains(t, e.Pointer, "/rules/0/when")
			assert.Equal(t, "write the ranges", e.Remedy)
		}
	}
}
