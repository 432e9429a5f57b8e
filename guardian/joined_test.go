package guardian

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/several"
)

// listed returns the texts of the errors that an error joins.
func listed(t testing.TB, err error) (list []string) {
	t.Helper()
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
		require.Greater(t, len(errs), 1, "one error needs no list")
	}
	for _, err := range errs {
		require.IsType(t, &LoadError{}, err)
		list = append(list, err.Error())
	}
	return list
}

// A spoilt stack is one that is good but for the first of its documents.
type spoilt struct {
	text   string
	others []string
	old    string // what of a good document was replaced
}

func (s spoilt) errors(t testing.TB) []string {
	t.Helper()
	docs := []contracts.Document{document(t, "spoilt", s.text)}
	for i, text := range s.others {
		docs = append(docs, document(t, fmt.Sprint("other ", i), text))
	}
	p, err := Compile(docs...)
	require.Nil(t, p)
	require.Error(t, err, s.text)
	return listed(t, err)
}

// One fault is one error, whatever follows from it: that of each table of refusals.
func TestOneFaultOneError(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	labels := floor("labels", labelled)
	var all []spoilt
	add := func(good string, others []string, list []refusal) {
		for _, c := range list {
			all = append(all, spoilt{strings.Replace(good, c.old, c.new, 1), others, c.old})
		}
	}
	add(good, nil, slices.Concat(readRefusals(t, "bundle_refusals", 247), longRefusals, unsupportedKeys()))
	both := readRefusals(t, "layer_refusals", 56)
	add(goodFloor, []string{house, labels}, append(readRefusals(t, "floor_refusals", 45), both...))
	add(goodOverlay, []string{house, labels}, append(readRefusals(t, "overlay_refusals", 15), both...))
	add(house, []string{labels}, readRefusals(t, "surface_refusals", 13))
	// Floors and overlays are not to blame for a bundle that is wrong.
	add(house, []string{labels, goodFloor, goodOverlay}, readRefusals(t, "surface_refusals", 13))
	add(bank(goodBudget), nil, readRefusals(t, "budget_refusals", 37))
	add(bankText(goodRequirement, ``), nil, readRefusals(t, "requirement_refusals", 84))
	twice := 0
	for _, s := range all {
		errs := s.errors(t)
		if strings.Contains(s.text, `"lists2"`) { // it has two faults
			assert.Len(t, errs, 2)
			twice++
			continue
		}
		assert.Len(t, errs, 1, s.text)
	}
	assert.Equal(t, 1, twice)
}

// Of two faults both are reported, and nothing that neither of them alone is reported for.
func TestTwoFaults(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	labels := floor("labels", labelled)
	r := rand.New(rand.NewPCG(61, 62))
	bundles := slices.DeleteFunc(readRefusals(t, "bundle_refusals", 247), func(c refusal) bool {
		// Of another tool, or under another name, the other fault is another.
		return strings.Contains(c.new, `"deny": "*"`) || strings.Contains(c.new, `"u v"`)
	})
	floors := append(readRefusals(t, "floor_refusals", 45), readRefusals(t, "layer_refusals", 56)...)
	houses := readRefusals(t, "surface_refusals", 13)
	both := 0
	check := func(one, other, two spoilt) {
		first, second := one.errors(t), other.errors(t)
		found := two.errors(t)
		for _, e := range found {
			require.True(t, slices.Contains(first, e) || slices.Contains(second, e),
				"%s\nfollows from\n%s\nand\n%s", e, strings.Join(first, "\n"), strings.Join(second, "\n"))
		}
		if slices.Contains(found, first[0]) && slices.Contains(found, second[0]) {
			both++
		}
	}
	n := rounds(3000)
	for range n {
		a, b := bundles[r.IntN(len(bundles))], bundles[r.IntN(len(bundles))]
		text := strings.Replace(good, a.old, a.new, 1)
		if a.old == b.old || strings.Count(text, b.old) != 1 || strings.Contains(a.new, b.old) {
			both++ // the second fault would be within the first
			continue
		}
		two := spoilt{text: strings.Replace(text, b.old, b.new, 1)}
		if !json.Valid([]byte(two.text)) {
			both++
			continue
		}
		check(spoilt{text: text}, spoilt{text: strings.Replace(good, b.old, b.new, 1)}, two)
	}
	assert.Greater(t, both, n*3/4, "of two faults of a bundle")
	both = 0
	for _, f := range floors {
		for _, h := range houses {
			under, in := strings.Replace(goodFloor, f.old, f.new, 1), strings.Replace(house, h.old, h.new, 1)
			one, other := spoilt{
				text:   under,
				others: []string{house, labels},
			}, spoilt{
				text:   in,
				others: []string{goodFloor, labels},
			}
			two := spoilt{text: under, others: []string{in, labels}}
			first, second, found := one.errors(t), other.errors(t), two.errors(t)
			for i := range second { // its name is another in the stack of both
				second[i] = strings.Replace(second[i], "spoilt", "other 0", 1)
			}
			for _, e := range found {
				require.True(
					t,
					slices.Contains(first, e) || slices.Contains(second, e),
					"%s\nfollows from\n%s\nand\n%s",
					e,
					strings.Join(first, "\n"),
					strings.Join(second, "\n"),
				)
			}
			if slices.Contains(found, first[0]) && slices.Contains(found, second[0]) {
				both++
			}
		}
	}
	assert.Greater(t, both, len(floors)*len(houses)*3/4, "of a fault of the floor and one of the bundle")
}

// Errors stand in the order of the stack, and in that of each document.
func TestErrorsInOrder(t *testing.T) {
	t.Parallel()
	in := document(t, "bundle", `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":0},`+
		`"rules":[{"id":"r","deny":"nope"},{"id":"r","allow":"t","when":{"arg":"/v","eq":1}}],`+
		`"tools":{"t":{"effect":"read","input":{"type":"object","properties":{"v":{"type":"string"}}}}}}`)
	in.Lines = map[string]contracts.Pos{"": at(1, 1), "/bundle/version": at(1, 30), "/rules/1/id": at(3, 7),
		"/rules/1/when": at(3, 30), "/rules/0/deny": at(2, 17)}
	under := document(t, "under", floor("f", `,"only":["none"],"rule":[]`))
	over := document(
		t,
		"over",
		overlay("o", `,"only":["none"],"rules":[{"id":"a","deny":"t","when":{"arg":"/w","eq":1}}]`),
	)
	unread := document(t, "unread", `{"layer":"P1"}`)
	want := []string{
		`under: /rule: unknown key "rule"; did you mean rules?`,
		`under: /only/0: no tool "none" in this stack; name a tool that a bundle of the stack declares`,
		`bundle:1:30: /bundle/version: not a version; write an integer from 1 on`,
		`bundle:2:17: /rules/0/deny: no tool "nope" in this bundle; a bundle's rules name its own tools`,
		`bundle:3:7: /rules/1/id: a second rule of id "r"; choose another: ` +
			`rules, requirements and budgets are told apart by it`,
		`bundle:3:30: /rules/1/when/eq: eq with this operand takes number, and the value is string in a ` +
			`call of t; use an operator and operand for it`,
		`over: /rules/0/when/arg: no "/w" in the input of t; name what the schema declares`,
		`over: /only/0: no tool "none" in this stack; name a tool that a bundle of the stack declares`,
	}
	docs := []contracts.Document{in, under, over}
	for range 6 {
		rand.Shuffle(len(docs), func(i, k int) { docs[i], docs[k] = docs[k], docs[i] })
		_, err := Compile(docs...)
		got := listed(t, err)
		require.Equal(t, want, got)
		assert.Equal(t, strings.Join(want, "\n"), err.Error())
		var e *LoadError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, want[0], e.Error())
	}
	// A document that cannot be read may be the bundle of tools that are not found.
	_, err := Compile(append(docs, unread)...)
	got := listed(t, err)
	assert.Equal(t, `unread: no helm; add helm`, got[0])
	assert.NotContains(t, err.Error(), "none")
	assert.Contains(t, got, want[0])
	assert.Contains(t, got, want[6])
}

// What follows from another error is not an error of its own.
func TestNoErrorFollows(t *testing.T) {
	t.Parallel()
	v, w := toolText("t", `"v":{"type":"string"}`, "v"), toolText("u", `"v":{"type":"string"}`)
	allow := `{"id":"all","allow":["t","u"]}`
	broken := strings.Replace(v, `"type":"string"`, `"type":"strong"`, 1)
	use := `{"id":"r","deny":["t","u"],"when":{"arg":"/v","eq":"x","absent":true}},` + allow
	lists := func(key string) string {
		return strings.Replace(bundle("b", v, `{"id":"r","allow":"t","when":{"arg":"/v","in":{"list":"l"}}}`),
			`"tools"`, key+`,"tools"`, 1)
	}
	labels := func(keys string) []string {
		return []string{strings.Replace(bundle("b", v, ``), `"effect"`, `"labels":["web"],"effect"`, 1),
			floor("f", keys)}
	}
	version := strings.Replace(bundle("b", v+","+w, use), `"version":1`, `"version":2`, 1)
	cases := map[string]struct {
		docs []string
		want []string // where
	}{
		"rules of a tool whose input is refused": {[]string{bundle("b", broken+","+w, use)},
			[]string{"/tools/t/input/properties/v/type"}},
		"rules of a tool that is no object": {[]string{bundle("b", `"t":7,`+w, use)}, []string{"/tools/t"}},
		"rules when tools are none": {
			[]string{strings.Replace(bundle("b", v, use), `"tools":{`, `"tool":{`, 1)},
			[]string{"/tool"},
		},
		"rules when tools are a list": {
			[]string{strings.Replace(bundle("b", ``, use), `"tools":{}`, `"tools":[]`, 1)}, []string{"/tools"}},
		"absent is needed for a tool that is refused": {
			[]string{bundle("b", v+","+strings.Replace(w, `"type":"string"`, `"type":"strong"`, 1), use)},
			[]string{"/tools/u/input/properties/v/type"}},
		"a list of another name": {[]string{lists(`"list":{"l":["x"]}`)}, []string{"/list"}},
		"lists that are none":    {[]string{lists(`"lists":7`)}, []string{"/lists"}},
		"a list that is refused": {[]string{lists(`"lists":{"l":[]}`)}, []string{"/lists/l"}},
		"labels of another name": {labels(`,"label":["web"]`), []string{"/label"}},
		"labels that are none":   {labels(`,"labels":{"web":true}`), []string{"/labels"}},
		"labels of a floor unread": {
			[]string{labels(``)[0], `{"helm":"policy/v1","layer":"P9","labels":["web"]}`},
			[]string{"/layer"},
		},
		"classes of a bundle unread": {
			[]string{
				strings.Replace(bundle("b", v, ``), `"helm"`, `"hulm"`, 1),
				floor("f", `,"only":["t","x*"],"rules":[{"id":"r","deny":{"effects":["read"]}}]`),
			},
			[]string{"/hulm"},
		},
		"a class of a tool unread": {
			[]string{
				bundle("b", strings.Replace(v, `"read"`, `"raed"`, 1), ``),
				floor("f", `,"rules":[{"id":"r","deny":{"egress":true},"when":{"arg":"/x","eq":"y"}}]`),
			},
			[]string{"/tools/t/effect"},
		},
		"two versions of a bundle": {[]string{bundle("b", v+","+w, use), version}, []string{"/bundle/name"}},
		"a place, wrong in many tools": {
			[]string{bundle("b", v+","+w, `{"id":"r","deny":["t","u"],"when":{"arg":"/x","eq":"y"}},`+allow)},
			[]string{"/rules/0/when/arg"},
		},
		"a key, wrong in many tools": {
			[]string{bundle("b", v+","+w, `{"id":"r","deny":["t","u"],"when":{"arg":"/v","eqq":"y"}},`+allow)},
			[]string{"/rules/0/when/eqq"},
		},
		"dead, if it were as it is written": {[]string{bundle("b", broken+","+w,
			`{"id":"a","deny":"t"},{"id":"b","deny":"t","when":{"arg":"/v","eq":5}},`+allow)},
			[]string{"/tools/t/input/properties/v/type"}},
	}
	for name, c := range cases {
		var docs []contracts.Document
		for i, text := range c.docs {
			docs = append(docs, document(t, fmt.Sprint(i), text))
		}
		p, err := Compile(docs...)
		require.Error(t, err, name)
		assert.Nil(t, p, name)
		var places []string
		for _, err := range several.All(err) {
			places = append(places, err.(*LoadError).Pointer)
		}
		assert.Equal(t, c.want, places, "%s: %v", name, err)
	}
}

// Circles are refused once, and what waits for them is not.
func TestCirclesOnce(t *testing.T) {
	t.Parallel()
	need := func(id, tool, other string) string {
		return `{"id":"` + id + `","tools":["` + tool + `"],"all":[{"receipt":"` + other + `"}]}`
	}
	var tools []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		tools = append(tools, toolText(name, ``))
	}
	base := bundle("m", strings.Join(tools, ","), `{"id":"all","allow":["a","b","c","d"]}`)
	for _, c := range []struct{ requires, want []string }{
		{[]string{need("x", "a", "b"), need("y", "b", "a")}, []string{"/requires/0"}},
		{[]string{need("x", "a", "b"), need("y", "b", "a"), need("z", "c", "a")}, []string{"/requires/0"}},
		{[]string{need("z", "c", "a"), need("x", "a", "b"), need("y", "b", "a")}, []string{"/requires/0"}},
		{[]string{need("x", "a", "b"), need("y", "b", "a"), need("z", "c", "d"), need("w", "d", "c")},
			[]string{"/requires/0", "/requires/2"}},
		{[]string{need("x", "a", "e"), need("y", "b", "e"), need("z", "c", "a")}, []string{"/requires/0", "/requires/1"}},
		{[]string{need("x", "a", "e"), need("y", "a", "b"), need("z", "b", "a")}, []string{"/requires/0", "/requires/1"}},
	} {
		text := strings.Replace(base, `"rules"`, `"requires":[`+strings.Join(c.requires, ",")+`],"rules"`, 1)
		_, err := Compile(document(t, "m", text))
		var places []string
		for _, err := range several.All(err) {
			assert.ErrorContains(t, err, "can never be met")
			places = append(places, err.(*LoadError).Pointer)
		}
		assert.Equal(t, c.want, places, "%v: %v", c.requires, err)
	}
}

// However many errors a document has, 20 are listed, and none is long.
func TestErrorsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1<<18)
	var keys, rules []string
	for i := range 25 {
		keys = append(keys, fmt.Sprintf(`"%s%d":0`, long, i))
		rules = append(rules, fmt.Sprintf(`{"id":"r%d","deny":"nope"}`, i))
	}
	_, err := Compile(document(t, "b", strings.Replace(bundle("b", toolText("t", ``), strings.Join(rules, ",")),
		`"helm"`, strings.Join(keys, ",")+`,"helm"`, 1)))
	assert.Len(t, listed(t, err), several.Most)
	assert.True(t, strings.HasSuffix(err.Error(), "\nand 30 more"), err.Error()[max(0, len(err.Error())-80):])
	assert.Less(t, len(err.Error()), 64<<10)
	// A rule about many tools is one place.
	var tools []string
	for i := range 300 {
		tools = append(tools, toolText(fmt.Sprint("t", i), fmt.Sprintf(`"v%d":{"type":"string"}`, i)))
	}
	_, err = Compile(document(t, "b", bundle("b", strings.Join(tools, ","),
		`{"id":"a","deny":"*","when":{"all":[{"arg":"/x","eq":1},{"arg":"/y","eq":2}]}}`)))
	assert.Len(t, listed(t, err), 2)
}

// Narrow joins the errors of all overlays, and a stack in use those of all that has expired.
func TestErrorsJoinedLater(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, house, floor("labels", labelled+`,"expires":"2030-01-01T00:00:00Z"`),
		floor("more", `,"expires":"2031-01-01T00:00:00Z"`))
	a := document(t, "a", overlay("a", `,"only":["nope"],"rule":[]`))
	b := document(t, "b", overlay("b", `,"rules":[{"id":"r","allow":"page.get"}]`))
	n, err := p.Narrow(b, a)
	assert.Nil(t, n)
	list := listed(t, err)
	require.Len(t, list, 3)
	assert.Contains(t, list[0], "b: /rules/0/allow: ")
	assert.Contains(t, list[1], "a: /rule: ")
	assert.Contains(t, list[2], "a: /only/0: ")
	whole := p.Documents()
	_, want := Compile(append(whole, a)...)
	_, err = p.Narrow(a)
	assert.Equal(t, want, err)

	y2030, err := contracts.ParseTime("2030-06-01T00:00:00.000Z")
	require.NoError(t, err)
	y2031, err := contracts.ParseTime("2031-06-01T00:00:00.000Z")
	require.NoError(t, err)
	require.NoError(t, p.Expired(0))
	assert.Len(t, listed(t, p.Expired(y2030)), 1)
	assert.Len(t, listed(t, p.Expired(y2031)), 2)
	var e *LoadError
	require.True(t, errors.As(p.Expired(y2031), &e))
	assert.Contains(t, e.What, "P0:labels")
}
