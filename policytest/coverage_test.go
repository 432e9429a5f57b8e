package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// A maker makes random stacks and cases.
type maker struct{ *rand.Rand }

func (r maker) pick(list ...string) string { return list[r.IntN(len(list))] }

// predicate is one over the arguments of the tool t, inside a quantifier of an element.
func (r maker) predicate(depth int, inside bool) string {
	if depth > 0 && r.IntN(2) == 0 {
		kids := func() string {
			var list []string
			for range 1 + r.IntN(3) {
				list = append(list, r.predicate(depth-1, inside))
			}
			return strings.Join(list, ",")
		}
		switch r.IntN(4) {
		case 0:
			return `{"all":[` + kids() + `]}`
		case 1:
			return `{"any":[` + kids() + `]}`
		case 2:
			return `{"not":` + r.predicate(depth-1, inside) + `}`
		}
		if !inside {
			switch r.IntN(3) {
			case 0:
				return `{"some":"/list","that":` + r.predicate(depth-1, true) + `}`
			case 1:
				return `{"every":"/list","that":` + r.predicate(depth-1, true) + `}`
			}
			return `{"count":"/list","that":` + r.predicate(depth-1, true) + `,"gt":` + fmt.Sprint(r.IntN(3)) + `}`
		}
	}
	if inside && r.IntN(2) == 0 {
		return `{"item":"","` + r.pick("lt", "ge", "eq") + `":` + fmt.Sprint(r.IntN(9)) + `}`
	}
	leaf := []string{
		`{"arg":"/n","` + r.pick("lt", "le", "gt", "ge", "eq", "ne") + `":` + fmt.Sprint(r.IntN(9)) + `}`,
		`{"arg":"/s","eq":"` + r.pick("a", "b", "c") + `"}`,
		`{"arg":"/s","within":"/srv"}`, // an error of most values
		`{"arg":"/o","eq":"x","absent":` + r.pick("true", "false") + `}`,
		`{"caller":"roles","has":"` + r.pick("clerk", "boss") + `"}`,
		`{"session":"calls","lt":` + fmt.Sprint(1+r.IntN(4)) + `}`,
	}
	if !inside {
		leaf = append(leaf, `{"receipt":"u"}`, `{"receipt":"u","that":{"fact":"n","gt":`+fmt.Sprint(r.IntN(9))+`}}`,
			`{"count":"/list","ge":`+fmt.Sprint(r.IntN(3))+`}`)
	}
	return r.pick(leaf...)
}

func (r maker) rule(id int, kind, more string) string {
	when := `,"when":` + r.predicate(3, false)
	if r.IntN(3) == 0 {
		when += `,"unless":` + r.predicate(2, false)
	}
	return fmt.Sprintf(`{"id":"r%d",%s%s%s}`, id, kind, more, when)
}

// files are a random stack of a bundle and a floor, and cases over it.
func (r maker) files() fstest.MapFS {
	var rules, floor, requires, budgets, cases []string
	for i := range 2 + r.IntN(4) {
		rules = append(rules, r.rule(i, r.pick(`"allow":"t"`, `"deny":"t"`), ""))
	}
	rules = append(rules, `{"id":"u","allow":"u"}`)
	for i := range r.IntN(3) {
		floor = append(floor, r.rule(i, `"deny":"t"`, ""))
	}
	for i := range r.IntN(2) {
		requires = append(requires, r.rule(i+100, `"tools":["t"]`,
			r.pick(`,"any":[{"receipt":"u"},{"approval":{"roles":["owner"]}}]`, `,"all":[{"receipt":"u"}]`)))
	}
	for i := range r.IntN(2) {
		budgets = append(budgets, r.rule(i+200, `"tools":["t"]`,
			fmt.Sprintf(`,"limit":%d,"per":"all","window":"total","cost":1`, r.IntN(3))))
	}
	for i := range 6 {
		args := fmt.Sprintf(`{"n":%d,"s":%q,"list":[%d,%d]`, r.IntN(9), r.pick("a", "b", "/srv/x"), r.IntN(9), r.IntN(9))
		if r.IntN(2) == 0 {
			args += `,"o":"` + r.pick("x", "y") + `"`
		}
		before := ""
		if r.IntN(2) == 0 {
			before = `"before":[{"call":"u"}],`
		}
		cases = append(cases, fmt.Sprintf(`{"name":"c%d","caller":{"id":"ann","roles":["%s"]},%s"call":"t","args":%s},"want":"ALLOW"}`,
			i, r.pick("clerk", "boss"), before, args))
	}
	list := func(of []string) string { return "[" + strings.Join(of, ",") + "]" }
	return fstest.MapFS{
		"f.json": {Data: []byte(`{"helm":"policy/v1","layer":"P0","name":"f","version":1,"labels":["errs"],"rules":` + list(floor) + `}`)},
		"b.json": {Data: []byte(`{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{
			"t":{"effect":"write","input":{"type":"object","required":["n","s","list"],"properties":{"n":{"type":"integer"},
				"s":{"type":"string"},"o":{"type":"string"},"list":{"type":"array","items":{"type":"integer"}}}}},
			"u":{"effect":"read","input":{"type":"object"},"output":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}},"facts":{"n":"/n"}}},
			"rules":` + list(rules) + `,"requires":` + list(requires) + `,"budgets":` + list(budgets) + `}`)},
		"c.json": {Data: []byte(`{"helm":"cases/v1","policy":["f.json","b.json"],"keys":{"olga":{"role":"approver","roles":["owner"]}},
			"tools":{"u":{"output":{"n":4}}},"cases":` + list(cases) + `}`)},
	}
}

// errs is a predicate that always is an error: no rule asks for labels, so no inputs have them.
const (
	errs     = `{"session":"labels","has":"errs"}`
	errsWhat = "the inputs lack the labels of the session"
)

func object(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// TestCoverageIsExact counts a second time what was reached, without a trace. If a leaf u of a
// policy is replaced by all: [u, E], with E a predicate that errs, a judgement has that error iff
// it reached u and found it true; with any: [u, E], iff false. Likewise the conditions of rules. Of
// requirements and budgets it says which applied; which of those were unmet or exceeded the record
// says.
func TestCoverageIsExact(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := maker{rand.New(rand.NewPCG(7, 8))}
	stacks, compared, hits := 0, 0, map[string]int{}
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for tries := 0; stacks < rounds; tries++ {
		require.Less(t, tries, 20*rounds, "few of the stacks load")
		s, err := Load(r.files(), "c.json")
		if err != nil {
			require.NotContains(t, err.Error(), "c.json", "of the cases, and not of the stack")
			continue // a dead rule, or another thing that no loader takes
		}
		stacks++
		inputs, states := recorded(t, s)
		for _, u := range newCounter(s).units {
			unmet(t, s, u, inputs, states, hits)
			for _, result := range []guardian.Result{guardian.True, guardian.False} {
				p, ok := planted(t, s, u, result)
				if !ok {
					continue
				}
				for i, in := range inputs {
					record, _, trace := s.policy.Explain(*in, states[i], guardian.ExplainOptions{})
					told := false
					applied := u.Kind == "requirement" || u.Kind == "budget"
					for _, x := range trace {
						told = told || x.Document == u.Document && x.Pointer == u.Pointer &&
							(x.Result == result || applied && x.Result != guardian.Error)
					}
					_, why := p.Judge(*in, states[i])
					is := why.What == errsWhat
					compared++
					if is && !told && u.Kind == "requirement" && record.Condition > 4 && record.Verdict == contracts.Deny &&
						record.Reason != contracts.ReasonApprovalRequired && approvable(s) {
						continue // an approval is asked for last, and the call was denied before
					}
					if is {
						hits[u.Kind+" "+result.String()]++
					}
					require.Equal(t, is, told, "%s %s %s %v: %s\n%s", u.Document, u.Kind, u.Pointer, result, why,
						s.policy.Documents()[1].Canonical)
				}
			}
		}
	}
	t.Log(compared, hits)
	for _, kind := range []string{"rule true", "rule false", "predicate true", "predicate false"} {
		assert.Greater(t, hits[kind], rounds, kind)
	}
	for _, kind := range []string{"requirement true", "budget true", "requirement unmet", "budget unmet"} {
		assert.Greater(t, hits[kind], rounds/10, kind)
	}
}

// approvable reports whether a requirement may be met by an approval.
func approvable(s *Suite) bool {
	return strings.Contains(string(s.policy.Documents()[1].Canonical), `"approval"`)
}

// unmet compares with the records which requirements were unmet and which budgets exceeded: there
// is at most one of each in a stack, and it denies the call.
func unmet(
	t *testing.T, s *Suite, u Unit, inputs []*contracts.Inputs, states []*registry.State, hits map[string]int,
) {
	t.Helper()
	if u.Kind != "requirement" && u.Kind != "budget" {
		return
	}
	var name string
	for _, d := range s.policy.Documents() {
		if d.Name == u.Document {
			root := parsed(d)
			name = prefixOf(root) + follow(root, u.Pointer).Get("id").Text()
		}
	}
	for i, in := range inputs {
		record, _, trace := s.policy.Explain(*in, states[i], guardian.ExplainOptions{})
		told := false
		for _, x := range trace {
			told = told || x.Document == u.Document && x.Pointer == u.Pointer && x.Result == guardian.False
		}
		is := record.Rule == name && record.Reason != contracts.ReasonFailClosedError
		if is {
			hits[u.Kind+" unmet"]++
		}
		require.Equal(t, is, told, "%s: %s by %s\n%s", name, record.Reason, record.Rule, s.policy.Documents()[1].Canonical)
	}
}

// recorded runs the cases, and returns the inputs and trust states of all that a policy judged.
func recorded(t *testing.T, s *Suite) (list []*contracts.Inputs, states []*registry.State) {
	t.Helper()
	ctx := context.Background()
	for _, c := range s.cases {
		w, err := s.newWorld(s.policy, c)
		require.NoError(t, err)
		for i := range c.steps {
			_, _ = w.do(ctx, &c.steps[i])
		}
		_, err = explained.Walk(ctx, w.store, w.kernel.Trust(), func(_ uint64, st *contracts.Statement, state *registry.State) error {
			if d := st.Judgement(); d != nil && !d.KernelsOwn() {
				b, err := w.store.Blob(ctx, d.InputsHash)
				require.NoError(t, err)
				in, err := contracts.ParseInputs(b)
				require.NoError(t, err)
				list, states = append(list, in), append(states, state)
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, w.verified(ctx))
	}
	return list, states
}

// planted returns the stack with the error in the place of a leaf or condition.
func planted(t *testing.T, s *Suite, u Unit, result guardian.Result) (*guardian.Policy, bool) {
	t.Helper()
	all, first := "all", result == guardian.True
	if !first {
		all = "any"
	}
	to := func(old any) (any, bool) { return map[string]any{all: []any{old, object(t, errs)}}, true }
	switch {
	case u.Kind == "rule", (u.Kind == "requirement" || u.Kind == "budget") && first:
		to = func(old any) (any, bool) {
			rule := old.(map[string]any)
			when, unless := rule["when"], rule["unless"]
			switch {
			case first && unless == nil:
				rule["unless"] = object(t, errs)
			case first:
				rule["unless"] = map[string]any{"any": []any{unless, object(t, errs)}}
			case unless == nil && when == nil:
				return rule, true
			default:
				var list []any
				if when != nil {
					list = append(list, when)
				}
				if unless != nil {
					list = append(list, map[string]any{"not": unless})
				}
				delete(rule, "unless")
				rule["when"] = map[string]any{"any": []any{map[string]any{"all": list}, object(t, errs)}}
			}
			return rule, true
		}
	case u.Kind != "predicate":
		return nil, false
	}
	docs := s.policy.Documents()
	for i, d := range docs {
		if d.Name == u.Document {
			var ok bool
			docs[i], ok = changed(d, change{at: u.Pointer, to: to})
			require.True(t, ok)
		}
	}
	p, err := guardian.Compile(docs...)
	return p, err == nil
}
