package guardian

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/trust/registry"
)

// approved judges, after everything else, whether the requirements are met that only approvals can
// meet.
func (j *judging) approved() bool {
	if !slices.ContainsFunc(j.s.applied, func(x applied) bool { return x.asks }) {
		return true
	}
	allowing := j.record.Rule
	j.record.Condition, j.record.Rule = 4, ""
	all, what := j.answers()
	if what != "" {
		return j.deny(contracts.ReasonFailClosedError, "", Why{What: what})
	}
	for _, x := range j.s.applied {
		for i := range x.Needs {
			for k := range all { // those that count: an ALLOW uses them up
				if a := x.Needs[i].Approval; x.asks && a != nil && all[k].counts(a) {
					j.record.Approvals = insert(j.record.Approvals, all[k].digest)
				}
			}
		}
	}
	for _, x := range j.s.applied {
		if !x.asks {
			continue
		}
		a := all.unmet(x.Requirement)
		j.trace.approvals(x.Requirement, all)
		j.trace.decided(x.step, program.AnswerOf(a == nil))
		if a != nil {
			return j.ask(x.Requirement, a, all)
		}
	}
	j.record.Condition, j.record.Rule = 8, allowing
	return true
}

// An answer is an approval that was presented, and its worth for the present call.
type answer struct {
	request contracts.ApprovalRequest
	digest  contracts.Digest
	holder  registry.Key
	fault   string // why it is worth nothing
	late    bool   // it is without fault, but outside its time
	no      bool   // it is an approver's refusal of this call
}

type answers []answer

// answers opens what was presented, or says why that cannot be judged.
func (j *judging) answers() (all answers, what string) {
	switch {
	case len(j.in.Envelopes.Approvals) == 0:
		return nil, ""
	case j.s.past != nil:
		j.s.consumed = []contracts.Digest{}
	case j.state.Used == nil:
		return nil, "the inputs lack which approvals are used"
	default:
		j.s.consumed = *j.state.Used
	}
	var asked []*program.Approval
	for _, x := range j.s.applied {
		for i := range x.Needs {
			if a := x.Needs[i].Approval; a != nil {
				asked = append(asked, a)
			}
		}
	}
	var refused []string // nonces
	for _, e := range j.in.Envelopes.Approvals {
		x := j.answer(e, asked)
		if x.no {
			refused = append(refused, x.request.Nonce)
		}
		all = append(all, x)
	}
	if j.s.past != nil { // it did not fail, so it was asked about all of them
		used := j.s.consumed
		j.state.Used = &used
	}
	for i := range all {
		if x := &all[i]; x.fault == "" && slices.Contains(refused, x.request.Nonce) {
			x.fault = "answers a request that another approver has refused"
		}
	}
	return all, ""
}

// answer opens one envelope.
func (j *judging) answer(e contracts.Envelope, asked []*program.Approval) (x answer) {
	x.digest = e.Digest()
	a, holder, err := registry.OpenApproval(j.trust, e)
	if err != nil {
		x.fault = "does not open: " + strings.TrimPrefix(err.Error(), "registry: approval: ")
		return x
	}
	x.request, x.holder = a.Request, holder
	in, q := j.in, &x.request
	asks := func(a *program.Approval) bool { return a.Quorum == q.Quorum && slices.Equal(a.Roles, q.Roles) }
	brief := func(a *program.Approval) bool { return x.by(a) && x.brief(a) }
	switch {
	case q.Tool != in.Tool:
		x.fault = "is for another tool"
	case q.ArgsHash != in.ArgsHash:
		x.fault = "is for other arguments"
	case q.SchemaHash != j.tool.Digest:
		x.fault = "is for another declaration of the tool"
	case q.PolicyHash != j.record.PolicyHash:
		x.fault = "is for another policy"
	case q.Session != in.Session:
		x.fault = "is for another session"
	case !q.Caller.Equal(in.Caller):
		x.fault = "is for another caller"
	case !slices.ContainsFunc(asked, asks):
		x.fault = "was asked of other roles, or for another quorum, than the policy asks"
	case !slices.ContainsFunc(asked, x.by):
		x.fault = "is by nobody of the roles that the policy asks"
	case a.Verdict == contracts.Deny:
		x.fault, x.no = "is a refusal", true
	case j.used(x.digest, q):
		x.fault = "is used: a call was allowed by it"
	case !slices.ContainsFunc(asked, brief):
		x.fault = "holds for longer than the policy lets it"
	default:
		x.late = in.Time < q.NotBefore || in.Time >= q.Expires
	}
	return x
}

// used asks the past whether the request of an approval was consumed, and keeps the answer if it is
// yes.
func (j *judging) used(approval contracts.Digest, q *contracts.ApprovalRequest) bool {
	if j.s.past == nil {
		return slices.Contains(j.s.consumed, approval)
	}
	if !j.s.past.Used(approval, q) {
		return false
	}
	j.s.consumed = insert(j.s.consumed, approval)
	return true
}

// by reports whether the holder has a role that is asked.
func (x *answer) by(a *program.Approval) bool {
	return slices.ContainsFunc(a.Roles, func(role string) bool { return slices.Contains(x.holder.Roles, role) })
}

// brief reports whether the request holds no longer than it may.
func (x *answer) brief(a *program.Approval) bool {
	return x.request.Expires <= x.request.NotBefore.Add(a.TTL)
}

// counts reports whether the answer is one for this approval.
func (x *answer) counts(a *program.Approval) bool {
	return x.fault == "" && !x.late && x.by(a) && x.brief(a)
}

// enough reports whether as many people have said yes as must. Two keys of one person are one.
func (all answers) enough(a *program.Approval) bool {
	var people []string
	for i := range all {
		if x := &all[i]; x.counts(a) && !slices.Contains(people, x.holder.Name) {
			people = append(people, x.holder.Name)
		}
	}
	return uint64(len(people)) >= a.Quorum
}

// unmet returns the first approval that a requirement lacks, or nil if it is met.
func (all answers) unmet(x *program.Requirement) (first *program.Approval) {
	for i := range x.Needs {
		a := x.Needs[i].Approval
		if a == nil {
			continue
		}
		switch enough := all.enough(a); {
		case enough && x.Any:
			return nil
		case !enough && first == nil:
			first = a
		}
	}
	return first
}

// ask denies because an approval is lacking. It says that a person refused, or what is wrong with
// those presented, or, if nothing is, what to ask.
func (j *judging) ask(x *program.Requirement, a *program.Approval, all answers) bool {
	for _, worse := range []struct {
		reason contracts.ReasonCode
		is     func(answer) bool
	}{
		{contracts.ReasonApprovalRefused, func(x answer) bool { return x.no }},
		{contracts.ReasonApprovalInvalid, func(x answer) bool { return x.fault != "" }},
		{contracts.ReasonApprovalExpired, func(x answer) bool { return x.late }},
	} {
		if i := slices.IndexFunc(all, worse.is); i >= 0 {
			what := all[i].fault
			if what == "" {
				what = "is outside its time"
			}
			why := Why{Rule: x.Name, What: "approval " + strconv.Itoa(i) + " " + what}
			return j.deny(worse.reason, x.Name, explained(&j.s.eval, why, x.Tests))
		}
	}
	q := j.request(a)
	pending := q.Digest()
	j.record.Pending = &pending
	why := Why{Rule: x.Name, What: askedOf(a), Pending: q}
	return j.deny(contracts.ReasonApprovalRequired, x.Name, explained(&j.s.eval, why, x.Tests))
}

// askedOf says who must approve.
func askedOf(a *program.Approval) string {
	who := "a person"
	if a.Quorum > 1 {
		who = strconv.FormatUint(a.Quorum, 10) + " people"
	}
	if len(a.Roles) > 1 {
		return who + " of the roles " + strings.Join(a.Roles, ", ") + " must approve the call"
	}
	return who + " of the role " + a.Roles[0] + " must approve the call"
}

// request returns what an approver must sign. Its nonce follows from the rest, the time included,
// so that a replay asks for the same.
func (j *judging) request(a *program.Approval) *contracts.ApprovalRequest {
	const digits = 32
	in := j.in
	q := &contracts.ApprovalRequest{
		ArgsHash: in.ArgsHash, Caller: in.Caller, Expires: in.Time.Add(a.TTL), Nonce: strings.Repeat("0", digits),
		NotBefore: in.Time, PolicyHash: j.record.PolicyHash, Quorum: a.Quorum, Roles: slices.Clone(a.Roles),
		SchemaHash: j.tool.Digest, Session: in.Session, Tool: in.Tool,
	}
	q.Caller.Roles = slices.Clone(in.Caller.Roles)
	q.Nonce = q.Digest().String()[:digits]
	return q
}
