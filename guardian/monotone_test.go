package guardian

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// A wideGenerator makes stacks of everything that a document may say, calls by several callers under several chains of grants, and what is
// added to a stack.
type wideGenerator struct {
	stackGenerator
	state  *registry.State
	chains [][]contracts.Envelope
	forged []contracts.Envelope // which does not open
}

func newWide(t testing.TB, seed uint64) *wideGenerator {
	g := &wideGenerator{stackGenerator{generator{rand.New(rand.NewPCG(seed, seed+1))}}, trusted(t), nil, chained(t, contracts.Delegation{Delegator: "a stranger", Delegate: "ann", Only: []string{"t", "w"}})}
	for range 40 {
		delegate := pick(g.generator, "ann", "bob", "agent", "agent")
		leaf := contracts.Delegation{Delegator: pick(g.generator, "ann", "ann", "bob", "carl"), Delegate: delegate, Only: pick(g.generator, []string{"t", "w"}, []string{"t", "w"}, []string{"w"})}
		if g.r.IntN(2) == 0 {
			leaf.When = value(t, g.test())
		}
		grants := []contracts.Delegation{leaf}
		if g.r.IntN(3) == 0 {
			grants = append([]contracts.Delegation{{Delegator: "ann", Delegate: leaf.Delegator, Depth: uint64(g.r.IntN(4)), Only: []string{"t", "w"}}}, leaf)
		}
		g.chains = append(g.chains, chained(t, grants...))
	}
	return g
}

// test is a predicate about arguments, caller or time.
func (g *wideGenerator) test() string {
	switch g.r.IntN(8) {
	case 0:
		return `{"caller":"id","` + pick(g.generator, `eq":"ann"`, `ne":"agent"`, `prefix":"a"`) + g.absent() + `}`
	case 1:
		return `{"time":"utc","in":["` + pick(g.generator, "Wed 11:00-13:00", "Sat-Sun 00:00-24:00") + `"]}`
	}
	return g.predicate(1)
}

// A doc is a document to change.
type doc map[string]any

func read(t testing.TB, text string) (d doc) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

func (d doc) text() string { b, _ := json.Marshal(d); return string(b) }

// insert puts one more into a list of the document, at some place.
func (d doc) insert(t testing.TB, g *wideGenerator, key, text string) {
	list, _ := d[key].([]any)
	d[key] = slices.Insert(slices.Clone(list), g.r.IntN(len(list)+1), any(read(t, text)))
}

// own is what a document of that kind may select.
func (d doc) own(g *wideGenerator) string {
	if d["layer"] != "P1" {
		return pick(g.generator, `"t"`, `"*"`, `["t","w"]`, `{"effects":["read","write"]}`, `{"egress":true}`)
	}
	for name := range d["tools"].(map[string]any) { // there is one
		return `"` + name + `"`
	}
	return ""
}

func (g *wideGenerator) rule(d doc, id string) string {
	text := `{"id":"` + id + `","deny":` + d.own(g)
	if g.r.IntN(8) > 0 {
		text += `,"when":{"all":[` + g.test() + `,` + g.test() + `]}`
	}
	if g.r.IntN(4) == 0 {
		text += `,"unless":` + g.test()
	}
	return text + `}`
}

func (g *wideGenerator) budget(d doc, id string) string {
	text := fmt.Sprintf(`{"id":%q,"tools":%s,"limit":%d,"per":%s,"cost":%s,"window":%s`, id, d.own(g), g.r.IntN(30), pick(g.generator, `"all"`, `"caller"`, `"tenant"`, `"tool"`),
		pick(g.generator, `1`, `1`, `{"arg":"/n"}`, `{"arg":"/n","scale":1}`), pick(g.generator, `"hour"`, `"month"`, `"total"`))
	if g.r.IntN(2) == 0 {
		text += `,"when":` + g.test()
	}
	return text + `}`
}

// stack is a random stack without the rest of what may be added to it.
func (g *wideGenerator) stack(t testing.TB) (docs []doc) {
	for _, text := range g.bundles() {
		docs = append(docs, read(t, text))
	}
	for i := range 1 + g.r.IntN(3) {
		docs = append(docs, g.layer(t, fmt.Sprint("x", i)))
	}
	for i, d := range docs {
		for range g.r.IntN(2) {
			d.insert(t, g, "budgets", g.budget(d, fmt.Sprint("b", i)))
		}
	}
	return docs
}

// layer is a random floor or overlay.
func (g *wideGenerator) layer(t testing.TB, name string) doc {
	d := read(t, pick(g.generator, g.floor(name), g.overlay(name)))
	if g.r.IntN(3) == 0 {
		d.insert(t, g, "budgets", g.budget(d, "first"))
	}
	return d
}

// An addition is something more to deny by.
type addition struct {
	name string
	add  func(t testing.TB, g *wideGenerator, docs []doc) []doc
}

func into(key string, make func(g *wideGenerator, d doc, id string) string) func(t testing.TB, g *wideGenerator, docs []doc) []doc {
	return func(t testing.TB, g *wideGenerator, docs []doc) []doc {
		i := g.r.IntN(len(docs))
		d := doc{}
		for k, v := range docs[i] {
			d[k] = v
		}
		d.insert(t, g, key, make(g, d, "added"))
		docs[i] = d
		return docs
	}
}

var additions = []addition{
	{"floor", func(t testing.TB, g *wideGenerator, docs []doc) []doc { return append(docs, read(t, g.floor("added"))) }},
	{"overlay", func(t testing.TB, g *wideGenerator, docs []doc) []doc {
		return append(docs, read(t, g.overlay("added")))
	}},
	{"deny", into("rules", (*wideGenerator).rule)},
	{"budget", into("budgets", (*wideGenerator).budget)},
}

// wide compiles; nil is for what random documents may be refused for.
func wide(t testing.TB, docs []doc) *Policy {
	var texts []string
	for _, d := range docs {
		texts = append(texts, d.text())
	}
	return compiled(t, texts)
}

// ask is a random call; of some the first that the stack allows, for those are rare.
func (g *wideGenerator) ask(t testing.TB, p *Policy) (in contracts.Inputs) {
	for range 1 + g.r.IntN(4) {
		in = g.anyCall(t, p)
		asked := in
		if d, _ := p.Decide(&asked, g.state, onlyLedger{new(Ledger)}); d.Verdict == contracts.Allow {
			break
		}
	}
	return in
}

func (g *wideGenerator) anyCall(t testing.TB, p *Policy) contracts.Inputs {
	in := g.call(t, p)
	in.Envelopes.Delegation = nil
	in.Caller = pick(g.generator, in.Caller, in.Caller, contracts.Caller{ID: "agent", Tenant: "acme", Roles: []string{"bot"}}, contracts.Caller{ID: "bob", Tenant: "acme", Roles: []string{"clerk"}})
	switch g.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		in.Envelopes.Delegation = pick(g.generator, g.chains...)
		if leaf, _, err := registry.OpenDelegation(g.state, in.Envelopes.Delegation); err == nil && g.r.IntN(8) > 0 {
			in.Caller = contracts.Caller{ID: leaf[0].Delegate, Tenant: "acme", Roles: []string{"bot"}}
		}
	case 5:
		in.Envelopes.Delegation = g.forged
	}
	return in
}

// widened tells what of a decision is more than before.
func widened(before, after *contracts.DecisionRecord) string {
	switch {
	case after.Verdict == contracts.Deny:
		return ""
	case before.Verdict == contracts.Deny:
		return "a DENY became an ALLOW"
	case before.Rule != after.Rule:
		return "another rule allows"
	case before.Expires < after.Expires:
		return "it may take longer"
	}
	for _, c := range before.Charges {
		if !slices.Contains(after.Charges, c) {
			return "a charge is gone"
		}
	}
	return ""
}

// tally is what random additions did.
type tally struct {
	cases   int
	denied  map[string]int // that the stack allowed, by step
	allowed map[string]int // still
	granted int            // of those, under grants
	wider   string         // the first decision that was widened
}

// monotone adds to that many random stacks, by every addition, and judges 14 calls before and after each. broken changes what comes after.
func monotone(t testing.TB, seed uint64, stacks int, broken func(*Policy)) tally {
	g := newWide(t, seed)
	c := tally{denied: map[string]int{}, allowed: map[string]int{}}
	for n := 0; n < stacks && c.wider == ""; {
		docs := g.stack(t)
		p := wide(t, docs)
		if p == nil {
			continue
		}
		n++
		for _, s := range additions {
			more := s.add(t, g, slices.Clone(docs))
			q := wide(t, more)
			if q == nil {
				continue
			}
			if broken != nil {
				broken(q)
			}
			past := onlyLedger{new(Ledger)}
			for range 14 {
				in := g.ask(t, p)
				first, second := in, in
				before, _ := p.Decide(&first, g.state, past)
				after, why := q.Decide(&second, g.state, past)
				c.cases++
				switch what := widened(&before, &after); {
				case what != "":
					c.wider = fmt.Sprintf("%s by a %s: %s %s, then %s %s (%s)\n%s of %s (%+v)\n", what, s.name, before.Reason, before.Rule, after.Reason, after.Rule, why, in.Args.Append(nil), in.Tool, in.Caller)
					for _, d := range more {
						c.wider += d.text() + "\n"
					}
					return c
				case before.Verdict == contracts.Allow && after.Verdict == contracts.Deny:
					c.denied[s.name]++
				case before.Verdict == contracts.Allow:
					c.allowed[s.name]++
					if after.Delegation != nil {
						c.granted++
					}
				}
				past.Reserve(before.Charges, &first)
			}
		}
	}
	return c
}

// Whatever is added to a stack, be it a floor, an overlay, or in any document a rule that denies or a budget: what it denied stays denied, and
// what it still allows it allows by the same rule, for no longer, and for the same charges at least.
func TestMonotone(t *testing.T) {
	c := monotone(t, 71, 250, nil)
	if c.wider != "" {
		t.Fatal(c.wider)
	}
	t.Logf("%d cases; denied after all %v, still allowed %v, %d of them under grants", c.cases, c.denied, c.allowed, c.granted)
	if c.cases < 10_000 || c.granted < 100 {
		t.Errorf("%d cases, %d allowed under grants", c.cases, c.granted)
	}
	for _, s := range additions {
		if c.denied[s.name] < 30 || c.allowed[s.name] < 100 {
			t.Errorf("%s: denied %d, still allowed %d", s.name, c.denied[s.name], c.allowed[s.name])
		}
	}
}

// The property is one that a stack can lack: each of these ways to put documents together is found out.
func TestMonotoneFinds(t *testing.T) {
	each := func(change func(*tool)) func(*Policy) {
		return func(p *Policy) {
			for _, t := range p.tools {
				change(t)
			}
		}
	}
	last := func(list []clause) []clause { return list[max(len(list)-1, 0):] }
	for name, broken := range map[string]func(*Policy){
		"an overlay's rules allow": each(func(t *tool) {
			for _, c := range t.overlays {
				for _, x := range c.rules {
					x.allow = true
					t.rules = append([]rule{x}, t.rules...)
				}
			}
		}),
		"what is added allows": each(func(t *tool) {
			for i := range t.rules {
				t.rules[i].allow = t.rules[i].allow || strings.HasSuffix(t.rules[i].name, ":added")
			}
		}),
		"the last floor alone counts":   each(func(t *tool) { t.floors = last(t.floors) }),
		"the last overlay alone counts": each(func(t *tool) { t.overlays = last(t.overlays) }),
		"the last budget alone counts":  each(func(t *tool) { t.budgets = t.budgets[max(len(t.budgets)-1, 0):] }),
		"a floor lifts limits": each(func(t *tool) {
			if len(t.floors) > 0 {
				t.limits, t.depth = mostLimits, 0
			}
		}),
		"a second document lifts a bar": each(func(t *tool) {
			if len(t.floors)+len(t.overlays) > 1 {
				t.barred, t.sandboxes = "", nil
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if c := monotone(t, 71, 250, broken); c.wider == "" {
				t.Errorf("not found in %d cases", c.cases)
			} else {
				t.Logf("case %d: %s", c.cases, strings.SplitN(c.wider, "\n", 2)[0])
			}
		})
	}
}
