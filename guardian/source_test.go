package guardian

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A place in which a true answer of FROM relaxes, and how the call ends without it.
type relaxing struct {
	rules, requires, budgets string
	without                  want
}

var relaxingPlaces = map[string]relaxing{
	"allow when": {`{"id":"a","deny":["pay"],"when":{"arg":"/id","eq":8}},{"id":"f","allow":["pay"],"when":FROM},{"id":"d","deny":["pay"]},`, ``, ``,
		want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}},
	"allow when, in all and any": {`{"id":"f","allow":["pay"],"when":{"all":[{"any":[{"arg":"/id","eq":8},FROM]},{"arg":"/id","eq":7}]}},{"id":"d","deny":["pay"]},`, ``, ``,
		want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}},
	"deny unless": {`{"id":"d","deny":["pay"],"unless":FROM},`, ``, ``,
		want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}},
	"deny when not": {`{"id":"d","deny":["pay"],"when":{"not":FROM}},`, ``, ``,
		want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}},
	"allow unless not": {`{"id":"f","allow":["pay"],"unless":{"not":FROM}},{"id":"d","deny":["pay"]},`, ``, ``,
		want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}},
	"requires unless": {``, `{"id":"q","tools":["pay"],"unless":FROM,"all":[{"receipt":"read"}]}`, ``,
		want{contracts.ReasonMissingRequirement, 4, "P1:bank:q"}},
	"requires unless, a person": {``, `{"id":"q","tools":["pay"],"unless":FROM,"all":[{"approval":{"roles":["owner"]}}]}`, ``,
		want{contracts.ReasonApprovalRequired, 4, "P1:bank:q"}},
	"budgets unless": {``, ``, `{"id":"q","tools":["pay"],"limit":0,"per":"all","window":"total","cost":1,"unless":FROM}`,
		want{contracts.ReasonBudgetExceeded, 3, "P1:bank:q"}},
}

func (r relaxing) with(from string) string {
	put := func(s string) string { return strings.ReplaceAll(s, "FROM", from) }
	return payee(put(r.rules), put(r.requires), put(r.budgets))
}

// In each place in which a true answer relaxes, a value that a source supplied passes, and another
// does not. Why names the pointer and the sources, and no value.
func TestFromRelaxes(t *testing.T) {
	t.Parallel()
	trust := people(t)
	for name, place := range relaxingPlaces {
		p := mustCompile(t, place.with(`{"arg":"/to","from":["user","look#to"]}`))
		k := newKnowing(t)
		in := inChat(t, "pay", payBob)
		r, why := settled(t, p, &in, trust, k)
		assert.Equal(t, place.without, want{r.Reason, r.Condition, r.Rule}, "%s: %s", name, why)
		if place.without.rule != "P1:bank:d" || !strings.HasPrefix(name, "allow") {
			assert.Equal(t, "/to", why.Pointer, name)
			assert.Contains(t, why.What, "not from user, look#to", name)
		}
		assert.NotContains(t, why.String(), "bob", name)
		require.Len(t, in.State.From, 2, name)
		assert.Equal(t, []contracts.Source{{Source: "look#to"}, {Source: "user"}}, in.State.From, name)

		k.texts = []string{"pay bob"}
		r, why = settled(t, p, &in, trust, k)
		assert.Equal(t, contracts.ReasonAllow, r.Reason, "%s: %s", name, why)
		found := []contracts.Digest{crypto.Sum([]byte(`"bob"`))}
		require.Len(t, in.State.From, 1, "%s: the first that has the value ends the test", name)
		assert.Equal(t, "user", in.State.From[0].Source)
		assert.Equal(t, uint64(1), in.State.From[0].Count)
		assert.Equal(t, found, in.State.From[0].Found)

		k.texts = []string{"pay eve"}
		k.looked(1, "look", `{}`, lookedAt, noon)
		r, why = settled(t, p, &in, trust, k)
		assert.Equal(t, contracts.ReasonAllow, r.Reason, "%s: %s", name, why)
		require.Len(t, in.State.From, 2)
		assert.Empty(t, in.State.From[1].Found)
		assert.Equal(t, found, in.State.From[0].Found)
	}
}

// In each place in which a true answer restricts, from is refused.
func TestFromRestricts(t *testing.T) {
	t.Parallel()
	const from = `{"arg":"/to","from":["user"]}`
	type refused struct{ rules, requires, budgets, at string }
	list := []refused{}
	for _, pred := range []struct{ text, at string }{
		{from, ""}, {`{"not":{"not":` + from + `}}`, "/not/not"}, {`{"all":[` + from + `]}`, "/all/0"},
		{`{"any":[{"all":[` + from + `]}]}`, "/any/0/all/0"},
		{`{"every":"/cc","that":{"from":["user"]}}`, "/that"}, {`{"some":"/rows","that":{"item":"/to","from":["user"]}}`, "/that"},
		{`{"count":"/cc","that":{"from":["user"]},"gt":1}`, "/that"}, {`{"count":"/cc","that":{"from":["user"]},"ge":1}`, "/that"},
		{`{"count":"/cc","that":{"not":{"from":["user"]}},"lt":1}`, ""},
		{`{"not":{"count":"/cc","that":{"from":["user"]},"le":1}}`, "/not/that"},
		{`{"count":"/cc","that":{"from":["user"]},"eq":1}`, "/that"}, {`{"count":"/cc","that":{"from":["user"]},"ne":1}`, "/that"},
	} {
		if strings.Contains(pred.text, `"not":{"from"`) { // a not has no direct subject
			continue
		}
		list = append(list,
			refused{`{"id":"d","deny":"pay","when":` + pred.text + `},`, ``, ``, "/rules/0/when" + pred.at},
			refused{`{"id":"d","allow":"pay","unless":` + pred.text + `},`, ``, ``, "/rules/0/unless" + pred.at},
			refused{``, `{"id":"q","tools":"pay","when":` + pred.text + `,"all":[{"receipt":"read"}]}`, ``, "/requires/0/when" + pred.at},
			refused{``, ``, `{"id":"q","tools":"pay","limit":1,"per":"all","window":"day","cost":1,"when":` + pred.text + `}`, "/budgets/0/when" + pred.at})
	}
	for _, c := range list {
		e := mustRefuse(t, document(t, "", payee(c.rules, c.requires, c.budgets)))
		assert.Equal(t, "from where a true answer restricts: a value can always be written so that it is not found", e.What)
		assert.Equal(t, c.at+"/from", e.Pointer)
		assert.Equal(t, "use it in allow … when, deny … unless, requires … unless or budgets … unless", e.Remedy)
	}
	// The same turned round loads, but for eq and ne.
	for _, c := range list {
		turn := strings.NewReplacer(`"when":`, `"unless":`, `"unless":`, `"when":`)
		text := payee(turn.Replace(c.rules), turn.Replace(c.requires), turn.Replace(c.budgets))
		if strings.Contains(text, `"eq":1`) || strings.Contains(text, `"ne":1`) {
			mustRefuse(t, document(t, "", text))
		} else {
			mustCompile(t, text)
		}
	}
}

func TestSourceRefusals(t *testing.T) {
	t.Parallel()
	const unless = `{"arg":"/to","from":["user"]}`
	good := payee(`{"id":"d","deny":"pay","unless":`+unless+`},`, ``, ``)
	mustCompile(t, good) // or the refusals would prove nothing
	many := `{"arg":"/to","from":["user"` + strings.Repeat(`,"look#to"`, 16) + `]}`
	for _, c := range append(readRefusals(t, "source_refusals", 26), refusal{unless, many, "/from", "17 sources|write at most 16"}) {
		e := mustRefuse(t, document(t, "b.yaml", strings.Replace(good, c.old, c.new, 1)))
		assert.Equal(t, "/rules/0/unless"+c.at, e.Pointer, "%s gives %v", c.new, e)
		for _, part := range strings.Split(c.says, "|") {
			assert.Contains(t, e.Error(), part, c.new)
		}
		assert.NotEqual(t, "", e.Remedy, "%v has no remedy", e)
	}
	// A floor names the facts of all tools, a bundle those of its own.
	floor := floor("f", `,"rules":[{"id":"x","deny":"pay","unless":{"arg":"/to","from":["book#name","user"]}}]`)
	mustCompile(t, good, floor)
	other := bundle("b", toolText("t", `"s":{"type":"string"}`, "s"), `{"id":"x","allow":"t","when":{"arg":"/s","from":["look#to"]}}`)
	e := mustRefuse(t, document(t, "", good), document(t, "b", other))
	assert.Equal(t, `b: /rules/0/when/from/0: no tool "look" in this bundle; a bundle's rules name its own tools`, e.Error())
}

// Each test asks its sources in their order, until one has the value.
func TestFromValues(t *testing.T) {
	t.Parallel()
	k := newKnowing(t)
	k.texts = []string{"pay bob 5"}
	k.looked(1, "look", `{}`, lookedAt, noon)
	k.looked(2, "book", `{}`, `{"/*":["eve"]}`, noon)
	deny, allow := want{contracts.ReasonPolicyViolation, 5, "P1:bank:d"}, want{contracts.ReasonAllow, 8, "P1:bank:all"}
	fails := want{contracts.ReasonFailClosedError, 5, ""}
	for _, c := range []struct {
		pred, args string
		want       want
		asked      int
	}{
		{`{"arg":"/to","from":["user"]}`, ``, allow, 1},
		{`{"arg":"/to","from":["book#name"]}`, ``, deny, 1},
		{`{"arg":"/to","from":["book#name","look#to"]}`, ``, allow, 2},
		{`{"arg":"/to","from":["look#to","book#name"]}`, ``, allow, 1},
		{`{"arg":"/to","from":["look#all"]}`, ``, allow, 1},
		{`{"arg":"/sum","from":["look#sum"]}`, ``, allow, 1},
		{`{"arg":"/sum","from":["look#sum"]}`, `"sum":5`, allow, 1},
		{`{"arg":"/sum","from":["look#sum"]}`, `"sum":6`, deny, 1},
		{`{"arg":"/sum","from":["user"]}`, ``, allow, 1},
		{`{"arg":"/id","from":["look#sum","user"]}`, ``, deny, 2},
		{`{"arg":"/id","from":["look#sum","user"]}`, `"id":5`, allow, 1},
		{`{"arg":"/note","from":["user"],"absent":true}`, ``, allow, 0},
		{`{"arg":"/note","from":["user"],"absent":false}`, ``, deny, 0},
		{`{"arg":"/note","from":["user"],"absent":false}`, `"note":"bob"`, allow, 1},
		{`{"every":"/cc","that":{"from":["user","book#name"]}}`, ``, allow, 2},
		{`{"every":"/cc","that":{"from":["user"]}}`, ``, deny, 1},
		{`{"some":"/cc","that":{"from":["user"]}}`, ``, allow, 1},
		{`{"every":"/rows","that":{"item":"/to","from":["user","book#name"]}}`, ``, allow, 2},
		{`{"every":"/rows","that":{"item":"/sum","from":["user"],"absent":true}}`, ``, deny, 1},
		{`{"every":"/rows","that":{"item":"/sum","from":["look#sum"],"absent":true}}`, `"rows":[{"to":"x","sum":5}]`, allow, 1},
		{`{"count":"/cc","that":{"from":["user"]},"ge":1}`, ``, allow, 1},
		{`{"not":{"count":"/cc","that":{"from":["user"]},"lt":2}}`, ``, deny, 1},
		{`{"arg":"/any","from":["user"]}`, `"any":"bob"`, allow, 1},
		{`{"arg":"/any","from":["user"]}`, `"any":5`, allow, 1},
		{`{"arg":"/any","from":["user"]}`, `"any":true`, fails, 0},
		{`{"arg":"/any","from":["look#to"]}`, `"any":5`, fails, 0},
		{`{"arg":"/any","from":["look#to","look#sum"]}`, `"any":5`, allow, 2},
		{`{"all":[{"arg":"/any","type":"string"},{"arg":"/any","from":["look#to"]}]}`, `"any":5`, deny, 0},
		{`{"arg":"/any","from":["look#either"]}`, `"any":5`, allow, 1},
	} {
		p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":`+c.pred+`},`, ``, ``))
		in := inChat(t, "pay", changed(payBob, c.args))
		c.want.settled(t, c.pred+c.args, p, in, nil, k)
		_, state, _ := p.Decide(&in, nil, k)
		assert.Len(t, state.From, c.asked, c.pred+c.args)
	}
}

// changed replaces a member of a flat object, or adds it.
func changed(args, member string) string {
	if member == "" {
		return args
	}
	name, _, _ := strings.Cut(member, ":")
	if before, rest, has := strings.Cut(args, name+":"); has {
		end := 0
		for depth := 0; end < len(rest); end++ {
			depth += strings.Count("[{", rest[end:end+1]) - strings.Count("]}", rest[end:end+1])
			if depth < 0 || depth == 0 && rest[end] == ',' {
				break
			}
		}
		return before + member + rest[end:]
	}
	return `{` + member + `,` + args[1:]
}

// Whatever cannot be known is an error, and never false: in main, of a source that cannot be read
// or panics, of one that the inputs lack.
func TestFromErrs(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"any":[{"arg":"/to","from":["look#to","user"]},{"arg":"/id","eq":7}]}},`, ``, ``))
	fails := want{contracts.ReasonFailClosedError, 5, ""}
	for name, c := range map[string]struct {
		says  string
		left  int // sources in the inputs
		spoil func(*knowing, *contracts.Inputs)
	}{
		"main":              {unnamedSession, 0, func(_ *knowing, in *contracts.Inputs) { in.Session = "main" }},
		"no texts":          {"the texts of the user cannot be read", 1, func(k *knowing, _ *contracts.Inputs) { k.fails["user"] = true }},
		"no facts":          {"the facts of look cannot be read", 0, func(k *knowing, _ *contracts.Inputs) { k.fails["look"] = true }},
		"the second panics": {"a panic while judging", 1, func(k *knowing, _ *contracts.Inputs) { k.panics["user"] = true }},
		"the first panics":  {"a panic while judging", 0, func(k *knowing, _ *contracts.Inputs) { k.panics["look /to"] = true }},
		"both panic": {"a panic while judging", 0, func(k *knowing, _ *contracts.Inputs) {
			k.panics["look /to"], k.panics["user"] = true, true
		}},
	} {
		k, in := newKnowing(t), inChat(t, "pay", payBob)
		c.spoil(k, &in)
		fails.settled(t, name, p, in, nil, k)
		_, why := settled(t, p, &in, nil, k)
		assert.Equal(t, Why{Rule: "P1:bank:d", Pointer: "/to", What: c.says}, why, name)
		assert.Len(t, in.State.From, c.left, name)
	}
	in := inChat(t, "pay", payBob)
	_, why := p.judged(in, nil)
	assert.Equal(t, "the inputs lack the source look#to", why.What)
	in.State.From = []contracts.Source{{Source: "look#to"}}
	_, why = p.judged(in, nil)
	assert.Equal(t, "the inputs lack the source user", why.What)
}

const unnamedSession = "the session is the one of all calls that name none: name a session"

// A source that panics was asked before, at a condition that came first. The call is denied there,
// and again if it is judged by the inputs, since that source is not among them.
func TestFromPanicsLate(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"arg":"/sum","from":["user"]}},`, ``,
		`{"id":"b","tools":["pay"],"limit":9,"per":"all","window":"day","cost":1,"unless":{"arg":"/to","from":["user"]}}`))
	k, in := newKnowing(t), inChat(t, "pay", payBob)
	r, why := settled(t, p, &in, nil, panicsAfter{k, new(int)})
	assert.Equal(t, want{contracts.ReasonFailClosedError, 3, ""}, want{r.Reason, r.Condition, r.Rule}, why.String())
	assert.Empty(t, in.State.From)
}

// panicsAfter is a past whose sources panic at the second value.
type panicsAfter struct {
	*knowing
	asked *int
}

func (p panicsAfter) Source(s past.Source) (past.Supply, error) {
	x, err := p.knowing.Source(s)
	x.Values = second{x.Values, p.asked}
	return x, err
}

type second struct {
	values interface{ Has(crypto.Value) bool }
	asked  *int
}

func (s second) Has(v crypto.Value) bool {
	if *s.asked++; *s.asked > 1 {
		panic("a source")
	}
	return s.values.Has(v)
}

// Each source costs a visit, and one for each KiB begun of its text. Beyond 10,000 the call is
// denied, also if another predicate takes the visit that is too much, and also if it is judged by
// the inputs, though these do not say how long the texts are.
func TestFromVisits(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"every":"/cc","that":{"from":["look#to","user"]}}},{"id":"e","deny":["pay"],"when":{"some":"/cc","that":{"eq":"no"}}},`,
		``, `{"id":"b","tools":["pay"],"limit":9,"per":"all","window":"day","cost":1,"unless":{"arg":"/to","from":["user"]}}`))
	cc := func(n int) string { return `"cc":[` + strings.TrimSuffix(strings.Repeat(`"bob",`, n), ",") + `]` }
	for _, c := range []struct {
		name    string
		n       int
		text    int
		allowed bool
	}{
		// The budget: 1 + text. The two quantifiers: 1 each. An element: 2 + text, and then 1.
		{"no text", 3332, 0, true}, {"no text, one more", 3333, 0, false},
		{"a byte", 2499, 1, true}, {"a byte, one more", 2500, 1, false},
		{"a KiB", 2499, 1 << 10, true}, {"a KiB and a byte", 2499, 1<<10 + 1, false},
		{"256 KiB", 37, 256 << 10, true}, {"256 KiB, one more", 38, 256 << 10, false},
	} {
		k, in := newKnowing(t), inChat(t, "pay", changed(payBob, cc(c.n)))
		k.texts, k.bytes["user"] = []string{"bob"}, c.text
		r, why := settled(t, p, &in, nil, k)
		switch {
		case c.allowed:
			assert.Equal(t, contracts.ReasonAllow, r.Reason, "%s: %s", c.name, why)
			assert.Len(t, in.State.From, 2, c.name)
		case c.text == 0: // counted by the inputs, too
			assert.Equal(t, want{contracts.ReasonFailClosedError, 5, ""}, want{r.Reason, r.Condition, r.Rule}, "%s: %s", c.name, why)
			assert.Len(t, in.State.From, 2, c.name)
		default: // denied where the text was asked first
			assert.Equal(t, want{contracts.ReasonFailClosedError, 3, ""}, want{r.Reason, r.Condition, r.Rule}, "%s: %s", c.name, why)
			assert.Empty(t, in.State.From, c.name)
		}
		if !c.allowed {
			assert.Equal(t, "more than 10000 values to test", why.What, c.name)
		}
	}
}

// Why tells the tests of the rule, requirement or budget that decided which did not find their
// values, by pointer and sources, and the sources that are full.
func TestFromWhy(t *testing.T) {
	t.Parallel()
	const two = `{"all":[{"any":[{"arg":"/to","from":["user","look#to"]},{"arg":"/id","eq":7}]},{"every":"/rows","that":{"item":"/to","from":["book#name"]}}]}`
	k := newKnowing(t)
	k.full["look /to"] = true
	for name, c := range map[string]struct{ text, says string }{
		"a rule": {payee(`{"id":"d","deny":["pay"],"unless":`+two+`},`, ``, ``),
			`P1:bank:d: /to: not from user, look#to; /rows/*/to: not from book#name; look#to is full: later values are no source`},
		"a requirement": {payee(``, `{"id":"q","tools":["pay"],"unless":`+two+`,"all":[{"receipt":"read"}]}`, ``),
			`P1:bank:q: /to: no receipt of read in the session, as it is required: not from user, look#to; /rows/*/to: not from book#name; look#to is full: later values are no source`},
		"a budget": {payee(``, ``, `{"id":"b","tools":["pay"],"limit":0,"per":"all","window":"day","cost":1,"unless":{"arg":"/to","from":["user"]}}`),
			`P1:bank:b: /to: the budget does not suffice: not from user`},
		"another rule": {payee(`{"id":"a","allow":["pay"],"when":`+two+`},{"id":"d","deny":["pay"],"when":{"arg":"/id","eq":7}},`, ``, ``),
			`P1:bank:d: the rule denies the call`},
	} {
		in := inChat(t, "pay", payBob)
		_, why := settled(t, mustCompile(t, c.text), &in, nil, k)
		assert.Equal(t, c.says, why.String(), name)
	}
	floor := floor("f", `,"rules":[{"id":"x","deny":{"effects":["write"]},"unless":{"some":"/cc","that":{"from":["user"]}}}]`)
	in := inChat(t, "pay", payBob)
	_, why := settled(t, mustCompile(t, payee(``, ``, ``), strings.Replace(floor, `{"effects":["write"]}`, `"pay"`, 1)), &in, nil, k)
	assert.Equal(t, "P0:f:x: /cc/*: not from user", why.String())
}

// What is found is recorded once a value, however often a test asks for it.
func TestFromRecordsOnce(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"all":[{"arg":"/to","from":["user"]},{"every":"/cc","that":{"from":["user"]}},{"arg":"/sum","from":["user"]}]}},`, ``, ``))
	k, in := newKnowing(t), inChat(t, "pay", payBob)
	k.texts = []string{"bob, eve, 5", "eve"}
	r, why := settled(t, p, &in, nil, k)
	require.Equal(t, contracts.ReasonAllow, r.Reason, why.String())
	require.Len(t, in.State.From, 1)
	want := []contracts.Digest{crypto.Sum([]byte(`"bob"`)), crypto.Sum([]byte(`"eve"`)), crypto.Sum([]byte(`5`))}
	slices.SortFunc(want, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	assert.Equal(t, want, in.State.From[0].Found)
	assert.Equal(t, uint64(2), in.State.From[0].Count)
	assert.Equal(t, []string{"user"}, k.questions, "asked once")
}

// A value that is much is recorded as its digest, and 10,000 values fit into the inputs.
func TestFromManyValues(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"every":"/cc","that":{"from":["user"]}}},`, ``, ``))
	var text strings.Builder // any part of it of 4 to 48 bytes is another value
	for i := range 60 {
		text.WriteString(strconv.Itoa(1000 + 97*i%9000))
	}
	seen := map[string]bool{}
	for size := 4; size <= 48; size++ {
		for at := range text.Len() - size {
			seen[strconv.Quote(text.String()[at:at+size])] = true
		}
	}
	list := slices.Sorted(maps.Keys(seen))
	k := newKnowing(t)
	k.texts = []string{text.String()}
	in := inChat(t, "pay", changed(payBob, `"cc":[`+strings.Join(list, ",")+`]`))
	r, why := settled(t, p, &in, nil, k)
	assert.Equal(t, contracts.ReasonAllow, r.Reason, why.String())
	assert.Len(t, in.State.From[0].Found, len(list))
	assert.Greater(t, len(list), 9_000)
}

// Source is what a verifier asks the log for.
func TestPolicySource(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(``, ``, ``))
	for name, want := range map[string]past.Source{"user": {}, "look#to": {Tool: "look", Fact: "/to"},
		"look#all": {Tool: "look", Fact: "/all/*"}, "book#name": {Tool: "book", Fact: "/*"}} {
		s, ok := p.Source(name)
		require.True(t, ok, name)
		again, _ := p.Source(name)
		assert.True(t, s.Declared == again.Declared && (s.Declared == nil) == (name == "user"), name)
		s.Declared = nil
		assert.Equal(t, want, s, name)
	}
	for _, name := range []string{"", "look", "look#", "look#at", "look#count", "look#all2", "nobody#to", "user#to", "#to", "look#to#to"} {
		_, ok := p.Source(name)
		assert.False(t, ok, name)
	}
	_, ok := (*Policy)(nil).Source("look#to")
	assert.False(t, ok)
	narrow, err := p.Narrow(document(t, "", overlay("o", `,"rules":[{"id":"x","deny":"pay","unless":{"arg":"/to","from":["look#to"]}}]`)))
	require.NoError(t, err)
	a, _ := p.Source("look#to")
	b, _ := narrow.Source("look#to")
	assert.True(t, a.Declared == b.Declared, "one declaration, however often the stack is narrowed")
}

// Asked is the declaration of tools whose facts a document asks for, and only of these.
func TestAsked(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"arg":"/to","from":["look#to"]}},`, ``, ``))
	s, _ := p.Source("look#to")
	assert.True(t, s.Declared != nil && p.Asked("look") == s.Declared)
	for _, tool := range []string{"book", "pay", "nobody"} {
		assert.Nil(t, p.Asked(tool), tool)
	}
	assert.Nil(t, (*Policy)(nil).Asked("look"))
	narrow, err := p.Narrow(document(t, "", overlay("o",
		`,"rules":[{"id":"x","deny":"pay","unless":{"arg":"/to","from":["book#name"]}}]`)))
	require.NoError(t, err)
	assert.Nil(t, narrow.Asked("book"))
	assert.Nil(t, p.Asked("book"), "narrowing changes nothing of the stack")
}
