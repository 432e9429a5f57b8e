package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/table"
)

// A good tool with facts, of which each case below spoils one thing.
const order = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{
	"order": {"effect": "read", "input": {"type": "object", "properties": {}}, "trusted": false,
		"output": {"type": "object", "required": ["class", "cards"], "properties": {
			"class": {"type": "string"}, "booked": {"type": ["string", "null"]}, "paid": {"type": "boolean"}, "sum": {"type": "number"},
			"id": {"type": ["string", "integer"]}, "gone": {"type": "null"}, "any": {}, "a/b": {"type": "string"}, "mixed": {"type": ["string", "array"], "items": {"type": "string"}},
			"cards": {"type": "array", "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "pin": {"type": "integer"}}}},
			"prices": {"type": "object", "additionalProperties": {"type": "number"}}, "box": {"type": "object", "additionalProperties": false, "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}}},
		"facts": {"class": "/class", "card": {"at": "/cards/*/id", "trusted": true}, "note": {"at": "/booked", "text": true}, "bags": {"count": "/cards"}}}},
	"rules":[{"id":"a","allow":"order"}]}`

func TestFactRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, order) // or the refusals would prove nothing
	keys := func(n, size int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"f%d": "/%s%d"`, i, strings.Repeat("x", size-3), 10+i))
		}
		return strings.Join(list, ", ")
	}
	const class = `"class": "/class"`
	for _, c := range slices.Concat(readRefusals(t, "fact_refusals", 28), []refusal{
		{class, keys(30, 8), "/tools/order/facts", "33 facts|write at most 32"},
	}) {
		require.Equal(t, 1, strings.Count(order, c.old), "%q is not once in the good document", c.old)
		e := mustRefuse(t, document(t, "b.yaml", strings.Replace(order, c.old, c.new, 1)))
		assert.Equal(t, c.at, e.Pointer, "%s gives %v", c.new, e)
		for _, part := range strings.Split(c.says, "|") {
			assert.Contains(t, e.Error(), part, "%s gives %v", c.new, e)
		}
		assert.NotEqual(t, "", e.Remedy, "%v has no remedy", e)
	}
	before, rest, _ := strings.Cut(order, `"output":`)
	_, after, _ := strings.Cut(rest, `"facts":`)
	e := mustRefuse(t, document(t, "", before+`"facts":`+after))
	assert.Equal(t, "/tools/order/facts: facts of an output that is not pinned; declare output",
		strings.TrimPrefix(e.Error(), "policy: "))
}

// The keys of a facts document have 64 KiB together at most.
func TestFactKeys(t *testing.T) {
	t.Parallel()
	text := func(size int) string {
		name := strings.Repeat("x", size-1)
		return bundle("b", `"t":{"effect":"read","input":{"type":"object","properties":{}},"output":{"type":"object","properties":{"`+
			name+`":{"type":"array"}}},"facts":{"f":{"count":"/`+name+`"}}}`, `{"id":"a","allow":"t"}`)
	}
	const most = 64<<10 - len(contracts.CountPrefix)
	mustCompile(t, text(most))
	e := mustRefuse(t, document(t, "", text(most+1)))
	assert.Equal(t, "the pointers of these facts have 65537 bytes", e.What)
	assert.Equal(t, "write shorter ones, or fewer", e.Remedy)
}

// An extraction is facts, an output, and the facts document.
type extraction struct{ Facts, Output, Document string }

func factsOf(t testing.TB, facts, output string) string {
	t.Helper()
	text := order
	if facts != "" {
		before, rest, _ := strings.Cut(text, `"facts": {`)
		_, after, _ := strings.Cut(rest, "}}}},")
		text = before + `"facts": {` + facts + "}}}," + after
	}
	p := mustCompile(t, text)
	v := valueOf(t, output)
	why, ok := p.CheckOutput("order", v)
	require.True(t, ok, "%s: %s", output, why)
	document, declared := p.Facts("order", v)
	require.True(t, declared)
	read, err := contracts.ParseFacts(document)
	require.NoError(t, err, "%.200s", document)
	require.Equal(t, string(document), string(read.Append(nil)))
	return string(document)
}

func TestFacts(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[extraction](t, "facts", 14) {
		assert.Equal(t, c.Document, factsOf(t, c.Facts, c.Output), "%s of %s", c.Facts, c.Output)
	}
	_, declared := mustCompile(t, bundle("b", toolText("t", ``), ``)).Facts("t", valueOf(t, `{}`))
	assert.False(t, declared)
	_, declared = (*Policy)(nil).Facts("t", valueOf(t, `{}`))
	assert.False(t, declared)
}

// A fact at its limit is there, and one over it is null. Its neighbours stay.
func TestFactLimits(t *testing.T) {
	t.Parallel()
	list := func(n int, v string) string { return "[" + strings.TrimSuffix(strings.Repeat(v+",", n), ",") + "]" }
	cards := func(n int, id string) string { return list(n, `{"id":"`+id+`"}`) }
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		facts, output, null string
	}{
		"a thousand values":           {`"c": "/cards/*/id", "k": "/class"`, `{"class":"z","cards":` + cards(1000, "1") + `}`, ""},
		"a thousand and one":          {`"c": "/cards/*/id", "k": "/class"`, `{"class":"z","cards":` + cards(1001, "1") + `}`, "/cards/*/id"},
		"256 bytes":                   {`"c": "/cards/*/id", "k": "/class"`, `{"class":"` + x(256) + `","cards":[]}`, ""},
		"257 bytes":                   {`"c": "/cards/*/id", "k": "/class"`, `{"class":"` + x(257) + `","cards":[]}`, "/class"},
		"256 bytes when escaped":      {`"c": "/cards/*/id", "k": "/class"`, `{"class":"` + strings.Repeat(`\n`, 128) + `","cards":[]}`, ""},
		"257 bytes when escaped":      {`"c": "/cards/*/id", "k": "/class"`, `{"class":"` + strings.Repeat(`\n`, 128) + `x","cards":[]}`, "/class"},
		"one long value of two":       {`"c": "/cards/*/id", "k": "/class"`, `{"class":"z","cards":[{"id":"1"},{"id":"` + x(257) + `"}]}`, "/cards/*/id"},
		"64 KiB of text":              {`"c": {"at": "/cards/*/id", "text": true}, "k": {"at": "/class", "text": true}`, `{"class":"` + x(64<<10) + `","cards":[]}`, ""},
		"64 KiB and a byte":           {`"c": {"at": "/cards/*/id", "text": true}, "k": {"at": "/class", "text": true}`, `{"class":"` + x(64<<10+1) + `","cards":[]}`, "/class"},
		"64 KiB of escaped text":      {`"k": {"at": "/class", "text": true}`, `{"class":"` + strings.Repeat(`\n`, 64<<10) + `","cards":[]}`, ""},
		"over 512 KiB with the first": {`"c": {"at": "/cards/*/id", "text": true}, "k": "/class"`, `{"class":"z","cards":` + cards(9, x(60<<10)) + `}`, "/cards/*/id"},
	} {
		document := valueOf(t, factsOf(t, c.facts, c.output))
		for it := document.Iter(); it.Next(); {
			assert.Equal(t, string(it.Key()) == c.null, !it.Value().Exists(), "%s: %s", name, it.Key())
		}
	}
}

// The document is filled in the order of its keys: what is over 512 KiB is null, and a later fact
// that has room is not.
func TestFactsFill(t *testing.T) {
	t.Parallel()
	texts := `"c": {"at": "/cards/*/id", "text": true}, "k": {"at": "/class", "text": true}, "p": "/paid"`
	const cards, most = 8, contracts.MaxFacts
	fixed := len(`{"/cards/*/id":[` + strings.Repeat(`"",`, cards-1) + `""],"/class":null,"/paid":null}`)
	output := func(room int, class string) string {
		var list []string
		for i := range cards {
			n := (most - fixed - room) / cards
			if i == 0 {
				n += (most - fixed - room) % cards
			}
			list = append(list, `{"id":"`+strings.Repeat("x", n)+`"}`)
		}
		return `{"class":"` + class + `","paid":true,"cards":[` + strings.Join(list, ",") + `]}`
	}
	for _, c := range []struct {
		room  int
		class string
		size  int
		null  []string
	}{
		{0, "", most, []string{`"/paid":null`}},                // `[""]` is as long as null
		{-1, "", 0, []string{`"/cards/*/id":null`}},            // not even if all later ones are null
		{2, "", most, nil},                                     // [true] is two bytes longer than null
		{1, "", most - 1, []string{`"/paid":null`}},            // one byte is not enough
		{9, "12345678", most - 1, []string{`"/paid":null`}},    // the text has room, paid has not
		{9, "1234567890", most - 7, []string{`"/class":null`}}, // the text has none, paid has
		{10, "12345678", most, nil},
	} {
		document := factsOf(t, texts, output(c.room, c.class))
		var null []string
		for _, part := range []string{`"/cards/*/id":null`, `"/class":null`, `"/paid":null`} {
			if strings.Contains(document, part) {
				null = append(null, part)
			}
		}
		assert.Equal(t, c.null, null, "%+v", c)
		if c.size > 0 {
			assert.Len(t, document, c.size, "%+v", c)
		}
	}
}
