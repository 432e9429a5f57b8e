package guardian

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// alike is a bundle of tools of one input, and one of another.
func alike(t testing.TB) doc {
	d := doc{"helm": "policy/v1", "layer": "P1", "bundle": map[string]any{"name": "d", "version": 1}}
	var tools []string
	for _, name := range []string{"x1", "x2", "x3", "x4"} {
		tools = append(tools, toolText(name, fields, "r", "n", "l", "rows"))
	}
	tools = append(tools, toolText("x5", fields+`,"more":{"type":"string"}`, "r", "n", "l", "rows"))
	d["tools"] = read(t, `{`+strings.Join(tools, ",")+`}`)
	d["rules"] = []any{read(t,
		`{"id":"all","allow":["x1","x2","x3","x4","x5"],"when":{"caller":"roles","has":"clerk"}}`)}
	return d
}

// overlays are those of one to three tasks, in the order of their names, which come after those of
// the stack. Some are wrong.
func (g *wideGenerator) overlays(t testing.TB) (docs []doc) {
	for i := range 1 + g.r.IntN(3) {
		d := g.layer(t, g.overlay(fmt.Sprint("y", i)))
		switch g.r.IntN(8) {
		case 0:
			d["only"] = []any{"x*"}
		case 1:
			d["only"] = []any{"x*", "t"}
		case 2:
			d["only"] = []any{"x2", "w"}
		}
		for n, insert := range []func(*wideGenerator, doc, string) string{
			(*wideGenerator).rule, (*wideGenerator).budget, (*wideGenerator).requirement} {
			if g.r.IntN(3) == 0 {
				d.insert(t, g, []string{"rules", "budgets", "requires"}[n], insert(g, d, fmt.Sprint("z", n)))
			}
		}
		if g.r.IntN(6) == 0 {
			g.spoil(t, d)
		}
		docs = append(docs, d)
	}
	return docs
}

// spoil makes a mistake in an overlay.
func (g *wideGenerator) spoil(t testing.TB, d doc) {
	switch g.r.IntN(10) {
	case 0:
		d["only"] = []any{"t", "x6"}
	case 1:
		d["onlly"] = []any{"t"}
	case 2:
		d["name"] = "y0"
	case 3:
		d["version"] = 0
	case 4:
		d.insert(t, g, "rules", `{"id":"s","deny":["x1","x5"],"when":{"arg":"/more","eq":"a","absent":false}}`)
	case 5:
		d.insert(t, g, "rules", `{"id":"s","allow":"t"}`)
	case 6:
		d.insert(t, g, "budgets", `{"id":"s","tools":"*","limit":1,"per":"all","window":"total","cost":{"arg":"/on"}}`)
	case 7:
		d.insert(t, g, "requires", `{"id":"s","tools":"x*","all":[{"receipt":"t","same":["/o"]}]}`)
	case 8:
		d.insert(t, g, "rules", `{"id":"s","deny":"*","when":{"caller":"roles","has":"x"}}`)
		d.insert(t, g, "rules", `{"id":"s2","deny":"*","when":{"caller":"roles","has":"x"}}`)
	case 9:
		d["profile"] = map[string]any{"effects": []any{"none"}}
	}
}

// placed is the document with a place for everything in it, in some order.
func (d doc) placed(t testing.TB, r *rand.Rand) contracts.Document {
	out := document(t, fmt.Sprint(d["name"], d["bundle"]), d.text())
	out.Lines = map[string]contracts.Pos{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		out.Lines[at] = contracts.Pos{Line: 1 + r.IntN(400), Column: 1 + r.IntN(9)}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(at+"/"+value.EscapeSegment(k), x)
			}
		case []any:
			for i, x := range v {
				walk(at+"/"+strconv.Itoa(i), x)
			}
		}
	}
	walk("", map[string]any(read(t, d.text())))
	return out
}

// A shared is what a random test of narrowing met.
type shared struct {
	seen    map[contracts.ReasonCode]int
	refused map[string]int // by the first words
	stacks  int
	differs string // the first difference
}

// share narrows random stacks, at once and step by step, and compiles the same documents as one.
// broken changes what came of narrowing.
func share(t testing.TB, seed uint64, stacks int, broken func(*program.More)) shared {
	g := newWide(t, seed)
	c := shared{seen: map[contracts.ReasonCode]int{}, refused: map[string]int{}}
	for c.stacks < stacks && c.differs == "" {
		var base, overlays []contracts.Document
		text := ""
		docs := append(g.stack(t), alike(t))
		for i, d := range append(docs, g.overlays(t)...) {
			text += d.text() + "\n"
			if list := &base; i < len(docs) {
				*list = append(*list, d.placed(t, g.r))
			} else {
				overlays = append(overlays, d.placed(t, g.r))
			}
		}
		p, err := Compile(base...)
		if err != nil {
			continue // a stack that nothing can be put over
		}
		whole, want := Compile(append(slices.Clone(base), overlays...)...)
		once, err := p.Narrow(overlays...)
		steps, stepErr := p, error(nil)
		for _, x := range overlays {
			if stepErr == nil {
				steps, stepErr = steps.Narrow(x)
			}
		}
		// An overlay over a stack in use cannot make a requirement one that no call can meet: see
		// TestNarrowedRequirements of package compile.
		if circle := "can never be met"; want != nil && strings.Contains(want.Error(), circle) ||
			err != nil && strings.Contains(err.Error(), circle) {
			c.refused[circle]++
			continue
		}
		if want != nil {
			var e *LoadError
			require.ErrorAs(t, want, &e)
			c.refused[strings.Join(strings.Fields(e.What)[:2], " ")]++
			as := reflect.DeepEqual(want, err)
			// Two overlays of one name: Compile reads them in the order of their texts.
			const second = "a second P2 document"
			if err != nil && (strings.Contains(want.Error(), second) || strings.Contains(err.Error(), second)) {
				as = true
			}
			if !as || stepErr == nil {
				c.differs = fmt.Sprintf("refused with %v and %v, want %v\n%s", err, stepErr, want, text)
			}
			continue
		}
		c.stacks++
		if err != nil || stepErr != nil {
			c.differs = fmt.Sprintf("refused: %v, %v\n%s", err, stepErr, text)
			continue
		}
		if broken != nil {
			for _, name := range []string{"t", "w", "x1", "x2", "x3", "x4", "x5"} {
				broken(once.stack.More(name))
			}
		}
		for _, q := range []*Policy{once, steps} {
			if c.differs == "" {
				c.differs = same(whole, q)
			}
		}
		again, err := Compile(base...)
		require.NoError(t, err)
		if what := same(again, p); what != "" && c.differs == "" {
			c.differs = "narrowing changed the stack: " + what
		}
		past := newTold()
		for range 12 {
			in := g.ask(t, p)
			if g.r.IntN(3) == 0 {
				in.Tool = pick(g.generator, "x1", "x2", "x5")
			}
			ins := [3]contracts.Inputs{in, in, in}
			willing := pick(g.generator, approvers...)
			d, why := g.consult(t, whole, &ins[0], past, willing)
			allowed := d
			c.seen[d.Reason]++
			for i, q := range []*Policy{once, steps} {
				in := &ins[i+1]
				got, gotWhy := g.consult(t, q, in, past, willing)
				if c.differs == "" && (!reflect.DeepEqual(d, got) || !reflect.DeepEqual(why, gotWhy) ||
					!reflect.DeepEqual(ins[0].State, in.State)) {
					c.differs = fmt.Sprintf("%s of %s (%+v): %s %s (%s), want %s %s (%s)\n%s", in.Args.Append(nil),
						in.Tool,
						in.Caller, got.Reason, got.Rule, gotWhy, d.Reason, d.Rule, why, text)
				}
			}
			past.add(t, &ins[0], &allowed)
			first, second := in, in
			d, why = g.consult(t, again, &first, past, willing)
			if got, gotWhy := g.consult(t, p, &second, past, willing); c.differs == "" &&
				(!reflect.DeepEqual(d, got) || !reflect.DeepEqual(why, gotWhy)) {
				c.differs = fmt.Sprintf("narrowing changed the stack: %s (%s), was %s (%s)\n%s", got.Reason, gotWhy,
					d.Reason,
					why, text)
			}
		}
	}
	return c
}

// same tells in what two policies differ, apart from their judgements.
func same(p, q *Policy) string {
	for _, at := range []contracts.Time{noon, noon + 1, noon.Add(100 * 365 * 24 * 3600e9)} {
		if !reflect.DeepEqual(p.Expired(at), q.Expired(at)) {
			return fmt.Sprintf("expired: %v, want %v", q.Expired(at), p.Expired(at))
		}
	}
	if p.Hash() != q.Hash() || !reflect.DeepEqual(p.Record(), q.Record()) ||
		!reflect.DeepEqual(p.Documents(), q.Documents()) {
		return fmt.Sprintf("%v, want %v", q.Record(), p.Record())
	}
	for _, tool := range []string{"t", "w", "x1", "x2", "x5", "none"} {
		all := func(p *Policy) []any {
			limits, ok := p.Limits(tool)
			definition, defined := p.Definition(tool)
			return []any{limits, ok, definition, defined, p.Compared(tool), p.HasOutput(tool),
				p.Refunds(tool, contracts.ReasonToolError)}
		}
		if a, b := all(p), all(q); !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("%s: %v, want %v", tool, b, a)
		}
	}
	return ""
}

// A stack that is narrowed judges, hashes, refuses and reports as one of the same documents that is
// compiled whole, and the stack that it was narrowed from is what it was before.
func TestNarrowedIsWhole(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	c := share(t, 91, rounds(500), nil)
	require.Equal(t, "", c.differs)
	t.Logf("%d stacks; %v; refused %v", c.stacks, c.seen, c.refused)
	atLeast(t, c.seen, rounds(100), []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonPolicyViolation,
		contracts.ReasonBudgetExceeded, contracts.ReasonMissingRequirement, contracts.ReasonFailClosedError})
	atLeast(t, c.refused, rounds(5), []string{"no tool", "unknown key", "a second", "not a", "allow in",
		"the cost", "the value", "the rule", `no "/more"`})
}

// The property is one that sharing can lack: each of these ways to lose what an overlay says is
// found out.
func TestNarrowedIsWholeFinds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, broken := range map[string]func(*program.More){
		"rules, only and expiry": func(x *program.More) { x.Overlays = nil },
		"the first overlay":      func(x *program.More) { x.Overlays = x.Overlays[min(1, len(x.Overlays)):] },
		"requirements":           func(x *program.More) { x.Requires = nil },
		"budgets":                func(x *program.More) { x.Budgets = nil },
		"comparisons":            func(x *program.More) { x.Compared = nil },
		"subjects":               func(x *program.More) { x.Subjects = nil },
		"the order": func(x *program.More) {
			x.Overlays = slices.Clone(x.Overlays)
			slices.Reverse(x.Overlays)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := share(t, 91, 600, broken)
			assert.NotEqual(t, "", c.differs, "not found in %d stacks", c.stacks)
		})
	}
}

// Many narrow one stack at once, while others judge by it.
func TestNarrowAtOnce(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", fields, "r")+","+toolText("u", fields, "r"),
		`{"id":"all","allow":["t","u"]}`),
		floor("f", `,"budgets":[{"id":"b","tools":"*","limit":9,"per":"all","window":"total","cost":1}]`))
	past := onlyLedger{new(past.Ledger)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				q, err := p.Narrow(document(t, "", overlay(fmt.Sprint("o", i), fmt.Sprintf(
					`,"only":"t","expires":"2099-01-01T00:00:00Z","rules":[{"id":"r","deny":"t","when":{"arg":"/o","eq":"%d","absent":false}}],
					"requires":[{"id":"q","tools":"u","all":[{"receipt":"t","same":["/r"]}]}],
					"budgets":[{"id":"b","tools":"t","limit":1,"per":"all","window":"total","cost":1}]`, n))))
				if !assert.NoError(t, err) {
					return
				}
				in := inputs(t, "t", fmt.Sprintf(`{"r":"a","o":"%d"}`, n))
				d, _ := judgeBy(q, &in, nil, past)
				assert.True(t, d.Reason == contracts.ReasonPolicyViolation && d.Rule == fmt.Sprintf("P2:o%d:r", i),
					d.Rule)
				d, _ = judgeBy(p, &in, nil, past)
				assert.True(t, bool(d.Verdict) && len(d.Charges) == 1 && p.Compared("t") == nil)
			}
		})
	}
	wg.Wait()
}
