package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/race"
)

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
	asked   int            // and with approvals
	wider   string         // the first decision that was widened
}

// monotone adds to that many random stacks, by every addition, and judges 14 calls before and after
// each. broken changes what comes after.
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
			past := newTold()
			for range 14 {
				in := g.ask(t, p)
				first, second, willing := in, in, pick(g.generator, approvers...)
				before, _ := g.consult(t, p, &first, past, willing)
				after, why := g.consult(t, q, &second, past, willing)
				c.cases++
				switch what := widened(&before, &after); {
				case what != "":
					c.wider = fmt.Sprintf("%s by a %s: %s %s, then %s %s (%s)\n%s of %s (%+v)\n", what, s.name,
						before.Reason, before.Rule, after.Reason, after.Rule, why, in.Args.Append(nil), in.Tool,
						in.Caller)
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
					if after.Approvals != nil {
						c.asked++
					}
				}
				past.add(t, &first, &before)
			}
		}
	}
	return c
}

// Whatever is added to a stack, be it a floor, an overlay, or in any document a rule that denies, a
// budget or a requirement: what it denied stays denied, and what it still allows it allows by the
// same rule, for no longer, and for the same charges at least.
func TestMonotone(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	c := monotone(t, 71, rounds(180), nil)
	require.Equal(t, "", c.wider)
	t.Logf("%d cases; denied after all %v, still allowed %v, %d of them under grants, %d with approvals", c.cases,
		c.denied, c.allowed, c.granted, c.asked)
	if testing.Short() {
		require.Greater(t, c.cases, 2000)
		return // too few to count them by kind
	}
	assert.True(t, c.cases >= 10_000 && c.granted >= 100 && c.asked >= 50,
		"%d cases, %d allowed under grants, %d with approvals", c.cases, c.granted, c.asked)
	for _, s := range additions {
		assert.True(t, c.denied[s.name] >= 30 && c.allowed[s.name] >= 100, "%s: denied %d, still allowed %d", s.name,
			c.denied[s.name], c.allowed[s.name])
	}
}

// The property is one that a stack can lack: each of these ways to put documents together is found
// out.
func TestMonotoneFinds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	each := func(change func(*program.Tool)) func(*Policy) {
		return func(p *Policy) {
			for _, t := range p.stack.Tools {
				change(t)
			}
		}
	}
	last := func(list []program.Clause) []program.Clause { return list[max(len(list)-1, 0):] }
	for name, broken := range map[string]func(*Policy){
		"an overlay's rules allow": each(func(t *program.Tool) {
			for _, c := range t.Overlays {
				for _, x := range c.Rules {
					x.Allow = true
					t.Rules = append([]program.Rule{x}, t.Rules...)
				}
			}
		}),
		"what is added allows": each(func(t *program.Tool) {
			for i := range t.Rules {
				t.Rules[i].Allow = t.Rules[i].Allow || strings.HasSuffix(t.Rules[i].Name, ":added")
			}
		}),
		"the last floor alone counts":   each(func(t *program.Tool) { t.Floors = last(t.Floors) }),
		"the last overlay alone counts": each(func(t *program.Tool) { t.Overlays = last(t.Overlays) }),
		"the last budget alone counts": each(func(t *program.Tool) {
			t.Budgets = t.Budgets[max(len(t.Budgets)-1, 0):]
		}),
		"the last requirement alone counts": each(func(t *program.Tool) {
			t.Requires = t.Requires[max(len(t.Requires)-1, 0):]
		}),
		"a floor lifts limits": each(func(t *program.Tool) {
			if len(t.Floors) > 0 {
				t.Limits, t.Depth = program.Limits{Args: 1 << 20, Output: 16 << 20, Timeout: 10 * time.Minute}, 0
			}
		}),
		"a second document lifts a bar": each(func(t *program.Tool) {
			if len(t.Floors)+len(t.Overlays) > 1 {
				t.Excluded.Reason, t.Driver.Demands = "", nil
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if c := monotone(t, 71, 180, broken); c.wider == "" {
				t.Errorf("not found in %d cases", c.cases)
			} else {
				t.Logf("case %d: %s", c.cases, strings.SplitN(c.wider, "\n", 2)[0])
			}
		})
	}
}
