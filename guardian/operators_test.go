package guardian

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// Schemas of /v.
const (
	str    = `{"type":"string"}`
	num    = `{"type":"number"}`
	boole  = `{"type":"boolean"}`
	null   = `{"type":["string","null"]}`
	either = `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"array","items":{"type":"string"}}]}`
	strs   = `{"type":"array","items":{"type":"string"}}`
	nums   = `{"type":"array","items":{"type":"number"}}`
	rows   = `{"type":"array","items":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"n":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}}}}}`
	grid   = `{"type":"array","items":{"type":"object","required":["tags"],"properties":{"tags":{"type":"array","items":{"type":"string"}}}}}`
)

// An operator case: what a predicate about /v answers. In answers, y is true, n false, e an error.
type opCase struct {
	pred    string
	schema  string // of /v; with ? before it /v is optional
	answers map[string]string
}

const gone = "(gone)"

// readOperators reads the operator cases of testdata.
func readOperators(t testing.TB) (list []opCase) {
	schemas := map[string]string{"str": str, "num": num, "boole": boole, "null": null, "either": either, "strs": strs,
		"nums": nums, "rows": rows, "grid": grid}
	for _, c := range readCases(t, "operators", 130, "pred", "schema", "yes*", "no*", "error*") {
		schema := strings.TrimPrefix(c["schema"], "?")
		op := opCase{c["pred"], strings.Replace(c["schema"], schema, cmp.Or(schemas[schema], schema), 1),
			map[string]string{}}
		for answer, field := range map[string]string{"y": "yes", "n": "no", "e": "error"} {
			for _, v := range c.lines(field) {
				op.answers[v] = answer
			}
		}
		list = append(list, op)
	}
	return list
}

// around is a bundle with one tool t, and one rule about /v before a broad allow. Other arguments:
// w is "w", W too, n is 7, o is missing.
func around(schema, rule string) string {
	required := `["v","w","W2","n"]`
	if rest, optional := strings.CutPrefix(schema, "?"); optional {
		schema, required = rest, `["w","n","W2"]`
	}
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"lists":{"names":["x","y"]},
		"tools":{"t":{"effect":"read","input":{"type":"object","required":` + required + `,"properties":{
			"v":` + schema + `,"w":{"type":"string"},"W2":{"type":"string"},"n":{"type":"number"},"o":{"type":"string"}}}}},
		"rules":[` + rule + `,{"id":"all","allow":"t"}]}`
}

func argsWith(v string) string {
	v = `"v":` + v + `,`
	if strings.Contains(v, gone) {
		v = ""
	}
	return `{` + v + `"w":"w","W2":"W","n":7}`
}

// Each operator says yes, no or error to each value; not turns the first two round and leaves the
// error; after an error no allow is reached.
func TestOperators(t *testing.T) {
	t.Parallel()
	checks := 0
	for _, c := range readOperators(t) {
		pred := strings.ReplaceAll(c.pred, `"/W"`, `"/W2"`)
		when := mustCompile(t, around(c.schema, `{"id":"x","deny":"t","when":`+pred+`}`))
		unless := mustCompile(t, around(c.schema, `{"id":"x","deny":"t","unless":`+pred+`}`))
		for v, answer := range c.answers {
			in := inputs(t, "t", argsWith(v))
			require.Equal(t, "", in.ArgsForm, "%s: %s is no JSON", c.pred, v)
			checks++
			// /o is missing: where the case refers to it the answer is that of absent, whatever /v
			// is.
			if strings.Contains(c.pred, `"/o"`) {
				answer = map[bool]string{true: "y", false: "n"}[strings.Contains(c.pred, `"absent":true`)]
			}
			deny, allow := want{contracts.ReasonPolicyViolation, 5, "P1:b:x"},
				want{contracts.ReasonAllow, 8, "P1:b:all"}
			fails := want{contracts.ReasonFailClosedError, 5, ""}
			results := map[string][2]want{"y": {deny, allow}, "n": {allow, deny}, "e": {fails, fails}}[answer]
			before := t.Failed()
			results[0].check(t, when, in)
			results[1].check(t, unless, in)
			require.False(t, t.Failed() && !before, "%s on %s, want %s", c.pred, v, answer)
		}
	}
	assert.True(t, checks >= 450, "only %d checks", checks)
}

// finds may only restrict, so it has no unless to be tried in.
func TestFinds(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, around(str, `{"id":"x","deny":"t","when":{"arg":"/v","finds":"https?://|www[.]"}}`))
	for v, found := range map[string]bool{`"see http://x"`: true, `"www.x"`: true, `"wwwx"`: false, `""`: false,
		`"a\nhttps://"`: true} {
		if found {
			want{contracts.ReasonPolicyViolation, 5, "P1:b:x"}.check(t, p, inputs(t, "t", argsWith(v)))
		} else {
			want{contracts.ReasonAllow, 8, "P1:b:all"}.check(t, p, inputs(t, "t", argsWith(v)))
		}
	}
	union := mustCompile(t, around(either, `{"id":"x","deny":"t","when":{"arg":"/v","finds":"x"}}`))
	want{contracts.ReasonFailClosedError, 5, ""}.check(t, union, inputs(t, "t", argsWith(`5`)))
}

// Callers who are nobody, or have no roles.
func TestAnonymousCaller(t *testing.T) {
	t.Parallel()
	for pred, denied := range map[string]bool{
		`{"caller":"id","eq":"ann","absent":true}`:                             true,
		`{"caller":"id","eq":"ann","absent":false}`:                            false,
		`{"caller":"tenant","not_in":["acme"],"absent":true}`:                  true,
		`{"caller":"tenant","prefix":"a","absent":false}`:                      false,
		`{"caller":"roles","has":"clerk"}`:                                     false,
		`{"not":{"caller":"roles","has":"clerk"}}`:                             true,
		`{"arg":"/v","eq":{"caller":"id"},"absent":true}`:                      true,
		`{"arg":"/v","ne":{"caller":"tenant"},"absent":false}`:                 false,
		`{"some":"/l","that":{"eq":{"caller":"id"},"absent":true}}`:            true,
		`{"every":"/l","that":{"item":"","eq":{"caller":"id"},"absent":true}}`: true,
	} {
		text := bundle("b", toolText("t", `"v":`+str+`,"l":`+strs, "v", "l"),
			`{"id":"x","deny":"t","when":`+pred+`},{"id":"all","allow":"t"}`)
		in := inputs(t, "t", `{"v":"ann","l":["a"]}`)
		in.Caller = contracts.Caller{}
		w := want{contracts.ReasonAllow, 8, "P1:b:all"}
		if denied {
			w = want{contracts.ReasonPolicyViolation, 5, "P1:b:x"}
		}
		w.check(t, mustCompile(t, text), in)
		require.False(t, t.Failed(), "%v", pred)
	}
}
