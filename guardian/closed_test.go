package guardian

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/race"
)

// A second evaluator of predicates, as plain as can be: it knows nothing of slots, sets or
// polarity, and works on what encoding/json reads.
type model struct {
	args   map[string]any
	caller contracts.Caller
}

func (m *model) get(v any, pointer string) (any, bool) {
	for _, seg := range strings.Split(pointer, "/")[1:] {
		o, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = o[seg]; !ok {
			return nil, false
		}
	}
	return v, v != nil
}

func (m *model) eval(p map[string]any, element any) program.Answer {
	if list, ok := p["all"].([]any); ok {
		for _, kid := range list {
			if a := m.eval(kid.(map[string]any), element); a != program.Yes {
				return a
			}
		}
		return program.Yes
	}
	if list, ok := p["any"].([]any); ok {
		for _, kid := range list {
			if a := m.eval(kid.(map[string]any), element); a != program.No {
				return a
			}
		}
		return program.No
	}
	if kid, ok := p["not"].(map[string]any); ok {
		switch m.eval(kid, element) {
		case program.Yes:
			return program.No
		case program.No:
			return program.Yes
		}
		return program.Failed
	}
	for _, q := range []string{"every", "some", "count"} {
		if pointer, ok := p[q].(string); ok {
			return m.quantify(p, q, pointer)
		}
	}
	if role, ok := p["has"].(string); ok {
		return program.AnswerOf(slices.Contains(m.caller.Roles, role))
	}
	var v any
	var there bool
	switch {
	case p["arg"] != nil:
		v, there = m.get(m.args, p["arg"].(string))
	case p["item"] != nil:
		v, there = m.get(element, p["item"].(string))
	default:
		v, there = element, element != nil
	}
	if exists, ok := p["exists"].(bool); ok {
		return program.AnswerOf(there == exists)
	}
	if !there {
		absent, ok := p["absent"].(bool)
		if !ok {
			return program.Failed
		}
		return program.AnswerOf(absent)
	}
	return m.leaf(p, v)
}

func (m *model) quantify(p map[string]any, q, pointer string) program.Answer {
	v, there := m.get(m.args, pointer)
	if !there {
		absent, ok := p["absent"].(bool)
		if !ok {
			return program.Failed
		}
		return program.AnswerOf(absent)
	}
	list, ok := v.([]any)
	if !ok {
		return program.Failed
	}
	count := 0
	for _, e := range list {
		a := program.Yes
		if that, ok := p["that"].(map[string]any); ok {
			a = m.eval(that, e)
		}
		switch {
		case a == program.Failed:
			return program.Failed
		case q == "every" && a == program.No:
			return program.No
		case q == "some" && a == program.Yes:
			return program.Yes
		case a == program.Yes:
			count++
		}
	}
	if q == "count" {
		return m.leaf(p, float64(count))
	}
	return program.AnswerOf(q == "every")
}

func (m *model) leaf(p map[string]any, v any) program.Answer {
	text, isText := v.(string)
	n, isNumber := v.(float64)
	for op, x := range p {
		switch op {
		case "eq", "ne":
			if fmt.Sprintf("%T", x) != fmt.Sprintf("%T", v) {
				return program.Failed
			}
			same := x == v
			if p["fold"] == true {
				same = strings.EqualFold(x.(string), text)
			}
			return program.AnswerOf(same == (op == "eq"))
		case "in", "not_in":
			list := x.([]any)
			if fmt.Sprintf("%T", list[0]) != fmt.Sprintf("%T", v) {
				return program.Failed
			}
			return program.AnswerOf(slices.Contains(list, v) == (op == "in"))
		case "lt", "gt":
			if !isNumber {
				return program.Failed
			}
			return program.AnswerOf(op == "lt" && n < x.(float64) || op == "gt" && n > x.(float64))
		case "type":
			return program.AnswerOf(x == map[string]string{"string": "string", "float64": "number", "bool": "boolean",
				"[]interface {}": "array"}[fmt.Sprintf("%T", v)])
		case "prefix", "suffix", "regex", "within", "cidr", "email":
			if !isText {
				return program.Failed
			}
			return m.text(op, text, x.(string))
		}
	}
	panic(fmt.Sprint("the model does not know ", p))
}

func (m *model) text(op, v, x string) program.Answer {
	switch op {
	case "prefix":
		return program.AnswerOf(strings.HasPrefix(v, x))
	case "suffix":
		return program.AnswerOf(strings.HasSuffix(v, x))
	case "regex":
		return program.AnswerOf(regexp.MustCompile("^(?:" + x + ")$").MatchString(v))
	case "within":
		if !strings.HasPrefix(v, "/") || v != "/" && slices.ContainsFunc(strings.Split(v[1:], "/"),
			func(s string) bool { return s == "" || s == "." || s == ".." }) {
			return program.Failed
		}
		return program.AnswerOf(v == x || strings.HasPrefix(v, x+"/"))
	case "email":
		local, domain, ok := strings.Cut(v, "@")
		if !ok || local == "" || !regexp.MustCompile(`^[a-z.]+$`).MatchString(strings.ToLower(domain)) ||
			strings.ContainsAny(local, " <>@") {
			return program.Failed
		}
		return program.AnswerOf(strings.EqualFold(domain, x))
	}
	a, err := netip.ParseAddr(v)
	if err != nil {
		return program.Failed
	}
	return program.AnswerOf(netip.MustParsePrefix(x).Contains(a.Unmap()))
}

// A generator makes random predicates that fit the tool below, and random arguments that may not
// fit the predicates.
type generator struct{ r *rand.Rand }

func pick[T any](g generator, list ...T) T { return list[g.r.IntN(len(list))] }

// fields of the tool: r is required, o optional, z may be null, u of any type, l a list.
const fields = `"r":{"type":"string"},"o":{"type":"string"},"z":{"type":["string","null"]},"n":{"type":"number"},"on":{"type":"number"},` +
	`"u":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"array","items":{"type":"string"}},{"type":"null"}]},` +
	`"l":{"type":"array","items":{"type":"string"}},"ol":{"type":"array","items":{"type":["string","null"]}},` +
	`"rows":{"type":"array","items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"number"}}}}`

var words = []string{"a", "A", "ab", "/srv", "/srv/x", "/srv-evil", "/srv/../x", "", "ann@corp.com", "ann@CORP.com",
	"ann@evil.org", "x@y@corp.com", "10.0.0.1", "11.0.0.1", "::ffff:10.0.0.1", "10.0.0", "é\n\""}

func (g generator) text() string { return quoteJSON(pick(g, words...)) }

func quoteJSON(s string) string { b, _ := json.Marshal(s); return string(b) }

func (g generator) textTest() string {
	switch g.r.IntN(10) {
	case 0:
		return `"eq":` + g.text()
	case 1:
		return `"ne":` + g.text()
	case 2:
		return `"in":[` + g.text() + `,` + g.text() + `]`
	case 3:
		return `"not_in":[` + g.text() + `,"zz"]`
	case 4:
		return `"prefix":"a"`
	case 5:
		return `"suffix":"b"`
	case 6:
		return `"regex":"[a-c]+|/srv"`
	case 7:
		return `"within":"/srv"`
	case 8:
		return `"cidr":"10.0.0.0/8"`
	}
	return pick(g, `"email":"corp.com"`, `"eq":`+g.text()+`,"fold":true`)
}

func (g generator) numberTest() string {
	return pick(g, `"lt":1`, `"gt":1`, `"eq":1`, `"ne":2`, `"in":[1,2]`, `"not_in":[1]`)
}

func (g generator) absent() string { return pick(g, `,"absent":true`, `,"absent":false`) }

func (g generator) leaf() string {
	switch g.r.IntN(12) {
	case 0, 1:
		return `{"arg":"/r",` + g.textTest() + `}`
	case 2, 3:
		return `{"arg":"` + pick(g, "/o", "/z") + `",` + g.textTest() + g.absent() + `}`
	case 4:
		return `{"arg":"/n",` + g.numberTest() + `}`
	case 5:
		return `{"arg":"/on",` + g.numberTest() + g.absent() + `}`
	case 6, 7:
		return `{"arg":"/u",` + pick(g, g.textTest(), g.numberTest(), `"type":"string"`, `"type":"number"`,
			`"eq":true`) + g.absent() + `}`
	case 8:
		return `{"arg":"` + pick(g, "/o", "/z", "/u", "/ol") + `","exists":` + pick(g, "true", "false") + `}`
	case 9:
		return `{"caller":"roles","has":"` + pick(g, "clerk", "admin") + `"}`
	case 10:
		return `{"` + pick(g, "every", "some") + `":"/l","that":{` + g.textTest() + `}}`
	}
	return pick(g,
		`{"every":"/ol","that":{`+g.textTest()+g.absent()+`}`+g.absent()+`}`,
		`{"some":"/rows","that":{"any":[{"item":"/a",`+g.textTest()+`},{"item":"/b",`+g.numberTest()+g.absent()+`}]}}`,
		`{"count":"/l","gt":1,"that":{`+g.textTest()+`}}`,
		`{"every":"/u","that":{`+g.textTest()+`}`+g.absent()+`}`,
		`{"count":"/ol","lt":1`+g.absent()+`}`)
}

func (g generator) predicate(depth int) string {
	if depth == 0 || g.r.IntN(3) == 0 {
		return g.leaf()
	}
	switch g.r.IntN(3) {
	case 0:
		return `{"not":` + g.predicate(depth-1) + `}`
	case 1:
		return `{"all":[` + g.predicate(depth-1) + `,` + g.predicate(depth-1) + `]}`
	}
	return `{"any":[` + g.predicate(depth-1) + `,` + g.predicate(depth-1) + `]}`
}

// args breaks the schema now and then: an argument is missing, null or of another type.
func (g generator) args() string {
	value := func() string {
		return pick(g, g.text(), g.text(), `1`, `2.5`, `true`, `null`, `["a","/srv"]`, `[]`, `{}`)
	}
	members := map[string]func() string{
		"r": g.text, "n": func() string { return pick(g, "1", "2", "0.5") },
		"l":    func() string { return pick(g, `[]`, `[`+g.text()+`]`, `[`+g.text()+`,`+g.text()+`]`) },
		"rows": func() string { return pick(g, `[]`, `[{"a":`+g.text()+`}]`, `[{"a":`+g.text()+`,"b":1},{"a":"a"}]`) },
		"o":    g.text, "z": func() string { return pick(g, g.text(), "null") },
		"on": func() string { return pick(g, "1", "3") },
		"u":  value, "ol": func() string { return pick(g, `[]`, `[null]`, `[`+g.text()+`,null]`) },
	}
	var out []string
	for _, name := range []string{"l", "n", "o", "ol", "on", "r", "rows", "u", "z"} {
		optional := strings.Contains("o ol on u z", name)
		switch chance := g.r.IntN(40); {
		case chance == 0, optional && chance < 15: // missing
		case chance == 15:
			out = append(out, `"`+name+`":`+value())
		default:
			out = append(out, `"`+name+`":`+members[name]())
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// After a deny that matches or cannot be evaluated, for whatever reason, a broad allow never
// allows; and the verdict is that of the model.
func TestFailClosed(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := generator{rand.New(rand.NewPCG(11, 12))}
	seen := map[contracts.ReasonCode]int{}
	for range rounds(1500) {
		when, unless := g.predicate(3), ""
		if g.r.IntN(4) == 0 {
			unless = g.predicate(2)
		}
		rule := `{"id":"d","deny":"t","when":` + when + `}`
		if unless != "" {
			rule = `{"id":"d","deny":"t","when":` + when + `,"unless":` + unless + `}`
		}
		p := mustCompile(t, bundle("b", toolText("t", fields, "r", "n", "l", "rows"), rule+`,{"id":"all","allow":"t"}`))
		for range 20 {
			args := g.args()
			in := inputs(t, "t", args)
			r, why := p.judged(in, nil)
			seen[r.Reason]++
			m := model{caller: in.Caller}
			require.NoError(t, json.Unmarshal([]byte(args), &m.args))
			a := m.eval(parsed(t, when), nil)
			if a == program.Yes && unless != "" {
				switch m.eval(parsed(t, unless), nil) {
				case program.Yes:
					a = program.No
				case program.Failed:
					a = program.Failed
				}
			}
			expect := map[program.Answer]contracts.ReasonCode{program.Yes: contracts.ReasonPolicyViolation,
				program.No: contracts.ReasonAllow, program.Failed: contracts.ReasonFailClosedError}[a]
			if r.Reason == contracts.ReasonSchemaViolation {
				expect = r.Reason // whatever the predicate says
			}
			require.True(t, r.Reason == expect && bool(r.Verdict) == (expect == contracts.ReasonAllow),
				"%s\non %s\ngave %v (%s), want %v", rule, args, r.Reason, why, expect)
		}
	}
	atLeast(t, seen, rounds(1000), []contracts.ReasonCode{contracts.ReasonPolicyViolation, contracts.ReasonAllow,
		contracts.ReasonFailClosedError, contracts.ReasonSchemaViolation})
}

func parsed(t testing.TB, text string) (p map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	return p
}

// The same by name: a broad allow next to one deny, and what may be wrong with its argument.
func TestBroadAllowBesideDeny(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t, "broad_allow", 17, "schema", "deny", "args") {
		p := mustCompile(t, bundle("b", toolText("t", c["schema"], "v"),
			`{"id":"d","deny":"t","when":`+c["deny"]+`},{"id":"all","allow":"t"}`))
		if r, _ := p.judged(inputs(t, "t", c["args"]), nil); r.Verdict != contracts.Deny {
			t.Errorf("%s on %s gave %v", c["deny"], c["args"], r.Reason)
		}
	}
}
