package guardian

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// deadInput has a value for each line of the table. u is of several types.
const deadInput = `"s":{"type":"string"},"n":{"type":"number"},"o":{"type":"string"},"u":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"}]},"l":{"type":"array","items":{"type":"string"}}`

// dead compiles two rules, in each of the layers, and reports whether the second is refused as
// dead.
func dead(t *testing.T, first, second string) bool {
	t.Helper()
	tools := toolText("t", deadInput, "s", "n", "u", "l")
	rules := fmt.Sprintf(`{"id":"one","deny":"t"%s},{"id":"two","deny":"t"%s}`, first, second)
	lists := `,"lists":{"ab":["a","b"],"abc":["a","b","c"],"some":[1,2]}`
	base := bundle("b", tools, ``)
	answers := map[bool]int{}
	for _, docs := range [][]string{
		{strings.Replace(bundle("b", tools, rules), `,"tools"`, lists+`,"tools"`, 1)},
		{base, floor("f", lists+`,"rules":[`+rules+`]`)},
		{base, overlay("o", lists+`,"rules":[`+rules+`]`)},
	} {
		var all []contracts.Document
		for _, text := range docs {
			all = append(all, document(t, "", text))
		}
		_, err := Compile(all...)
		var e *LoadError
		require.True(t, !errors.As(err, &e) || e.Pointer == "/rules/1" && strings.Contains(e.What,
			`can never decide: whenever it matches, "one"`) && e.Remedy == "put it before one, or remove it",
			"%s then %s: %v", first, second, err)
		answers[err != nil]++
	}
	assert.Len(t, answers, 1, "%s then %s: layers differ", first, second)
	return answers[true] > 0
}

// The published table, line by line: what is refused, and next to it what the procedure must be
// silent about.
func TestDead(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t, "dead", 85, "name", "first", "second", "dead") {
		assert.Equal(t, c["dead"], fmt.Sprint(dead(t, c["first"], c["second"])), "%s: dead", c["name"])
	}
}

// A rule is dead only if it is for each of its tools; whether it allows or denies is the same to
// it.
func TestDeadTools(t *testing.T) {
	t.Parallel()
	tools := toolText("t", `"s":{"type":"string"}`, "s") + "," + toolText("u", `"s":{"type":"string"}`, "s")
	for _, c := range []struct {
		rules string
		dead  string
	}{
		{`{"id":"a","deny":"t"},{"id":"b","deny":["t","u"]}`, ""},
		{`{"id":"a","deny":"t"},{"id":"b","deny":"u"}`, ""},
		{`{"id":"a","deny":"t"},{"id":"b","deny":"u"},{"id":"c","allow":["t","u"]}`, "/rules/2"},
		{`{"id":"a","deny":"t"},{"id":"b","deny":"u"},{"id":"c","deny":"*","when":{"arg":"/s","eq":"x"}}`, "/rules/2"},
		{`{"id":"a","allow":"t"},{"id":"b","deny":"t"}`, "/rules/1"},
		{`{"id":"a","allow":"t","when":{"caller":"roles","has":"clerk"}},{"id":"b","deny":"t"}`, ""},
		{`{"id":"a","deny":"*"},{"id":"b","allow":["t"]}`, "/rules/1"},
	} {
		_, err := Compile(document(t, "", bundle("b", tools, c.rules)))
		var e *LoadError
		assert.True(t, errors.As(err, &e) == (c.dead != "") && (e == nil || e.Pointer == c.dead), "%s: %v", c.rules,
			err)
	}
	// Documents are judged each by itself: one may say again what another says.
	mustCompile(t, bundle("b", tools, `{"id":"a","deny":"t"}`), floor("f", `,"rules":[{"id":"a","deny":"t"}]`),
		floor("g", `,"rules":[{"id":"a","deny":"t"}]`), overlay("o", `,"rules":[{"id":"a","deny":"*"}]`))
}

// deadGenerator makes conjuncts over small domains.
type deadGenerator struct{ generator }

func (g deadGenerator) conjunct() string {
	absent := pick(g.generator, `,"absent":true`, `,"absent":false`)
	text := func() string { return pick(g.generator, `"a"`, `"A"`, `"ab"`, `"b"`) }
	path := func() string { return pick(g.generator, `"/"`, `"/a"`, `"/a/b"`, `"/ab"`) }
	number := func() string { return pick(g.generator, `0`, `1`, `2`, `1.5`) }
	switch g.r.IntN(8) {
	case 0:
		return `{"arg":"/s","eq":` + text() + pick(g.generator, "", `,"fold":true`) + absent + `}`
	case 1:
		return `{"arg":"/s","in":[` + text() + `,` + text() + pick(g.generator, "]", `],"fold":true`) + absent + `}`
	case 2:
		return `{"arg":"/s","prefix":` + text() + pick(g.generator, "", `,"fold":true`) + absent + `}`
	case 3:
		return `{"arg":"/p","within":[` + path() + `,` + path() + `]` + absent + `}`
	case 4:
		return `{"arg":"/ip","cidr":` + pick(g.generator, `"10.0.0.0/8"`, `"10.1.0.0/16"`,
			`["10.1.0.0/16","11.0.0.0/8"]`, `"0.0.0.0/0"`, `"::/0"`) + absent + `}`
	case 5:
		return `{"arg":"/u","` + pick(g.generator, "lt", "le", "gt", "ge", "eq") + `":` + number() + absent + `}`
	case 6:
		return pick(g.generator, `{"arg":"/u","in":[1,2]`, `{"arg":"/u","in":["a","1"]`, `{"arg":"/u","eq":"1"`,
			`{"arg":"/u","in":[0,1,2]`) + absent + `}`
	}
	return `{"not":` + g.conjunct() + `}`
}

func (g deadGenerator) rule() string {
	var b strings.Builder
	switch g.r.IntN(4) {
	case 0, 1:
		b.WriteString(`,"when":` + g.conjunct())
	case 2:
		b.WriteString(`,"when":{"all":[` + g.conjunct() + `,` + g.conjunct() + `]}`)
	}
	if g.r.IntN(4) == 0 {
		b.WriteString(`,"unless":` + g.conjunct())
	}
	return b.String()
}

// Over all calls of a small domain, a rule that is refused as dead never decides. The brute force
// is the guardian itself, with the order of the two rules told apart by their ids: the second, put
// alone after the first, would have to be named once.
func TestDeadNeverDecides(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := deadGenerator{generator{rand.New(rand.NewPCG(21, 22))}}
	const input = `"s":{"type":"string"},"p":{"type":"string"},"ip":{"type":"string"},"u":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]}`
	base := func(rules string) string { return bundle("b", toolText("t", input), rules+`{"id":"end","allow":"t"}`) }
	var calls []contracts.Inputs
	values := [][]string{
		{``, `,"s":"a"`, `,"s":"A"`, `,"s":"ab"`, `,"s":"b"`, `,"s":"B"`, `,"s":""`},
		{``, `,"p":"/"`, `,"p":"/a"`, `,"p":"/a/b"`, `,"p":"/ab"`, `,"p":"bad"`},
		{``, `,"ip":"10.1.0.1"`, `,"ip":"10.2.0.1"`, `,"ip":"11.0.0.1"`, `,"ip":"::1"`, `,"ip":"bad"`},
		{``, `,"u":0`, `,"u":1`, `,"u":1.5`, `,"u":2`, `,"u":3`, `,"u":"1"`, `,"u":"a"`, `,"u":null`},
	}
	for _, s := range values[0] {
		for _, p := range values[1] {
			for _, ip := range values[2] {
				for _, u := range values[3] {
					calls = append(calls, inputs(t, "t", `{`+strings.TrimPrefix(s+p+ip+u, ",")+`}`))
				}
			}
		}
	}
	refused, alive, could := 0, 0, 0
	for range rounds(1000) {
		first, second := g.rule(), g.rule()
		if g.r.IntN(4) == 0 {
			second = first // equal texts are rare by chance
		}
		rules := `{"id":"one","deny":"t"` + first + `},{"id":"two","deny":"t"` + second + `},`
		_, err := Compile(document(t, "", base(rules)))
		if err != nil {
			var e *LoadError
			require.True(t, errors.As(err, &e) && strings.Contains(e.What, "can never decide") &&
				e.Pointer != "/rules/0", "%s: %v", rules, err)
			if e.Pointer == "/rules/2" {
				continue // a rule without condition makes the last one dead
			}
		}
		if err == nil && refused > rounds(200) && alive > rounds(300) {
			continue
		}
		// Alone, each rule compiles, unless it leaves the last none.
		one, err1 := Compile(document(t, "", bundle("b", toolText("t", input), `{"id":"one","deny":"t"`+first+`}`)))
		two, err2 := Compile(document(t, "", bundle("b", toolText("t", input), `{"id":"two","deny":"t"`+second+`}`)))
		require.True(t, err1 == nil && err2 == nil, "%s: %v, %v", rules, err1, err2)
		decides := ""
		for i := range calls {
			r1, _ := one.judged(calls[i], nil)
			if r1.Reason != contracts.ReasonNoPolicyDefined {
				continue // the first rule decides, or errs
			}
			if r2, _ := two.judged(calls[i], nil); r2.Reason != contracts.ReasonNoPolicyDefined {
				if r2.Reason == contracts.ReasonPolicyViolation {
					decides = string(calls[i].Args.Append(nil))
					break
				}
			}
		}
		switch {
		case err != nil && decides != "":
			t.Fatalf("%s\nis refused, though the second rule decides %s", rules, decides)
		case err != nil:
			refused++
		case decides == "":
			could++ // the procedure is silent if it cannot prove
		default:
			alive++
		}
	}
	t.Logf("%d refused, %d alive, %d not provable", refused, alive, could)
	assert.True(t, refused >= rounds(200) && alive >= rounds(200) && could != 0, "the property was hardly tested")
}

// Lists stand in many rules. Two that differ in one member of 10,000, a list next to a range, and
// long operands in pairs of rules: comparing them again for each pair takes minutes here. The test
// is that it ends.
func TestDeadLists(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	members, rules := rounds(10_000), rounds(800)
	words := make([]string, members)
	numbers := make([]string, members)
	for i := range words {
		words[i], numbers[i] = fmt.Sprintf(`"w%05d"`, i), fmt.Sprint(i+1)
	}
	list := func(members []string, last string) string { return strings.Join(members[1:], ",") + "," + last }
	lists := fmt.Sprintf(`,"lists":{"a":[%s],"b":[%s],"n":[%s]}`, list(words, `"a"`), list(words, `"b"`),
		list(numbers, "-1"))
	text := make([]string, rules)
	for i := range text {
		test := []string{`{"arg":"/s","in":{"list":"a"}}`, `{"arg":"/s","in":{"list":"b"}}`, `{"arg":"/n","ge":-1}`,
			`{"arg":"/n","in":{"list":"n"}}`}[i%4]
		text[i] = fmt.Sprintf(`{"id":"r%d","deny":"t","when":{"all":[%s,{"arg":"/o","eq":"%d"}]}}`, i, test, i)
	}
	paths := func(last string) string {
		out := make([]string, members)
		for i := range out {
			out[i] = fmt.Sprintf(`"/srv/%d"`, i)
		}
		return list(out, last)
	}
	for i := range 20 {
		text = append(text, fmt.Sprintf(`{"id":"p%d","deny":"t","when":{"arg":"/o","within":[%s]}}`, i,
			paths(fmt.Sprintf(`"/zzz/%d"`, i))))
	}
	some := strings.Join(words[:60], ",") + ","
	for i := range rounds(2000) {
		text = append(text, fmt.Sprintf(`{"id":"s%d","deny":"t","when":{"arg":"/s","in":[%s"z%d"]}}`, i, some, i))
	}
	compile := func(rules []string) error {
		text := bundle("b", toolText("t", deadInput, "s", "n", "o", "u", "l"), strings.Join(rules, ","))
		_, err := Compile(document(t, "", strings.Replace(text, `,"tools"`, lists+`,"tools"`, 1)))
		return err
	}
	require.NoError(t, compile(text))
	// What is remembered of two lists is the same for the last pair of rules as for the first.
	for _, test := range []string{`{"arg":"/s","in":{"list":"a"}}`, `{"arg":"/n","in":{"list":"n"}}`} {
		dead := fmt.Sprintf(`{"id":"dead","deny":"t","when":{"all":[%s,{"arg":"/o","eq":"%d"}]}}`, test,
			map[bool]int{true: 0, false: 2}[strings.Contains(test, "/s")])
		err := compile(append(text[:len(text):len(text)], dead))
		assert.True(t, err != nil && strings.Contains(err.Error(), "can never decide"), "%s: %v", dead, err)
	}
}
