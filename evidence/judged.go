package evidence

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
)

// Judged is what a stack says of a call.
type Judged struct {
	Verdict   contracts.Verdict
	Reason    contracts.ReasonCode
	Condition int    // the first that failed; 8 for ALLOW
	Rule      string // layer:bundle:id of what decided; "" where nothing in the stack did
}

func judgedOf(d *contracts.DecisionRecord) Judged {
	return Judged{d.Verdict, d.Reason, d.Condition, d.Rule}
}

// lacksApproval tells whether nothing but an approval is missing: they are judged when all else holds.
func (j Judged) lacksApproval() bool {
	return j.Reason == contracts.ReasonApprovalInvalid || j.Reason == contracts.ReasonApprovalExpired || j.Reason == contracts.ReasonApprovalRequired
}

// String is like ALLOW (P1:files:read), and like DENY POLICY_VIOLATION (P1:files:secrets).
func (j Judged) String() string {
	s := j.Verdict.String()
	if j.Verdict == contracts.Deny {
		s += " " + string(j.Reason)
	}
	switch {
	case j.Rule != "":
		s += " (" + j.Rule + ")"
	case j.Reason == contracts.ReasonFailClosedError:
		s += " (condition " + strconv.Itoa(j.Condition) + ")"
	}
	return s
}

// Change is a call of which a candidate says something else than was said then.
type Change struct {
	Index     uint64 // of the entry with the decision
	ID        string // session/seq
	Tool      string
	Then, Now Judged
	Anew      bool // people approved the call then; now they would have to be asked again
}

// String is a line for people.
func (c Change) String() string {
	s := "entry " + strconv.FormatUint(c.Index, 10) + " " + c.ID + " " + c.Tool + ": " + c.Then.String() + " → " + c.Now.String()
	if c.Anew {
		s += ", to be approved anew"
	}
	return s
}

// Differences counts what a candidate would change. Judged, Unjudged and Report.Replay.KernelsOwn are all of the log's decisions.
type Differences struct {
	Report    Report // of the verification: ask its Success
	Judged    uint64 // calls that the candidate judged: each is one of the five that follow
	Same      uint64 // the same verdict, for the same reason and by the same rule; or approvals that were shown, and not enough, then and now
	Denied    uint64 // ALLOW then, DENY now
	Allowed   uint64 // DENY then, ALLOW now
	Anew      uint64 // ALLOW then, by approvals, which name the policy of then; now people would have to be asked again
	Otherwise uint64 // the same verdict, for another reason or by another rule

	// Unjudged are the entries with decisions that cannot be judged again, in log order: those that are not replayable, and those on which
	// the candidate asks for the arguments of an earlier call that are not there. Nil where there are none.
	Unjudged []uint64
}

// anew tells whether a call had all that it needs but approvals, which it had then.
func anew(d *contracts.DecisionRecord, now Judged) bool {
	return d.Verdict == contracts.Allow && len(d.Approvals) > 0 && now.lacksApproval()
}
