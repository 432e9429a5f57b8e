package policytest

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each hole is a policy with a seeded one: its mutant survives under the cases, and is killed when
// the case that tells the two apart is added.
func TestMutantsShowHoles(t *testing.T) {
	t.Parallel()
	const stack = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"lists":{"known":["bob","eve"]},
		"tools":{"pay":{"effect":"write",%s"input":{"type":"object","required":["to","sum"],"properties":{
			"to":{"type":"string"},"sum":{"type":"number"},"note":{"type":"string"}}}},
			"look":{"effect":"read","input":{"type":"object"}}},
		"rules":[%s{"id":"look","allow":"look"},{"id":"pay","allow":"pay","when":{"caller":"roles","has":"clerk"}}]%s}`
	for _, c := range []struct{ name, tool, rules, more, cases, kind, at, killer string }{
		{"a bound", "", `{"id":"dear","deny":"pay","when":{"arg":"/sum","gt":1000}},`, "",
			`{"call":"pay","args":{"to":"bob","sum":2000},"want":"DENY","rule":"P1:b:dear"}`, "bound moved", "/rules/0/when/gt",
			`{"call":"pay","args":{"to":"bob","sum":1001},"want":"DENY","rule":"P1:b:dear"},{"call":"pay","args":{"to":"bob","sum":1000},"want":"ALLOW"}`},
		{"a rule", "", `{"id":"note","deny":"pay","when":{"arg":"/note","eq":"x","absent":false}},`, "", ``, "rule dropped", "/rules/0",
			`{"call":"pay","args":{"to":"bob","sum":1,"note":"x"},"want":"DENY"}`},
		{"absent", "", `{"id":"note","deny":"pay","when":{"arg":"/note","prefix":"x","absent":false}},`, "",
			`{"name":"a","call":"pay","args":{"to":"bob","sum":1,"note":"xy"},"want":"DENY"},{"name":"b","call":"pay","args":{"to":"bob","sum":1,"note":"y"},"want":"ALLOW"}`,
			"absent turned", "/rules/0/when/absent", ``},
		{"an entry of a list", "", `{"id":"who","deny":"pay","unless":{"arg":"/to","in":{"list":"known"}}},`, "",
			`{"call":"pay","args":{"to":"sue","sum":1},"want":"DENY"}`, "entry dropped", "/lists/known/1",
			`{"call":"pay","args":{"to":"eve","sum":1},"want":"ALLOW"}`},
		{"an entry of in", "", `{"id":"who","deny":"pay","when":{"arg":"/to","in":["mal","tom"]}},`, "",
			`{"call":"pay","args":{"to":"mal","sum":1},"want":"DENY"}`, "entry dropped", "/rules/0/when/in/1",
			`{"call":"pay","args":{"to":"tom","sum":1},"want":"DENY"}`},
		{"a budget", "", "", `,"budgets":[{"id":"two","tools":["pay"],"limit":2,"per":"all","window":"total","cost":1}]`, ``,
			"budget dropped", "/budgets/0",
			`{"before":[{"call":"pay","args":{"to":"bob","sum":1}},{"call":"pay","args":{"to":"bob","sum":1}}],"call":"pay","args":{"to":"bob","sum":1},"want":"DENY"}`},
		{"a requirement", "", "", `,"requires":[{"id":"seen","tools":["pay"],"all":[{"receipt":"look"}]}]`,
			`{"before":[{"call":"look"}],"call":"pay","args":{"to":"bob","sum":1},"want":"ALLOW"}`, "requirement dropped", "/requires/0",
			`{"call":"pay","args":{"to":"bob","sum":1},"want":"DENY"}`},
		{"a quorum", "", "", `,"requires":[{"id":"two","tools":["pay"],"all":[{"approval":{"roles":["owner"],"quorum":2}}]}]`,
			`{"call":"pay","args":{"to":"bob","sum":1},"approve":["olga","oskar"],"want":"ALLOW"}`, "quorum less one",
			"/requires/0/all/0/approval/quorum", `{"call":"pay","args":{"to":"bob","sum":1},"approve":["olga"],"want":"DENY"}`},
		{"a scope", `"scope":[{"arg":"/to","in":["bob","sue"]}],`, "", "", ``, "scope dropped", "/tools/pay/scope",
			`{"call":"pay","args":{"to":"mal","sum":1},"want":"DENY"}`},
		{"a leaf", "", `{"id":"dear","deny":"pay","when":{"all":[{"arg":"/sum","gt":9},{"arg":"/to","ne":"bob"}]}},`, "",
			``, "negated", "/rules/0/when/all/1",
			`{"call":"pay","args":{"to":"sue","sum":10},"want":"DENY"}`},
	} {
		run := func(cases, ignore string) Report {
			text := `{"call":"pay","caller":"ann","name":"usual","args":{"to":"bob","sum":1},"want":"ALLOW"}`
			if c.name == "a requirement" || c.name == "a quorum" {
				text = `{"call":"look","caller":"ann","name":"usual","want":"ALLOW"}`
			}
			if cases != "" {
				text += "," + cases
			}
			s, err := Load(fstest.MapFS{
				"b.json": {Data: fmt.Appendf(nil, stack, c.tool, c.rules, c.more)},
				"c.json": {Data: []byte(`{"helm":"cases/v1","policy":["b.json"],"callers":{"ann":{"id":"ann","roles":["clerk"]}},
					"keys":{"olga":{"role":"approver","roles":["owner"]},"oskar":{"role":"approver","roles":["owner"]}},
					"cases":[` + text + `]` + ignore + `}`)},
			}, "c.json")
			require.NoError(t, err, c.name)
			for i := range s.cases { // by ann, all of them
				for k := range s.cases[i].steps {
					s.cases[i].steps[k].caller = s.cases[0].steps[0].caller
				}
			}
			r := mustRun(t, s, Options{Mutate: true})
			for i := range r.Cases {
				require.False(t, r.Cases[i].Failed(), "%s: %s", c.name, &r.Cases[i])
			}
			return r
		}
		mutant := func(r Report) (survived, found bool, m Mutant) {
			for _, m := range r.Mutants {
				if m.Kind == c.kind && m.Pointer == c.at {
					if m.Survived {
						return true, true, m
					}
					found = true
				}
			}
			return false, found, m
		}
		if c.name == "absent" { // the usual case has no note, so it tells the two apart by itself
			survived, found, _ := mutant(run(c.cases, ""))
			assert.True(t, found && !survived, c.name)
			continue
		}
		r := run(c.cases, "")
		survived, _, m := mutant(r)
		if assert.True(t, survived, "%s: the hole's mutant was killed: %v", c.name, r.Mutants) {
			assert.Regexp(t, `survived: b\.json:[1-5] `+c.at+": "+c.kind, r.String(), c.name)
			assert.False(t, r.OK())
			assert.Empty(t, m.Killer)
		}
		all := c.killer
		if c.cases != "" {
			all = c.cases + "," + all
		}
		survived, found, _ := mutant(run(all, ""))
		assert.True(t, found && !survived, "%s: survives the case that tells the two apart", c.name)
		ignored := run(c.cases, fmt.Sprintf(`,"ignore":[{"at":"b.json#%s","mutant":%q,"why":"a test"}]`, c.at, c.kind))
		survived, _, _ = mutant(ignored)
		assert.False(t, survived, "%s: ignored", c.name)
		assert.Empty(t, ignored.Faults)
	}
}

// A mutant that no case touched is a survivor, and never run.
func TestUntouchedMutant(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, "  - {caller: ann, call: list_payments, want: ALLOW}\n")
	r := mustRun(t, s, Options{Mutate: true})
	untouched := 0
	for _, m := range r.Mutants {
		if m.Cases == 0 {
			untouched++
			assert.True(t, m.Survived, "%s", m)
			assert.Empty(t, m.Killer)
		}
	}
	assert.Greater(t, untouched, 10)
	assert.Contains(t, r.String(), "(no case touched it)")
}

// An ignore that fits no unit, or no mutant, is a fault; coverage below Min is one.
func TestIgnoresAndMin(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, `  - {caller: ann, call: list_payments, want: ALLOW}
ignore:
  - {at: "bank.yaml#/rules/9", why: none}
  - {at: "bank.yaml#/rules/1", mutant: nothing, why: none}
  - {at: "bank.yaml#/rules/2", why: links are not tested here}
`)
	r := mustRun(t, s, Options{Mutate: true, Min: 99})
	assert.False(t, r.OK())
	require.Len(t, r.Faults, 3)
	assert.Equal(t, "c.yaml:10: bank.yaml#/rules/9: ignores no unit of the documents", r.Faults[0])
	assert.Equal(t, `c.yaml:11: bank.yaml#/rules/1: ignores no mutant "nothing"`, r.Faults[1])
	assert.Contains(t, r.Faults[2], "of at least 99.0 %")
	assert.NotContains(t, r.Coverage.String(), "/rules/2:")
	covered, of := r.Coverage.count()
	all := mustRun(t, suiteOf(t, "  - {caller: ann, call: list_payments, want: ALLOW}\n"), Options{})
	coveredAll, ofAll := all.Coverage.count()
	assert.Equal(t, ofAll-1, of)
	assert.Equal(t, coveredAll, covered)
}

// A rule that was only ever true is not covered, and is said to be never false.
func TestOnlyEverTrue(t *testing.T) {
	t.Parallel()
	lacks := func(cases string) string {
		r := mustRun(t, suiteOf(t, cases), Options{})
		for i := range r.Coverage.Units {
			if u := &r.Coverage.Units[i]; u.Pointer == "/rules/0" {
				return u.Lacks()
			}
		}
		return "no unit"
	}
	const yes, no = "  - {name: a, caller: ann, call: list_payments, want: ALLOW}\n", "  - {name: b, call: list_payments, want: DENY, reason: NO_POLICY_DEFINED}\n"
	assert.Equal(t, "never false", lacks(yes))
	assert.Equal(t, "never true", lacks(no))
	assert.Equal(t, "", lacks(yes+no))
	assert.Equal(t, "never reached", lacks("  - {call: send_money, args: {}, want: DENY, reason: SCHEMA_VIOLATION}\n"))
}

// An ignore with the change of a mutant ignores that one alone.
func TestIgnoreOneChange(t *testing.T) {
	t.Parallel()
	for mutant, want := range map[string][]string{
		"bound moved":               {"", ""},
		"bound moved: 1000 to 1001": {"", "survived"}, "bound moved: 1000 to 999": {"survived", ""},
	} {
		r := mustRun(t, suiteOf(t, `  - {caller: ann, before: [{call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5}, want: ALLOW}
ignore: [{at: "bank.yaml#/rules/1/when/gt", mutant: "`+mutant+`", why: a test}]
`), Options{Mutate: true})
		var got []string
		for _, m := range r.Mutants {
			if m.Pointer == "/rules/1/when/gt" {
				got = append(got, map[bool]string{true: "survived"}[m.Survived])
			}
		}
		assert.Equal(t, want, got, mutant)
		assert.Empty(t, r.Faults)
	}
	r := mustRun(t, suiteOf(t, `  - {caller: ann, call: list_payments, want: ALLOW}
ignore: [{at: "bank.yaml#/rules/1/when/gt", mutant: "bound moved: 1000 to 1002", why: a test}]
`), Options{Mutate: true})
	assert.Contains(t, r.String(), `ignores no mutant "bound moved: 1000 to 1002"`)
}
