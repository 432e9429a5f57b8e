package guardian

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// approved judges, after everything else, whether those requirements are met that nothing but approvals can meet.
func (j *judging) approved(s *scratch, t *tool, in *contracts.Inputs) bool {
	if !slices.ContainsFunc(s.applied, func(x applied) bool { return x.asks }) {
		return true
	}
	allowing := j.record.Rule
	j.record.Condition, j.record.Rule = 4, ""
	answers, what := j.answers(s, t, in)
	if what != "" {
		j.deny(contracts.ReasonFailClosedError, "", Why{What: what})
		return false
	}
	for _, x := range s.applied {
		if x.asks {
			j.list(x.requirement, answers)
		}
	}
	for _, x := range s.applied {
		if !x.asks {
			continue
		}
		if a := x.unmet(answers); a != nil {
			j.ask(x.requirement, a, t, in, answers)
			return false
		}
	}
	j.record.Condition, j.record.Rule = 8, allowing
	return true
}

// An answer to a request is an approval that was presented: what it is worth for the present call.
type answered struct {
	request contracts.ApprovalRequest
	digest  contracts.Digest
	holder  registry.Key
	fault   string // why it is worth nothing
	late    bool   // or that it is outside its time
}

// answers opens what was presented, or tells why that cannot be judged.
func (j *judging) answers(s *scratch, t *tool, in *contracts.Inputs) (answers []answered, what string) {
	switch {
	case len(in.Envelopes.Approvals) == 0:
		return nil, ""
	case s.past != nil:
		s.consumed = []contracts.Digest{}
	case j.state.Used == nil:
		return nil, "the inputs lack which approvals are used"
	default:
		s.consumed = *j.state.Used
	}
	var asked []*approval
	for _, x := range s.applied {
		for i := range x.needs {
			if a := x.needs[i].approval; a != nil {
				asked = append(asked, a)
			}
		}
	}
	var refused []string // nonces
	for _, e := range in.Envelopes.Approvals {
		x, no := j.answer(s, e, t, in, asked)
		if no {
			refused = append(refused, x.request.Nonce)
		}
		answers = append(answers, x)
	}
	if s.past != nil { // which did not fail, so it was asked of all
		used := s.consumed
		j.state.Used = &used
	}
	for i := range answers {
		if x := &answers[i]; x.fault == "" && slices.Contains(refused, x.request.Nonce) {
			x.fault = "answers a request that another approver has refused"
		}
	}
	return answers, ""
}

// answer opens one envelope, and tells whether it is an approver's no.
func (j *judging) answer(s *scratch, e contracts.Envelope, t *tool, in *contracts.Inputs, asked []*approval) (x answered, no bool) {
	x.digest = e.Digest()
	a, holder, err := registry.OpenApproval(j.trust, e)
	if err != nil {
		x.fault = "does not open: " + strings.TrimPrefix(err.Error(), "registry: approval: ")
		return x, false
	}
	x.request, x.holder = a.Request, holder
	q := &x.request
	mine := func(a *approval) bool { return a.by(holder) }
	switch {
	case q.Tool != in.Tool:
		x.fault = "is for another tool"
	case q.ArgsHash != in.ArgsHash:
		x.fault = "is for other arguments"
	case q.SchemaHash != t.digest:
		x.fault = "is for another declaration of the tool"
	case q.PolicyHash != j.record.PolicyHash:
		x.fault = "is for another policy"
	case q.Session != in.Session:
		x.fault = "is for another session"
	case !q.Caller.Equal(in.Caller):
		x.fault = "is for another caller"
	case !slices.ContainsFunc(asked, func(a *approval) bool { return a.quorum == q.Quorum && slices.Equal(a.roles, q.Roles) }):
		x.fault = "was asked of other roles, or for another quorum, than the policy asks"
	case !slices.ContainsFunc(asked, mine):
		x.fault = "is by nobody of the roles that the policy asks"
	case a.Verdict == contracts.Deny:
		x.fault, no = "is a refusal", true
	case s.used(x.digest, q):
		x.fault = "is used: a call was allowed by it"
	case !slices.ContainsFunc(asked, func(a *approval) bool { return mine(a) && a.brief(q) }):
		x.fault = "holds for longer than the policy lets it"
	default:
		x.late = in.Time < q.NotBefore || in.Time >= q.Expires
	}
	return x, no
}

// used asks the past, and keeps the answer where it is yes.
func (s *scratch) used(approval contracts.Digest, q *contracts.ApprovalRequest) bool {
	if s.past == nil {
		return slices.Contains(s.consumed, approval)
	}
	if !s.past.Used(approval, q) {
		return false
	}
	s.consumed = insert(s.consumed, approval)
	return true
}

// by tells whether an approver has a role that is asked.
func (a *approval) by(holder registry.Key) bool {
	return slices.ContainsFunc(a.roles, func(role string) bool { return slices.Contains(holder.Roles, role) })
}

// brief tells whether a request holds no longer than it may.
func (a *approval) brief(q *contracts.ApprovalRequest) bool {
	return q.Expires <= q.NotBefore.Add(a.ttl)
}

// counts tells whether an answer is one for this approval.
func (a *approval) counts(x *answered) bool {
	return x.fault == "" && !x.late && a.by(x.holder) && a.brief(&x.request)
}

// enough tells whether so many people have said yes as must. Two keys of one of them are one.
func (a *approval) enough(answers []answered) bool {
	var people []string
	for i := range answers {
		if x := &answers[i]; a.counts(x) && !slices.Contains(people, x.holder.Name) {
			people = append(people, x.holder.Name)
		}
	}
	return uint64(len(people)) >= a.quorum
}

// list notes all answers that count: an ALLOW uses them up.
func (j *judging) list(x *requirement, answers []answered) {
	for i := range x.needs {
		for k := range answers {
			if a := x.needs[i].approval; a != nil && a.counts(&answers[k]) {
				j.record.Approvals = insert(j.record.Approvals, answers[k].digest)
			}
		}
	}
}

// unmet gives the first approval that a requirement lacks; nil: it is met.
func (x *requirement) unmet(answers []answered) (first *approval) {
	for i := range x.needs {
		a := x.needs[i].approval
		if a == nil {
			continue
		}
		switch enough := a.enough(answers); {
		case enough && x.any:
			return nil
		case !enough && first == nil:
			first = a
		}
	}
	return first
}

// ask denies for want of an approval, and says what is wrong with those at hand or else what to ask.
func (j *judging) ask(x *requirement, a *approval, t *tool, in *contracts.Inputs, answers []answered) {
	late := -1
	for i := range answers {
		if answers[i].fault != "" {
			j.deny(contracts.ReasonApprovalInvalid, x.name, Why{Rule: x.name, What: "approval " + strconv.Itoa(i) + " " + answers[i].fault})
			return
		}
		if answers[i].late && late < 0 {
			late = i
		}
	}
	if late >= 0 {
		j.deny(contracts.ReasonApprovalExpired, x.name, Why{Rule: x.name, What: "approval " + strconv.Itoa(late) + " is outside its time"})
		return
	}
	q := a.request(j.record, t, in)
	pending := q.Digest()
	j.record.Pending = &pending
	j.deny(contracts.ReasonApprovalRequired, x.name, Why{Rule: x.name, What: a.asks(), Pending: q})
}

// asks says whose approval lacks: whom to look for.
func (a *approval) asks() string {
	who := "a person"
	if a.quorum > 1 {
		who = strconv.FormatUint(a.quorum, 10) + " people"
	}
	if len(a.roles) > 1 {
		return who + " of the roles " + strings.Join(a.roles, ", ") + " must approve the call"
	}
	return who + " of the role " + a.roles[0] + " must approve the call"
}

// request is what an approver must sign. Its nonce follows from the rest, time and all, so that a replay asks for the same.
func (a *approval) request(r *contracts.DecisionRecord, t *tool, in *contracts.Inputs) *contracts.ApprovalRequest {
	const digits = 32
	q := &contracts.ApprovalRequest{
		ArgsHash: in.ArgsHash, Caller: in.Caller, Expires: in.Time.Add(a.ttl), Nonce: strings.Repeat("0", digits), NotBefore: in.Time,
		PolicyHash: r.PolicyHash, Quorum: a.quorum, Roles: slices.Clone(a.roles), SchemaHash: t.digest, Session: in.Session, Tool: in.Tool,
	}
	q.Caller.Roles = slices.Clone(in.Caller.Roles)
	q.Nonce = q.Digest().String()[:digits]
	return q
}
