package guardian

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
)

// An applied requirement is one that the present call must meet.
type applied struct {
	*program.Requirement
	asks bool // only approvals can meet it
	step int  // of the trace
}

// required judges requirements of condition 4 as if every approval were there.
func (j *judging) required(list []*program.Requirement) bool {
	for _, x := range list {
		if x.Of != nil && !x.Of.Concern(j.in, j.s.grants) {
			continue
		}
		step := j.trace.begin(x.Name, x.At)
		a := j.s.eval.All(x.Tests)
		if a == program.No {
			continue
		}
		asks, lacks := false, ""
		if a == program.Yes {
			a, asks, lacks = j.met(x)
		}
		if !asks || a != program.Yes {
			j.trace.decided(step, a)
		}
		switch a {
		case program.Failed:
			return j.fail(x.Name)
		case program.No:
			why := explained(&j.s.eval, Why{Rule: x.Name, What: lacks}, x.Tests)
			return j.deny(contracts.ReasonMissingRequirement, x.Name, why)
		}
		j.s.applied = append(j.s.applied, applied{x, asks, step})
	}
	return true
}

// met reports whether a requirement that applies can be met, and whether only people can meet it,
// who are asked last. If one need is enough the others are judged before its approvals, whatever
// their order, so that nobody is asked in vain.
func (j *judging) met(x *program.Requirement) (a program.Answer, asks bool, lacks string) {
	for i := range x.Needs {
		n := &x.Needs[i]
		if n.Approval != nil {
			asks = true
			continue
		}
		var a program.Answer
		if n.Attestation != nil {
			a = program.AnswerOf(j.attested(n.Attestation))
			j.trace.need(x, i, a)
		} else {
			a = j.s.eval.Eval(&n.Receipt)
		}
		switch {
		case a == program.Failed:
			return program.Failed, false, ""
		case a == program.Yes && x.Any:
			return program.Yes, false, ""
		case a == program.No && lacks == "":
			lacks = n.Lacks
		}
		if lacks != "" && !x.Any {
			return program.No, false, lacks
		}
	}
	if asks || !x.Any {
		return program.Yes, asks, ""
	}
	return program.No, false, lacks
}
