package guardian

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/compile"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/trust/registry"
)

// A chain is the grants that a call is made under, the leaf first. If they do not open, fault says
// why, and there are no grants and no delegator.
type chain struct {
	grants    []contracts.Delegation
	delegator contracts.Caller // of the root grant: the call is judged by their rights
	fault     string
}

// openChain opens the presented grants. The delegator acts in the tenant of the present caller,
// since a key names none.
func openChain(in *contracts.Inputs, trust *registry.State) *chain {
	grants, key, err := registry.OpenDelegation(trust, in.Envelopes.Delegation)
	if err != nil {
		return &chain{fault: strings.TrimPrefix(err.Error(), "registry: ")}
	}
	delegator := contracts.Caller{ID: key.Name, Roles: key.Roles, Tenant: in.Caller.Tenant}
	return &chain{grants: grants, delegator: delegator}
}

// delegated judges for the delegator what condition 5 says of a caller, and then condition 6. A
// chain that does not open ends there: there are nobody's rights to judge by.
func (j *judging) delegated(c *chain) bool {
	if c.fault == "" {
		j.s.eval.Speak(c.delegator)
		may := j.rules() && j.overlays()
		j.s.eval.Speak(j.in.Caller)
		if !may {
			return false
		}
	}
	j.record.Condition = 6
	if c.fault == "" {
		c.fault = c.invalid(j.in)
	}
	tests := make([]*program.Node, len(c.grants))
	of := &program.Tool{Name: j.tool.Name, Shape: &program.Shape{Input: j.tool.Input, Declared: j.tool.Declared}}
	for i, steps := 0, 0; i < len(c.grants) && c.fault == ""; i++ {
		when := c.grants[i].When
		if !slices.Contains(c.grants[i].Only, of.Name) || when.Kind() == crypto.Missing {
			continue
		}
		var err error
		tests[i], err = compile.Grant(when, of, &steps)
		if err != nil {
			c.fault = grant(i) + ": " + err.Error()
		}
	}
	if c.fault != "" {
		return j.deny(contracts.ReasonDelegationInvalid, "", Why{What: c.fault})
	}
	return j.granted(c, of, tests)
}

// granted judges the scope of every grant: each must permit what the leaf permits.
func (j *judging) granted(c *chain, of *program.Tool, tests []*program.Node) bool {
	var e program.Evaluator
	e.Begin(of.Subjects, j.in, j.state, nil)
	e.Visits = j.s.eval.Visits
	for i := range c.grants {
		what := ""
		if !slices.Contains(c.grants[i].Only, of.Name) {
			what = "does not cover the tool"
		} else if tests[i] != nil {
			switch e.Eval(tests[i]) {
			case program.No:
				what = "does not cover the call: its when is false"
			case program.Failed:
				why := Why{Pointer: e.Pointer, What: grant(i) + ": " + e.What}
				return j.deny(contracts.ReasonFailClosedError, "", why)
			}
		}
		if what != "" {
			return j.deny(contracts.ReasonDelegationScopeViolation, "", Why{What: grant(i) + " " + what})
		}
	}
	j.s.eval.Visits = e.Visits
	return true
}

// invalid says why the grants do not hold for this caller at this time, whatever is called.
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

// grant names one for people: the leaf is 0.
func grant(i int) string { return "grant " + strconv.Itoa(i) }
