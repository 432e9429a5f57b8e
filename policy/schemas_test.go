package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// schemasText has the schema of a tool's arguments on line 7, and that of its response on line 8.
//
//go:embed testdata/schemas.yaml
var schemasText string

// doubling is a schema of n definitions, each of which refers to the next twice: written out, 2^n.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{type: object, properties: {a: {$ref: "#/$defs/d0"}}, $defs: {`)
	for i := range n {
		fmt.Fprintf(&b, `d%d: {type: object, properties: {l: {$ref: "#/$defs/d%d"}, r: {$ref: "#/$defs/d%d"}}}, `, i,
			i+1, i+1)
	}
	fmt.Fprintf(&b, `d%d: {type: string}}}`, n)
	return b.String()
}

// alternating is the same in alternatives.
func alternating(n int) string {
	return strings.NewReplacer("type: object, properties: {l: ", "anyOf: [", "r: ", "", "\"}}}, ",
		"\"}]}, ").Replace(doubling(n))
}

func deep(n int) string {
	return `{type: object, properties: {a: ` + strings.Repeat(`{type: array, items: `,
		n) + `{type: string}` + strings.Repeat(`}`, n) + `}}`
}

// chained is as deep, but only for a reader who follows one definition after the other.
func chained(n int) string {
	var b strings.Builder
	b.WriteString(`{type: object, properties: {a: {$ref: "#/$defs/d0"}}, $defs: {`)
	for i := range n {
		fmt.Fprintf(&b, `d%d: {type: array, items: {$ref: "#/$defs/d%d"}}, `, i, i+1)
	}
	fmt.Fprintf(&b, `d%d: {type: string}}}`, n)
	return b.String()
}

func wide(n int) string {
	var b strings.Builder
	b.WriteString(`{type: object, properties: {p: {type: string}`)
	for i := range n {
		fmt.Fprintf(&b, `, p%d: {type: string}`, i)
	}
	b.WriteString(`}}`)
	return b.String()
}

// Schemas that explode, are too large or too deep, or refer to other documents are refused at load
// with file, line and remedy, in responses as in arguments. Each has a twin that is just small
// enough, or the refusal would prove nothing.
func TestSchemaLimits(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const plain = `{type: object}`
	for _, c := range []struct{ name, good, bad, says string }{
		{"exploding references", doubling(8), doubling(25),
			"with each $ref written out it has more than 10,000 schemas; make it smaller"},
		{"exploding alternatives", alternating(8), alternating(25),
			"with each $ref written out it has more than 10,000 schemas; make it smaller"},
		{"a reference to itself", doubling(1), `{type: object, properties: {a: {$ref: "#"}}}`,
			"the $ref leads back to a schema that it is in; "},
		{"a reference in a circle", doubling(1),
			`{type: object, properties: {a: {$ref: "#/$defs/b"}}, $defs: {b: {type: array, items: {$ref: ` +
				`"#/$defs/c"}}, c: ` +
				`{type: array, items: {$ref: "#/$defs/b"}}}}`,
			"the $ref leads back to a schema that it is in; "},
		{"a remote reference", doubling(1),
			`{type: object, properties: {a: {$ref: "https://example.com/schema.json"}}}`,
			"only a $ref into the same schema is supported; "},
		{"nested too deep", deep(60), deep(70), "schemas are nested more than 64 deep; flatten it"},
		{"nested too deep by references", chained(30), chained(70), "schemas are nested more than 64 deep; flatten it"},
		{"too many", wide(9_000), wide(10_001), "it has more than 10,000 schemas; make it smaller"},
		{"too many values", `{type: object, properties: {a: {enum: [0]}}}`,
			`{type: object, properties: {a: {enum: [` + strings.Repeat("0, ", 10_000) + `0]}}}`,
			"more than 10000 values; "},
		{"a pattern that is too long", `{type: object, properties: {a: {type: string, pattern: "` + strings.Repeat("a",
			1024) + `"}}}`,
			`{type: object, properties: {a: {type: string, pattern: "` + strings.Repeat("a", 1025) + `"}}}`,
			"the pattern is longer than 1 KiB; "},
		{"a pattern that explodes", plain,
			`{type: object, properties: {a: {type: string, pattern: "((a{100}){100}){100}"}}}`,
			"the pattern is not RE2"},
		{"a keyword that is none", plain, `{type: object, patternProperties: {"^a": {}}}`,
			"keyword patternProperties is not supported; "},
	} {
		for line, place := range map[int]string{7: "INPUT", 8: "OUTPUT"} {
			text := func(schema string) string {
				return strings.NewReplacer("INPUT", plain, "OUTPUT",
					plain).Replace(strings.Replace(schemasText, place, schema, 1))
			}
			if _, err := Load(write(t, "remote.yaml", text(c.good))); err != nil {
				t.Errorf("%s, %s: the good one: %v", c.name, place, err)
			}
			file := write(t, "remote.yaml", text(c.bad))
			p, err := Load(file)
			var refused *guardian.LoadError
			if p != nil || !errors.As(err, &refused) {
				t.Errorf("%s, %s: %v", c.name, place, err)
				continue
			}
			if says := err.Error(); !strings.HasPrefix(says, fmt.Sprintf("%s:%d:", file, line)) ||
				!strings.Contains(says, c.says) ||
				refused.Remedy == "" || !strings.HasPrefix(refused.Pointer, "/tools/t/"+strings.ToLower(place)) ||
				len(says) > 2000 {
				t.Errorf("%s, %s: %.500s", c.name, place, says)
			}
		}
	}
}
