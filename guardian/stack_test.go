package guardian

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// A stackGenerator makes random stacks over two bundles, whose tools t and w have the same fields.
type stackGenerator struct{ generator }

// deny is a random rule of a floor or overlay.
func (g stackGenerator) deny(i int, bundle bool) string {
	sel := pick(g.generator, `"t"`, `"w"`, `["t","w"]`, `"*"`, `{"effects":["read"]}`, `{"egress":true}`,
		`{"effects":["write","destructive"],"egress":true}`)
	if bundle {
		sel = pick(g.generator, `"t"`, `"*"`)
	}
	rule := fmt.Sprintf(`{"id":"r%d","deny":%s`, i, sel)
	if g.r.IntN(8) > 0 {
		rule += `,"when":{"all":[` + g.predicate(1) + `,` + g.predicate(1) + `]}`
	}
	if g.r.IntN(4) == 0 {
		rule += `,"unless":` + g.predicate(1)
	}
	return rule + `}`
}

// keys are what a floor and an overlay may both have.
func (g stackGenerator) keys() (out string) {
	var rules []string
	for i := range g.r.IntN(3) {
		rules = append(rules, g.deny(i, false))
	}
	if rules != nil {
		out += `,"rules":[` + strings.Join(rules, ",") + `]`
	}
	if g.r.IntN(6) == 0 {
		out += `,"only":` + pick(g.generator, `["t"]`, `["w"]`, `"*"`, `["t","w"]`)
	}
	if g.r.IntN(6) == 0 {
		out += `,"expires":` + pick(g.generator, `"2026-07-15T12:00:00Z"`, `"2099-01-01T00:00:00Z"`)
	}
	return out
}

func (g stackGenerator) floor(name string) string {
	keys := g.keys() + `,"sandboxes":{"wasi":{"memory":"1MiB"},"strict":{"gas":1000}}`
	if g.r.IntN(3) == 0 {
		keys += `,"profile":` + pick(g.generator, `{"effects":["read"]}`, `{"effects":["write"]}`,
			`{"connectors":["b"]}`, `{"connectors":["c","none"]}`,
			`{"sandbox":{"read":"wasi"}}`,
			`{"effects":["read","write"],"connectors":["c"],"sandbox":{"write":"wasi","read":"strict"}}`)
	}
	if g.r.IntN(3) == 0 {
		keys += `,"ceilings":` + pick(g.generator, `{"args":"1KiB"}`, `{"depth":2}`, `{"depth":3,"risk":"low"}`,
			`{"risk":"medium","timeout":"5s"}`, `{"timeout":"7s","output":"1KiB"}`)
	}
	return floor(name, keys)
}

func (g stackGenerator) overlay(name string) string {
	keys := g.keys()
	if g.r.IntN(3) == 0 {
		keys += `,"for":` + pick(g.generator, `{"caller":"ann"}`, `{"tenant":"acme","session":"main"}`,
			`{"session":"other"}`, `{"caller":"ann","tenant":"none"}`)
	}
	return overlay(name, keys)
}

// bundles are b with the tool t and c with w, of another effect.
func (g stackGenerator) bundles() []string {
	var out []string
	for i, name := range []string{"t", "w"} {
		tools := strings.Replace(toolText(name, fields, "r", "n", "l", "rows"), `"effect":"read"`,
			`"effect":`+[]string{`"read"`,
				`"write","scope":[{"arg":"/r","in":["a","A","ab","/srv","/srv/x","/srv-evil","ann@corp.com","10.0.0.1"]}]`}[i], 1)
		rules := []string{}
		for i := range g.r.IntN(3) {
			rules = append(rules, strings.Replace(g.deny(i, true), `"t"`, `"`+name+`"`, 1))
		}
		rules = append(rules, fmt.Sprintf(`{"id":"all","allow":"%s","when":%s}`, name,
			pick(g.generator, `{"caller":"roles","has":"clerk"}`, `{"caller":"roles","has":"clerk"}`, g.predicate(1))))
		out = append(out, bundle([]string{"b", "c"}[i], tools, strings.Join(rules, ",")))
	}
	return out
}

// call is one whose arguments mostly obey the schema.
func (g stackGenerator) call(t testing.TB, p *Policy) contracts.Inputs {
	in := inputs(t, pick(g.generator, "t", "w"), g.args())
	for range 8 {
		if p.stack.Tools["t"].Input.Validate(in.Args) == nil {
			break
		}
		in = inputs(t, in.Tool, g.args())
	}
	switch g.r.IntN(6) {
	case 0:
		pick(g.generator, housed("any", &contracts.Sandbox{Gas: 1000, Memory: 16}),
			housed("any", &contracts.Sandbox{Gas: 1000}), housed("any", strict), housed("reported", nil))(&in)
	case 1:
		in.Caller = contracts.Caller{Roles: []string{"clerk"}}
	case 2:
		in.Session = "other"
	case 3:
		if g.r.IntN(4) == 0 {
			in.Drivers = pick[uint64](g.generator, 0, 2)
		} else {
			delegated(&in)
		}
	}
	return in
}

// compiled returns nil for a stack with a rule that is dead, which random rules may be.
func compiled(t testing.TB, texts []string) *Policy {
	t.Helper()
	var docs []contracts.Document
	for _, text := range texts {
		docs = append(docs, document(t, "", text))
	}
	p, err := Compile(docs...)
	var e *LoadError
	if errors.As(err, &e) && (strings.Contains(e.What, "can never decide") ||
		strings.Contains(e.What, "can never be met")) {
		return nil
	}
	require.NoError(t, err, "%v\n%s", err, strings.Join(texts, "\n"))
	return p
}

// rank orders what denies: by condition, within 1 and 2 by the order in which the reasons are
// listed.
func rank(r *contracts.DecisionRecord) int {
	at := 0
	if r.Condition <= 2 {
		at = slices.Index(slices.Collect(contracts.Reasons()), r.Reason)
	}
	return r.Condition*1000 + at
}

// The published order: a stack denies as the first of its documents would by itself over the
// bundles, in the order of conditions, of reasons within 1 and 2, and of the stack; and allows
// if none of them denies. So no document can widen another, and none can change the reason of a
// condition that fails before its own. The order in which documents are handed in is nothing to the
// answer.
func TestStackIsItsDocuments(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := stackGenerator{generator{rand.New(rand.NewPCG(31, 32))}}
	seen := map[contracts.ReasonCode]int{}
	turned := 0
	for stacks := 0; stacks < 400; {
		base := g.bundles()
		var layers []string
		for i := range 1 + g.r.IntN(2) {
			layers = append(layers, g.floor(fmt.Sprint("f", i)))
		}
		for i := range 1 + g.r.IntN(2) {
			layers = append(layers, g.overlay(fmt.Sprint("o", i)))
		}
		whole := compiled(t, append(slices.Clone(base), layers...))
		bare := compiled(t, base)
		if whole == nil || bare == nil {
			continue
		}
		stacks++
		var alone []*Policy
		for _, text := range layers {
			alone = append(alone, compiled(t, append([]string{text}, base...)))
		}
		mixed := append(slices.Clone(base), layers...)
		g.r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		again := compiled(t, mixed)
		require.True(t, again.Hash() == whole.Hash() && reflect.DeepEqual(again.Record(), whole.Record()),
			"another order, another policy: %v and %v", again.Record(), whole.Record())
		for range 25 {
			in := g.call(t, bare)
			got, why := whole.judgedAlike(in, nil)
			seen[got.Reason]++
			first, _ := bare.judgedAlike(in, nil)
			allowed := bool(first.Verdict)
			for _, p := range alone {
				switch r, _ := p.judgedAlike(in, nil); {
				case !bool(r.Verdict) && (bool(first.Verdict) || rank(&r) < rank(&first)):
					first = r
				case bool(r.Verdict) && !allowed:
					t.Fatalf("one document allowed what the bundles deny: %v", first.Reason)
				case bool(r.Verdict) && bool(first.Verdict):
					first.Expires = min(first.Expires, r.Expires)
				}
			}
			first.PolicyHash = got.PolicyHash
			require.True(t, reflect.DeepEqual(first, got), "%s\non %s of %s (%+v)\ngave %v %d %q (%s)\nwant %v %d %q",
				strings.Join(mixed, "\n"), in.Args.Append(nil), in.Tool, in.Caller, got.Reason, got.Condition, got.Rule,
				why, first.Reason, first.Condition, first.Rule)
			if allowed && !bool(got.Verdict) {
				turned++
			}
			r, _ := again.judgedAlike(in, nil)
			require.Equal(t, r, got, "another order, another decision: %+v and", r)
		}
	}
	t.Logf("%d calls that the bundles allow are denied by layers; %v", turned, seen)
	atLeast(t, seen, 20, []contracts.ReasonCode{
		contracts.ReasonAllow, contracts.ReasonSideEffectNotPermitted, contracts.ReasonConnectorNotAllowed,
		contracts.ReasonSandboxViolation, contracts.ReasonDriverNotBound,
		contracts.ReasonSchemaViolation, contracts.ReasonDestinationNotAllowed, contracts.ReasonPolicyViolation,
		contracts.ReasonNoPolicyDefined, contracts.ReasonDelegationInvalid, contracts.ReasonCeilingViolation,
		contracts.ReasonFailClosedError})
	assert.True(t, turned >= 500, "layers denied only %d calls", turned)
}

// A floor, an overlay, or a deny anywhere in the rules of a bundle, added to a stack: what was
// denied stays denied, for a reason that is the same unless what was added fails at a condition no
// later.
func TestAddingNeverAllows(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := stackGenerator{generator{rand.New(rand.NewPCG(41, 42))}}
	kinds := []string{"floor", "overlay", "narrowed", "deny"}
	denied, changed := map[string]int{}, map[string]int{}
	for stacks := 0; stacks < 600; {
		docs := append(g.bundles(), g.floor("f"), g.overlay("o"))
		before := compiled(t, docs)
		if before == nil {
			continue
		}
		kind := kinds[stacks%len(kinds)]
		var after *Policy
		switch kind {
		case "floor":
			after = compiled(t, append(docs, g.floor(pick(g.generator, "a", "z"))))
		case "overlay":
			after = compiled(t, append(docs, g.overlay(pick(g.generator, "a", "z"))))
		case "narrowed":
			var e *LoadError
			p, err := before.Narrow(document(t, "", g.overlay("a")))
			require.False(t, errors.As(err, &e) && !strings.Contains(e.What, "can never decide"), "%v", err)
			after = p
		case "deny":
			rules := strings.Index(docs[0], `"rules":[`) + len(`"rules":[`)
			deny := strings.Replace(g.deny(9, true), `"t"`, `"*"`, 1) + ","
			if last := strings.Index(docs[0], `{"id":"all"`); g.r.IntN(2) == 0 && last > 0 {
				rules = last
			}
			docs[0] = docs[0][:rules] + deny + docs[0][rules:]
			after = compiled(t, docs)
		}
		if after == nil {
			continue
		}
		stacks++
		for range 30 {
			in := g.call(t, before)
			b, _ := before.judgedAlike(in, nil)
			a, _ := after.judgedAlike(in, nil)
			if bool(b.Verdict) {
				if !bool(a.Verdict) {
					changed[kind]++
				}
				continue
			}
			denied[kind]++
			same := a.Reason == b.Reason && a.Condition == b.Condition
			switch {
			case bool(a.Verdict):
				t.Fatalf("a %s turned %v into ALLOW", kind, b.Reason)
			case a.Condition > b.Condition:
				t.Fatalf("a %s turned %v at %d into %v at %d", kind, b.Reason, b.Condition, a.Reason, a.Condition)
			// it judges at 1, 2 and 8
			case kind == "floor" && b.Condition > 2 && b.Condition < 8 && a.Condition > 2 && !same,
				kind != "floor" && b.Condition < 5 && !same, // the others at 5
				kind == "narrowed" && b.Condition == 5 && !same:
				t.Fatalf("a %s turned %v at %d into %v at %d", kind, b.Reason, b.Condition, a.Reason, a.Condition)
			}
		}
	}
	for _, kind := range kinds {
		assert.True(t, denied[kind] >= 500 && changed[kind] >= 50, "%s: only %d denied before, %d then", kind,
			denied[kind], changed[kind])
	}
	t.Log(denied, changed)
}
