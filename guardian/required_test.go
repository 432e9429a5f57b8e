package guardian

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/past"
)

// A receipt that is there in time, for the same values, meets a requirement; no other does.
func TestRequiredReceipt(t *testing.T) {
	t.Parallel()
	p := mustCompile(t,
		bankText(`{"id":"looked","tools":["pay"],"unless":{"arg":"/amount","lt":2},"all":[{"receipt":"look","max_age":"30m","same":{"/payee":"/to"}}]},
		{"id":"both","tools":["pay"],"when":{"arg":"/note","eq":"both","absent":false},"all":[{"receipt":"look"},{"receipt":"pay","same":["/kind","/amount"]}]},
		{"id":"either","tools":["close"],"any":[{"receipt":"pay"},{"receipt":"look","max_age":"5s"}]}`, ``))
	looked := func(n int, args string, at contracts.Time) func(*told) {
		return func(p *told) { p.ran(t, n, "look", args, at) }
	}
	paid := func(args string) func(*told) { return func(p *told) { p.ran(t, 9, "pay", args, noon) } }
	both := `{"amount":5,"kind":"sepa","note":"both","to":"bob"}`
	for _, c := range []struct {
		name, tool, args string
		past             []func(*told)
		want             want
	}{
		{"looked", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon)}, allowed},
		{"just in time", "pay", toBob, []func(*told){looked(1, `{"n":1,"payee":"bob"}`, noon.Add(-1800e9))}, allowed},
		{"the latest in time", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon.Add(-7200e9)),
			looked(2, `{"payee":"bob"}`, noon)}, allowed},
		{"the latest for the same", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			looked(2, `{"payee":"eve"}`, noon)}, allowed},
		{"exempt", "pay", `{"amount":1,"kind":"sepa","to":"bob"}`, nil, allowed},
		{"never", "pay", toBob, nil, missing4("P1:bank:looked")},
		{"too long ago", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon.Add(-1800e9-1e6))},
			missing4("P1:bank:looked")},
		{"in the future", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon+1)},
			missing4("P1:bank:looked")},
		{"for another", "pay", toBob, []func(*told){looked(1, `{"payee":"bo"}`, noon)}, missing4("P1:bank:looked")},
		{"for nobody", "pay", toBob, []func(*told){looked(1, `{}`, noon)}, missing4("P1:bank:looked")},
		{"for a letter of another case", "pay", toBob, []func(*told){looked(1, `{"payee":"Bob"}`, noon)},
			missing4("P1:bank:looked")},
		{"of another tool", "pay", toBob, []func(*told){func(p *told) { p.ran(t, 1, "pay", toBob, noon) }},
			missing4("P1:bank:looked")},
		{"allowed and not executed", "pay", toBob,
			[]func(*told){func(p *told) { p.Allow(&contracts.DecisionRecord{Tool: "look"}, noon, nil) }},
			missing4("P1:bank:looked")},
		{"arguments that are gone", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			func(p *told) { clear(p.args) }}, want{contracts.ReasonFailClosedError, 4, ""}},
		{"the latest arguments are gone", "pay", toBob, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			looked(2, `{"payee":"eve"}`, noon), func(p *told) { delete(p.args, 4) }},
			want{contracts.ReasonFailClosedError, 4, ""}},
		{"older arguments are gone", "pay", toBob, []func(*told){looked(1, `{"payee":"eve"}`, noon),
			looked(2, `{"payee":"bob"}`, noon), func(p *told) { delete(p.args, 2) }}, allowed},
		{"gone, but exempt", "pay", `{"amount":1,"kind":"sepa","to":"bob"}`,
			[]func(*told){looked(1, `{"payee":"bob"}`, noon), func(p *told) { clear(p.args) }}, allowed},
		{"one of two", "pay", both, []func(*told){looked(1, `{"payee":"bob"}`, noon)}, missing4("P1:bank:both")},
		{"two", "pay", both, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			paid(`{"amount":5.0,"kind":"sepa","to":"eve"}`)}, allowed},
		{"two, of other values", "pay", both, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			paid(`{"amount":5.5,"kind":"sepa","to":"bob"}`)}, missing4("P1:bank:both")},
		{"two, of values that changed places", "pay", both, []func(*told){looked(1, `{"payee":"bob"}`, noon),
			paid(`{"amount":7,"kind":"5","to":"bob"}`)}, missing4("P1:bank:both")},
		{"the first of either", "close", `{}`, []func(*told){paid(toBob)}, allowed},
		{"the second", "close", `{}`, []func(*told){looked(1, `{}`, noon.Add(-5e9))}, allowed},
		{"neither", "close", `{}`, []func(*told){looked(1, `{}`, noon.Add(-6e9))}, missing4("P1:bank:either")},
	} {
		past := newTold()
		for _, f := range c.past {
			f(past)
		}
		c.want.settled(t, c.name, p, inChat(t, c.tool, c.args), nil, past)
	}
	past := newTold()
	past.ran(t, 1, "look", `{"payee":"bob"}`, noon)
	for _, session := range []string{"main", ""} {
		in := inputs(t, "pay", toBob)
		in.Session = session
		r, why := judgeBy(p, &in, nil, past)
		assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == 4, "%v at %d", r.Reason,
			r.Condition)
		assert.Equal(t, "the session is the one of all calls that name none: name a session", why.What)
	}
	in := inChat(t, "pay", toBob)
	r, _ := judgeBy(p, &in, nil, nil)
	assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == 4, "without a past: %v at %d",
		r.Reason, r.Condition)
}

// What is asked twice is read once, and the inputs have all that was read, in the order of their
// canonical form, and no more.
func TestPastIsReadOnce(t *testing.T) {
	t.Parallel()
	look := `{"receipt":"look","same":{"/payee":"/to"}}`
	p := mustCompile(t,
		bankText(`{"id":"a","tools":["pay"],"all":[`+look+
			`,{"receipt":"look"}]},{"id":"b","tools":["pay"],"when":{"not":`+look+`},"all":[{"receipt":"close"}]}`, ``),
		floor("f",
			`,"ceilings":{"calls":20},"rules":[{"id":"r","deny":["pay"],"when":{"all":[{"receipt":"look"},{"session":"calls","gt":30},{"session":"calls","of":"look","lt":3}]}}]`))
	past := newTold()
	for n := range 10 {
		past.ran(t, n, "look", `{"payee":"bob"}`, noon)
	}
	in := inChat(t, "pay", toBob)
	// of another judgement
	in.State.Calls, in.State.Receipts, in.State.Used = []contracts.CallCount{{Count: 1}},
		[]contracts.PriorReceipt{{Tool: "close"}}, &[]contracts.Digest{{1}}
	r := allowed.settled(t, "ten looks", p, in, nil, past)
	assert.Nil(t, r.Charges, "charged")
	assert.Equal(t, 2, past.asked, "asked for %d receipts", past.asked)
	r, _ = judgeBy(p, &in, nil, past)
	require.Equal(t, contracts.ReasonAllow, r.Reason)
	entry := crypto.Sum([]byte{9, 0}) // as ran has it
	receipts := []contracts.PriorReceipt{{Entry: &entry, Same: valueOf(t, `{"/payee":"bob"}`), Time: noon,
		Tool: "look"}, {Entry: &entry, Time: noon, Tool: "look"}}
	if s := &in.State; !reflect.DeepEqual(s.Calls, []contracts.CallCount{{Count: 10}}) || len(s.Receipts) != 2 ||
		s.Used != nil ||
		string(s.Receipts[0].Same.Append(nil)) != `{"/payee":"bob"}` || !reflect.DeepEqual(s.Receipts[1], receipts[1]) {
		t.Errorf("read %+v", s)
	}
	for i := range in.State.Receipts {
		lacks := in
		lacks.State.Receipts = append(in.State.Receipts[:i:i], in.State.Receipts[i+1:]...)
		r, _ := p.judged(lacks, nil)
		assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == 4, "without receipt %d: %v at %d",
			i, r.Reason, r.Condition)
	}
	lacks := in
	lacks.State.Calls = []contracts.CallCount{{Count: 10, Of: "look"}}
	if r, _ := p.judged(lacks, nil); r.Reason != contracts.ReasonFailClosedError || r.Condition != 8 {
		t.Errorf("without calls: %v at %d", r.Reason, r.Condition)
	}
}

// Requirements are judged in the order of the stack, those that apply; an error is an error.
func TestRequirementOrder(t *testing.T) {
	t.Parallel()
	needs := `"all":[{"receipt":"look"}]`
	of := func(id, more string) string { return `{"id":"` + id + `","tools":["pay"],` + more + needs + `}` }
	requires := func(list string) string { return `,"requires":[` + list + `]` }
	looked, closed := newTold(), newTold()
	looked.ran(t, 1, "look", `{}`, noon)
	closed.ran(t, 1, "close", `{}`, noon)
	from := func(v string) string { return `"when":{"arg":"/from","eq":"` + v + `","absent":false},` }
	for _, c := range []struct {
		name string
		docs []string
		past past.Past
		want want
	}{
		{"bundle", []string{bankText(of("b", ""), ``)}, closed, missing4("P1:bank:b")},
		{"floor before bundle", []string{bankText(of("b", ""), ``), floor("f", requires(of("a", "")))}, closed,
			missing4("P0:f:a")},
		{"bundle before overlay", []string{bankText(of("b", ""), ``), overlay("o", requires(of("a", "")))}, closed,
			missing4("P1:bank:b")},
		{"second in the document", []string{bankText(of("b", from("eve"))+","+of("c", from("bob")), ``)}, closed,
			missing4("P1:bank:c")},
		{"none applies", []string{bankText(of("b", from("eve")), ``),
			floor("f", requires(of("a", `"unless":{"caller":"roles","has":"clerk"},`)))}, closed, allowed},
		{"overlay of another",
			[]string{bankText("", ``), overlay("o", `,"for":{"caller":"bob"}`+requires(of("a", "")))}, closed, allowed},
		{"overlay of the caller", []string{bankText("", ``),
			overlay("o", `,"for":{"caller":"ann"}`+requires(of("a", "")))}, closed, missing4("P2:o:a")},
		{"all met", []string{bankText(of("b", ""), ``), floor("f", requires(of("a", ""))),
			overlay("o", requires(of("c", "")))}, looked, allowed},
		{"by effect",
			[]string{bankText("", ``), floor("f", requires(`{"id":"a","tools":{"effects":["write"]},`+needs+`}`))},
			closed, missing4("P0:f:a")},
		{"an error in when", []string{bankText(of("b", `"when":{"arg":"/to","within":"/srv"},`), ``)}, looked,
			want{contracts.ReasonFailClosedError, 4, ""}},
		{"met before an error",
			[]string{bankText(of("b", "")+`,`+of("c", `"when":{"arg":"/to","within":"/srv"},`), ``)}, looked,
			want{contracts.ReasonFailClosedError, 4, ""}},
		{"missing before an error",
			[]string{bankText(of("b", "")+`,`+of("c", `"when":{"arg":"/to","within":"/srv"},`), ``)}, closed,
			missing4("P1:bank:b")},
		{"missing before a denial", []string{bankText(of("b", ""), ``),
			overlay("o", `,"rules":[{"id":"no","deny":["pay"]}]`)}, closed, missing4("P1:bank:b")},
		{"met before a denial", []string{bankText(of("b", ""), ``),
			overlay("o", `,"rules":[{"id":"no","deny":["pay"]}]`)}, looked,
			want{contracts.ReasonPolicyViolation, 5, "P2:o:no"}},
		{"behind a budget",
			[]string{bankText(of("b", ""),
				`,"budgets":[{"id":"none","tools":["pay"],"limit":0,"per":"all","window":"total","cost":1}]`)}, closed,
			want{contracts.ReasonBudgetExceeded, 3, "P1:bank:none"}},
	} {
		in := inChat(t, "pay", `{"amount":5,"from":"bob","kind":"sepa","to":"bob"}`)
		c.want.settled(t, c.name, mustCompile(t, c.docs...), in, nil, c.past)
	}
}

// Receipts and calls are predicates like others, wherever a rule or budget may have one.
func TestPastPredicates(t *testing.T) {
	t.Parallel()
	past := newTold()
	past.ran(t, 1, "look", `{"n":5,"payee":"bob"}`, noon.Add(-60e9))
	past.ran(t, 2, "look", `{"payee":"eve"}`, noon)
	past.Allow(&contracts.DecisionRecord{Tool: "pay"}, noon, nil)
	for text, holds := range map[string]program.Answer{
		`{"receipt":"look"}`:                                                               program.Yes,
		`{"receipt":"pay"}`:                                                                program.No,
		`{"not":{"receipt":"pay"}}`:                                                        program.Yes,
		`{"receipt":"look","same":{"/payee":"/to"}}`:                                       program.Yes,
		`{"receipt":"look","same":{"/payee":"/to"},"max_age":"1m"}`:                        program.Yes,
		`{"receipt":"look","same":{"/payee":"/to"},"max_age":"59s"}`:                       program.No,
		`{"receipt":"look","same":{"/n":"/amount"}}`:                                       program.Yes,
		`{"receipt":"look","same":{"/n":"/amount","/payee":"/to"}}`:                        program.Yes,
		`{"receipt":"look","same":{"/payee":"/kind"}}`:                                     program.No,
		`{"all":[{"receipt":"look","max_age":"1s"},{"arg":"/amount","eq":5}]}`:             program.Yes,
		`{"session":"calls","eq":3}`:                                                       program.Yes,
		`{"session":"calls","of":"look","eq":2}`:                                           program.Yes,
		`{"session":"calls","of":"pay","ge":2}`:                                            program.No,
		`{"session":"calls","of":"close","lt":1}`:                                          program.Yes,
		`{"session":"calls","ne":3}`:                                                       program.No,
		`{"session":"calls","gt":{"arg":"/amount"}}`:                                       program.No,
		`{"session":"calls","le":{"arg":"/amount"}}`:                                       program.Yes,
		`{"every":"/list","that":{"all":[{"session":"calls","gt":2},{"item":"","eq":1}]}}`: program.Yes,
	} {
		doc := strings.Replace(bankText("", ``), `"note":`,
			`"list":{"type":"array","items":{"type":"number"},"default":[1,1]},"note":`, 1)
		for _, rule := range []string{`{"id":"w","deny":"pay","when":` + text + `},`,
			`{"id":"w","deny":"pay","unless":` + text + `},`} {
			p := mustCompile(t, strings.Replace(doc, `{"id":"all"`, rule+`{"id":"all"`, 1))
			expect := allowed
			if (holds == program.Yes) == strings.Contains(rule, "when") {
				expect = contractsViolation("P1:bank:w")
			}
			expect.settled(t, rule, p, inChat(t, "pay", `{"amount":5,"kind":"sepa","list":[1,1],"to":"bob"}`), nil,
				past)
			r, _ := p.judged(inChat(t, "pay", `{"amount":5,"kind":"sepa","list":[1,1],"to":"bob"}`), nil)
			assert.Equal(t, contracts.ReasonFailClosedError, r.Reason, "%s: %v without a past", rule, r.Reason)
			in := inputs(t, "pay", `{"amount":5,"kind":"sepa","list":[1,1],"to":"bob"}`) // session main
			want{contracts.ReasonFailClosedError, 5, ""}.settled(t, rule, p, in, nil, past)
		}
	}
}

func contractsViolation(rule string) want { return want{contracts.ReasonPolicyViolation, 5, rule} }

// A session has as many calls as the lowest ceiling permits, of all tools together; a call that
// names none has no session to count in.
func TestCallsCeiling(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bankText("", ``), floor("a", `,"ceilings":{"calls":3}`),
		floor("b", `,"ceilings":{"calls":2,"risk":"medium"},"rules":[{"id":"r","deny":["look"]}]`))
	past := newTold()
	ceiling := func(rule string) want { return want{contracts.ReasonCeilingViolation, 8, rule} }
	for n, c := range []struct {
		tool string
		want want
	}{{"pay", allowed}, {"pay", allowed}, {"pay", ceiling("P0:b:ceilings")}, {"close", ceiling("P0:a:ceilings")},
		{"pay", ceiling("P0:a:ceilings")}} {
		args := `{}`
		if c.tool == "pay" {
			args = toBob
		}
		in := inChat(t, c.tool, args)
		c.want.settled(t, "call", p, in, nil, past)
		past.Allow(&contracts.DecisionRecord{Tool: []string{"pay", "look"}[n%2]}, noon, nil)
		in.Session = "main"
		want{contracts.ReasonFailClosedError, 8, ""}.settled(t, "no session", p, in, nil, past)
	}
	want{contracts.ReasonCeilingViolation, 8, "P0:a:ceilings"}.settled(t, "a rule behind it", p,
		inChat(t, "look", `{}`), nil, past)
}

// However large the values that calls are compared by, what is recorded of a decision stays within
// its limits.
func TestAskedIsBounded(t *testing.T) {
	t.Parallel()
	var rules []string
	for i := range 40 {
		rules = append(rules,
			fmt.Sprintf(`{"id":"r%d","deny":"pay","when":{"receipt":"look","same":{"/payee":"/to","/n":"/amount"},"max_age":"%ds"}}`, i, i+1))
	}
	p := mustCompile(t, strings.Replace(bankText("", ``), `{"id":"dear"`, strings.Join(rules, ",")+`,{"id":"dear"`, 1))
	past := newTold()
	past.ran(t, 1, "look", `{"payee":"eve"}`, noon)
	for size, w := range map[int]want{10: allowed, 20_000: allowed, 30_000: {contracts.ReasonFailClosedError, 5, ""},
		1_000_000: {contracts.ReasonFailClosedError, 5, ""}} {
		in := inChat(t, "pay", `{"amount":5,"kind":"sepa","to":"`+strings.Repeat("x", size)+`"}`)
		w.settled(t, fmt.Sprint(size), p, in, nil, past)
	}
}

// No grant takes a call out of what an overlay requires, of the caller or of who granted; and the
// rest is required of the caller.
func TestRequiredUnderGrants(t *testing.T) {
	t.Parallel()
	trust := people(t)
	needs := `"requires":[{"id":"r","tools":["pay"],"unless":{"caller":"roles","has":"owner"},"all":[{"receipt":"look"}]}]`
	for _, c := range []struct {
		name, of string
		past     *told
		want     want
	}{
		{"the caller's", `"for":{"caller":"agent"},`, newTold(), missing4("P2:o:r")},
		{"the delegator's", `"for":{"caller":"ann"},`, newTold(), missing4("P2:o:r")},
		{"everyone's", ``, newTold(), missing4("P2:o:r")},
		{"somebody's", `"for":{"caller":"bob"},`, newTold(), allowed},
		{"the caller's, met", `"for":{"caller":"agent"},`, longSession(t), allowed},
		{"the delegator's, met", `"for":{"caller":"ann"},`, longSession(t), allowed},
	} {
		p := mustCompile(t, bankText("", ``), overlay("o", `,`+c.of+needs))
		in := inChat(t, "pay", toBob)
		in.Caller = contracts.Caller{ID: "agent"}
		in.Envelopes.Delegation = []contracts.Envelope{by(t, "ann",
			contracts.Delegation{Delegate: "agent", Delegator: "ann"})}
		c.want.settled(t, c.name, p, in, trust, c.past)
	}
}
