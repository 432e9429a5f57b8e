package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
)

// Callable returns those of [Policy.Tools] of which some call of the caller could be allowed: with
// some arguments, in some session, at some time, with some approvals, attestations and grants. It
// is for tools/list, and an over-approximation: every tool that [Policy.Judge] allows the caller is
// listed, and a listed tool may be denied at every call. It never decides in place of Judge.
//
// It looks at what is certain before a call. A tool is left out if
//   - a profile excludes its effect or connector, or no driver can meet every sandbox that is
//     demanded of it;
//   - no rule of its bundle can allow it: each that allows it stands after a rule that then
//     decides, or has a condition that cannot hold;
//   - a floor, or an overlay that is for every call of the caller, denies it by a rule whose
//     condition must hold or err, by only, or by its ceiling of risk.
//
// A condition cannot hold, or must, by its predicates over caller: id, tenant and roles. Any other
// predicate may be true, false or an error. all, any and not combine what their parts may be.
//
// A caller with an id may present a grant, and is then judged by the rights of the root delegator,
// in the caller's own tenant: see docs/POLICY.md. So for a caller with an id the rules of bundles
// and overlays leave out tools by the tenant alone, and what they say of id and roles may be true
// or false. Nobody grants anything to a caller without an id, and floors look at the caller in any
// case.
//
// Not considered are documents that have expired, since Callable has no clock; overlays that are
// for one session, or for another caller, whose grant may be presented; budgets, requirements,
// scopes and schemas; and whether a driver is bound.
func (p *Policy) Callable(c contracts.Caller) []Tool {
	return slices.DeleteFunc(p.Tools(), func(x Tool) bool { return !p.callable(p.tool(x.Name), c) })
}

// A prospect is the calls that one caller can make of one tool.
type prospect struct {
	caller contracts.Caller
	eval   program.Evaluator
}

func (p *Policy) callable(t *program.Tool, c contracts.Caller) bool {
	more, x := p.stack.More(t.Name), prospect{caller: c}
	subjects := more.Subjects
	if subjects == nil {
		subjects = t.Subjects
	}
	x.eval.Begin(subjects, &contracts.Inputs{Caller: c}, &contracts.SessionState{}, nil)
	lent := c.ID != "" // no grant is for a caller without an id
	return t.Excluded.Reason == "" && t.Driver.Demands.Possible() && x.allows(t.Rules, lent) &&
		!x.denies(t.Overlays, lent) && !x.denies(more.Overlays, lent) && !x.denies(t.Floors, false)
}

// allows reports whether one of the rules of a bundle may be the first that matches, and allow.
func (x *prospect) allows(rules []program.Rule, lent bool) bool {
	for i := range rules {
		may := x.eval.PossibleAll(rules[i].Tests, lent)
		if rules[i].Allow && may.Has(program.Yes) {
			return true
		}
		if !may.Has(program.No) {
			return false
		}
	}
	return false
}

// denies reports whether what documents of P0 or P2 say of the tool denies every call.
func (x *prospect) denies(list []program.Clause, lent bool) bool {
	for i := range list {
		c := &list[i]
		if x.concerned(c.Of) && (c.Risky || c.Outside || slices.ContainsFunc(c.Rules, func(r program.Rule) bool {
			return !x.eval.PossibleAll(r.Tests, lent).Has(program.No)
		})) {
			return true
		}
	}
	return false
}

// concerned reports whether a document is for every call of the caller.
func (x *prospect) concerned(of *program.Terms) bool {
	return of.Session == "" && (of.Tenant == "" || of.Tenant == x.caller.Tenant) &&
		(of.Caller == "" || of.Caller == x.caller.ID)
}
