package guardian

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// What the session carries is read once, and recorded if a predicate read it: all labels, or none.
func TestMarksRead(t *testing.T) {
	t.Parallel()
	k := newKnowing(t)
	labels := func(l ...string) *[]string { return &l }
	yes, no := true, false
	for _, c := range []struct {
		when    string
		tainted bool
		labels  []string
		want    want
		read    contracts.SessionState
	}{
		{`{"session":"tainted","eq":true}`, true, []string{"web"}, denied5, contracts.SessionState{Tainted: &yes}},
		{`{"session":"tainted","eq":true}`, false, nil, allowed8, contracts.SessionState{Tainted: &no}},
		{`{"session":"tainted","eq":false}`, true, nil, allowed8, contracts.SessionState{Tainted: &yes}},
		{`{"session":"tainted","eq":false}`, false, nil, denied5, contracts.SessionState{Tainted: &no}},
		{`{"session":"labels","has":"web"}`, true, []string{"pii", "web"}, denied5, contracts.SessionState{Labels: labels("pii", "web")}},
		{`{"session":"labels","has":"web"}`, true, []string{"pii"}, allowed8, contracts.SessionState{Labels: labels("pii")}},
		{`{"not":{"session":"labels","has":"web"}}`, true, nil, denied5, contracts.SessionState{Labels: labels()}},
		{`{"any":[{"session":"labels","has":"web"},{"session":"labels","has":"pii"},{"session":"tainted","eq":true}]}`,
			false, []string{"old"}, allowed8, contracts.SessionState{Labels: labels("old"), Tainted: &no}},
		{`{"all":[{"arg":"/id","eq":8},{"session":"tainted","eq":true}]}`, true, nil, allowed8, contracts.SessionState{}},
	} {
		p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"when":`+c.when+`},`, ``, ``))
		k.tainted, k.labels, k.questions = c.tainted, c.labels, nil
		in := inChat(t, "pay", payBob)
		c.want.settled(t, c.when, p, in, nil, k)
		assert.LessOrEqual(t, len(k.questions), 1, c.when)
		_, state, _ := p.Decide(&in, nil, k)
		if state.Labels != nil && *state.Labels == nil {
			state.Labels = labels()
		}
		if c.read.Labels != nil && *c.read.Labels == nil {
			c.read.Labels = labels()
		}
		require.Equal(t, c.read, state, c.when)

		before := len(k.questions)
		in.Session = "main"
		r, why := settled(t, p, &in, nil, k)
		if before > 0 {
			assert.Equal(t, failed5, want{r.Reason, r.Condition, r.Rule}, c.when)
			assert.Equal(t, unnamedSession, why.What, c.when)
			assert.Equal(t, contracts.SessionState{}, in.State, c.when)
		}
	}
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"unless":{"any":[{"session":"labels","has":"web"},{"arg":"/id","eq":7}]}},`, ``, ``))
	k.fails["marks"] = true
	in := inChat(t, "pay", payBob)
	failed5.settled(t, "unreadable", p, in, nil, k)
	_, why := settled(t, p, &in, nil, k)
	assert.Equal(t, "the taint and labels of the session cannot be read", why.What)
}

// Floors, overlays and overlays over a stack know the labels of all documents.
func TestLabelsOfStack(t *testing.T) {
	t.Parallel()
	bare := strings.Replace(payee(``, ``, ``), `"labels":["pii","web"],`, ``, 1)
	floor := floor("f", `,"labels":["secret"],"rules":[{"id":"x","deny":{"egress":true},"when":{"session":"labels","has":"secret"}}]`)
	task := overlay("o", `,"rules":[{"id":"y","deny":"pay","when":{"session":"labels","has":"secret"}}]`)
	p := mustCompile(t, payee(`{"id":"d","deny":["pay"],"when":{"session":"labels","has":"secret"}},`, ``, ``), floor, task)
	for name, docs := range map[string][]string{"a floor": {bare, strings.Replace(floor, `"has":"secret"`, `"has":"secrets"`, 1)},
		"an overlay": {bare, strings.Replace(task, `"has":"secret"`, `"has":"secrets"`, 1)}} {
		var list []contracts.Document
		for _, text := range docs {
			list = append(list, document(t, "", text))
		}
		_, err := Compile(list...)
		assert.ErrorContains(t, err, `no document of the stack declares the label "secrets"`, name)
	}
	_, err := p.Narrow(document(t, "", strings.Replace(task, `"o"`, `"q"`, 1)))
	require.NoError(t, err)
	_, err = p.Narrow(document(t, "", strings.NewReplacer(`"o"`, `"q"`, `"has":"secret"`, `"has":"secrets"`).Replace(task)))
	assert.ErrorContains(t, err, `no document of the stack declares the label "secrets"; did you mean secret?`)
}

// A deepGenerator makes stacks that ask for sources, facts and marks wherever they can.
type deepGenerator struct{ pastGenerator }

// test is a predicate that may stand anywhere, and relaxing one whose true answer must relax.
func (g deepGenerator) test() string {
	fact := func() string {
		return pick(g.generator, `{"fact":"late","eq":false}`, `{"fact":"to","eq":{"arg":"/to"}}`, `{"arg":"/to","in":{"fact":"all"}}`,
			`{"fact":"sum","ge":5}`, `{"every":"/cc","that":{"in":{"fact":"all"}}}`, `{"fact":"memo","exists":true}`, `{"fact":"count","gt":1}`)
	}
	that := pick(g.generator, fact(), `{"any":[`+fact()+`,`+fact()+`]}`, `{"all":[`+fact()+`,{"not":`+fact()+`}]}`)
	return pick(g.generator, `{"receipt":"look","that":`+that+`}`, `{"receipt":"look","same":["/id"],"that":`+that+`}`,
		`{"receipt":"look","max_age":"1m","that":`+that+`}`, `{"session":"tainted","eq":true}`, `{"session":"labels","has":"pii"}`,
		`{"session":"labels","has":"web"}`, `{"arg":"/sum","gt":4}`, `{"not":{"session":"tainted","eq":false}}`)
}

func (g deepGenerator) relaxing() string {
	sources := pick(g.generator, `["user"]`, `["look#to"]`, `["user","look#all"]`, `["look#all","user","book#name"]`, `["book#name"]`)
	from := pick(g.generator, `{"arg":"/to","from":`+sources+`}`, `{"every":"/cc","that":{"from":`+sources+`}}`,
		`{"some":"/rows","that":{"item":"/to","from":`+sources+`}}`, `{"arg":"/sum","from":["user","look#sum"]}`,
		`{"count":"/cc","that":{"from":`+sources+`},"ge":2}`)
	return pick(g.generator, from, from, `{"any":[`+g.test()+`,`+from+`]}`, `{"all":[`+from+`,`+g.test()+`]}`, g.test())
}

func (g deepGenerator) stack() []string {
	condition := func() string {
		return pick(g.generator, ``, `,"unless":`+g.relaxing(), `,"unless":`+g.relaxing(), `,"when":`+g.test(), `,"when":`+g.test()+`,"unless":`+g.relaxing())
	}
	rules := func(layer string) (list string) {
		for i := range g.r.IntN(3) {
			list += fmt.Sprintf(`{"id":"%s%d","deny":["pay"],"unless":%s},`, layer, i, g.relaxing())
		}
		return list
	}
	requires := fmt.Sprintf(`{"id":"q","tools":["pay"],"all":[%s]%s}`,
		pick(g.generator, `{"approval":{"roles":["owner"]}}`, `{"receipt":"look"}`, `{"receipt":"look","that":{"fact":"late","eq":false}}`), condition())
	budgets := `{"id":"b","tools":["pay"],"limit":0,"per":"all","window":"total","cost":1` + condition() + `}`
	return []string{payee(rules("r"), pick(g.generator, ``, requires), pick(g.generator, ``, ``, budgets)),
		floor("f", `,"rules":[`+strings.TrimSuffix(rules("f"), ",")+`]`), overlay("o", `,"rules":[`+strings.TrimSuffix(rules("o"), ",")+`]`)}
}

func (g deepGenerator) past() *knowing {
	k := newKnowing(g.t)
	for range g.r.IntN(3) {
		k.texts = append(k.texts, pick(g.generator, "pay bob", "and eve", "5"))
	}
	for n := range g.r.IntN(4) {
		facts := pick(g.generator, lookedAt, lookedAt, withFacts(`"/late":[true]`), withFacts(`"/all/*":["bob","eve"]`),
			withFacts(`"/to":["eve"]`), withFacts(`"/all/*":null`), "")
		k.looked(n, "look", fmt.Sprintf(`{"id":%d}`, 6+g.r.IntN(2)), facts, noon-contracts.Time(g.r.IntN(90_000)))
	}
	if g.r.IntN(2) == 0 {
		k.looked(9, "book", `{}`, `{"/*":["bob"]}`, noon)
	}
	k.tainted = g.r.IntN(3) == 0
	if g.r.IntN(2) == 0 {
		k.labels = []string{"pii"}
	}
	for _, what := range []string{"user", "look", "receipt", "marks"} {
		k.fails[what] = g.r.IntN(20) == 0
	}
	for _, source := range []string{"user", "look /all/*"} {
		k.panics[source] = g.r.IntN(20) == 0
		k.bytes[source] = pick(g.generator, 0, 100, 3000, 9_990<<10)
	}
	return k
}

// Whatever a stack asks of sources, facts and marks, the verdict follows from what that left in the
// inputs, and from all of it: without any part nothing is allowed.
func TestDeepReplays(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := deepGenerator{pastGenerator{generator{rand.New(rand.NewPCG(81, 82))}, t}}
	trust := people(t)
	seen, lacking := map[string]int{}, map[string]int{}
	for range 400 {
		p := compiled(t, g.stack())
		if p == nil {
			continue
		}
		for range 5 {
			k, in := g.past(), inChat(t, "pay", payBob)
			r, why := settled(t, p, &in, trust, k)
			seen[fmt.Sprint(r.Reason, " ", r.Condition)]++
			require.NotContains(t, why.String(), "eve", "a value")
			for name, state := range lessDeep(t, in.State) {
				less := in
				less.State = state
				x, _ := p.judged(less, trust)
				require.Equal(t, contracts.ReasonFailClosedError, x.Reason, "without %s, else %s\n%s", name, why, in.Append(nil))
				lacking[strings.Fields(name)[0]]++
			}
		}
	}
	atLeast(t, seen, 5, []string{"ALLOW 8", "POLICY_VIOLATION 5", "CEILING_VIOLATION 8", "MISSING_REQUIREMENT 4", "APPROVAL_REQUIRED 4",
		"BUDGET_EXCEEDED 3", "FAIL_CLOSED_ERROR 3", "FAIL_CLOSED_ERROR 4", "FAIL_CLOSED_ERROR 5", "FAIL_CLOSED_ERROR 8"})
	atLeast(t, lacking, 50, []string{"source", "fact", "receipt", "taint", "labels"})
}

// lessDeep is a state without each source, fact and mark, in turn.
func lessDeep(t *testing.T, s contracts.SessionState) map[string]contracts.SessionState {
	out := map[string]contracts.SessionState{}
	for i, x := range s.From {
		less := s
		less.From = slices.Delete(slices.Clone(s.From), i, i+1)
		out["source "+x.Source] = less
	}
	for i, x := range s.Receipts {
		less := s
		less.Receipts = slices.Delete(slices.Clone(s.Receipts), i, i+1)
		out[fmt.Sprint("receipt ", i)] = less
		for it := x.Facts.Iter(); it.Next(); {
			less.Receipts = slices.Clone(s.Receipts)
			key := string(it.Key())
			rest := strings.Replace(string(x.Facts.Append(nil)), fmt.Sprintf("%q:%s", key, it.Value().Append(nil)), `"/none":[]`, 1)
			less.Receipts[i].Facts = valueOf(t, rest)
			out[fmt.Sprint("fact ", i, key)] = less
		}
	}
	if s.Tainted != nil {
		less := s
		less.Tainted = nil
		out["taint"] = less
	}
	if s.Labels != nil {
		less := s
		less.Labels = nil
		out["labels"] = less
	}
	return out
}
