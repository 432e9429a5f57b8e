package guardian

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// A chain is the grants that a call is made under, the leaf first. A fault says why they do not open; there is no delegator then.
type chain struct {
	grants    []contracts.Delegation
	delegator contracts.Caller // of the root grant: by whose rights the call is judged
	fault     string
}

// opened opens the presented grants. The delegator acts where the present caller does: his key names no tenant.
func opened(in *contracts.Inputs, trust *registry.State) *chain {
	grants, key, err := registry.OpenDelegation(trust, in.Envelopes.Delegation)
	if err != nil {
		return &chain{fault: strings.TrimPrefix(err.Error(), "registry: ")}
	}
	return &chain{grants: grants, delegator: contracts.Caller{ID: key.Name, Roles: key.Roles, Tenant: in.Caller.Tenant}}
}

// delegated judges what of condition 5 is about the caller, for the delegator, and condition 6. A chain without one ends there: nobody's
// rights are left to be judged.
func (j *judging) delegated(s *scratch, t *tool, in *contracts.Inputs, c *chain) bool {
	if c.fault == "" {
		s.speak(c.delegator)
		may := j.rules(s, t) && j.clauses(s, t.overlays, in)
		s.speak(in.Caller)
		if !may {
			return false
		}
	}
	j.record.Condition = 6
	if c.fault == "" {
		c.fault = c.invalid(in)
	}
	asks := make([]*node, len(c.grants))
	of := &tool{name: t.name, shape: &shape{input: t.input, declared: t.declared, slots: map[subjectKey]int32{}}}
	for i, steps := 0, 0; i < len(c.grants) && c.fault == ""; i++ {
		if c.covers(i, t) {
			asks[i], c.fault = c.compile(i, of, &steps)
		}
	}
	if c.fault != "" {
		j.deny(contracts.ReasonDelegationInvalid, "", Why{What: c.fault})
		return false
	}
	return j.granted(s, t, of, in, c, asks)
}

// granted judges the scope of every grant: what the leaf permits, each grant behind it must permit too.
func (j *judging) granted(s *scratch, t, of *tool, in *contracts.Inputs, c *chain, asks []*node) bool {
	x := new(scratch)
	x.begin(of, in, j.state)
	x.visits = s.visits
	for i := range c.grants {
		what := ""
		if !c.covers(i, t) {
			what = "does not cover the tool"
		} else if asks[i] != nil {
			switch x.eval(asks[i]) {
			case no:
				what = "does not cover the call: its when is false"
			case failed:
				j.deny(contracts.ReasonFailClosedError, "", Why{Pointer: x.pointer, What: grant(i) + ": " + x.what})
				return false
			}
		}
		if what != "" {
			j.deny(contracts.ReasonDelegationScopeViolation, "", Why{What: grant(i) + " " + what})
			return false
		}
	}
	s.visits = x.visits
	return true
}

// invalid tells why the grants do not hold for this caller at this time, whatever he calls.
func (c *chain) invalid(in *contracts.Inputs) string {
	if in.Caller.ID == "" || in.Caller.ID != c.grants[0].Delegate {
		return "the leaf grant is not for the caller"
	}
	for i := range c.grants {
		switch g := &c.grants[i]; {
		case in.Time < g.NotBefore:
			return grant(i) + " does not hold yet"
		case in.Time >= g.Expires:
			return grant(i) + " has expired"
		case g.Depth < uint64(i):
			return grant(i) + " may not be passed on so far: its depth is less than the grants before it"
		}
	}
	return ""
}

func (c *chain) covers(i int, t *tool) bool { return slices.Contains(c.grants[i].Only, t.name) }

// grant names one for people: the leaf is 0.
func grant(i int) string { return "grant " + strconv.Itoa(i) }

// compile makes the predicate of a grant for a copy of the tool, or tells why there can be none: its own author never saw the schema of
// each tool it is for, so what a rule must not say in vain it may, and all else is as in a rule that allows.
func (c *chain) compile(i int, of *tool, steps *int) (*node, string) {
	when := c.grants[i].When
	if when.Kind() == crypto.Missing {
		return nil, ""
	}
	l := &loader{read: map[string]constant{}}
	k := compiler{l: l, t: of, steps: steps}
	n, ok := k.predicate(part{when, "/when"}, 1, relaxes)
	if err := l.first(); !ok || err != nil {
		return nil, grant(i) + ": " + err.Pointer + ": " + err.What
	}
	return &n, ""
}

// apart refuses subjects that a grant has not: it means the same everywhere, whatever the session in which it is presented has seen.
func (c *compiler) apart(p part) bool {
	for _, key := range [...]string{"session", "receipt", "fact", "from"} {
		if p.has(key) {
			c.l.refuse(p.get(key).at, key+" in a grant", "look at arg, caller and time alone")
			return false
		}
	}
	return true
}

// maxSteps bounds what the patterns of a chain become, as visits bound what is tested: whoever grants is not whoever wrote the policy.
const maxSteps = 10_000

// affordable takes the steps of one more pattern, or refuses it. One that is no pattern is refused where it is compiled.
func (c *compiler) affordable(p part, pattern string) (n int, ok bool) {
	if *c.steps <= maxSteps {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return 0, true
		}
		n = steps(re)
		*c.steps += n
	}
	if *c.steps > maxSteps {
		c.l.refuse(p.at, "patterns of more than "+strconv.Itoa(maxSteps)+" steps in a chain of grants", "repeat less")
		return 0, false
	}
	return n, true
}

// takes takes visits for what a pattern of a grant may cost: each of its steps may be at each byte of the text.
func (s *scratch) takes(n *node, text []byte) bool {
	s.visits += int(int64(n.limit) * int64(len(text)) >> 10)
	return s.visits <= maxVisits
}

// steps is about how many instructions a pattern becomes, repetitions written out; over the limit it is not counted how many.
func steps(re *syntax.Regexp) int {
	if re.Op == syntax.OpRepeat {
		return min(steps(re.Sub[0])*max(re.Min, re.Max, 1), maxSteps+1)
	}
	n := max(len(re.Rune), 1)
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	return min(n, maxSteps+1)
}

// speak makes somebody else the caller that predicates look at.
func (s *scratch) speak(who contracts.Caller) {
	s.caller = who
	for _, i := range s.touched {
		if from := s.subjects[i].from; from == fromID || from == fromTenant {
			s.slots[i] = slot{}
		}
	}
}
