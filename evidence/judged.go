package evidence

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
)

// Judged is a stack's judgement of a call.
type Judged struct {
	Verdict   contracts.Verdict
	Reason    contracts.ReasonCode
	Condition int    // the first that failed; 8 for ALLOW
	Rule      string // layer:bundle:id of the rule that decided; "" if nothing in the stack did
}

func judgedOf(d *contracts.DecisionRecord) Judged {
	return Judged{d.Verdict, d.Reason, d.Condition, d.Rule}
}

// lacksApproval reports whether nothing but an approval is missing: approvals are judged last.
func (j Judged) lacksApproval() bool {
	switch j.Reason {
	case contracts.ReasonApprovalRefused, contracts.ReasonApprovalInvalid, contracts.ReasonApprovalExpired,
		contracts.ReasonApprovalRequired:
		return true
	}
	return false
}

// String returns text like ALLOW (P1:files:read) or DENY POLICY_VIOLATION (P1:files:secrets).
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

// Change is a call that a candidate judges otherwise.
type Change struct {
	Index     uint64 // of the entry with the decision
	ID        string // session/seq
	Tool      string
	Then, Now Judged
	Anew      bool // people approved the call; the candidate would have them asked again
}

// String returns a line for people.
func (c Change) String() string {
	s := "entry " + strconv.FormatUint(c.Index, 10) + " " + c.ID + " " + c.Tool + ": " + c.Then.String() + " → " +
		c.Now.String()
	if c.Anew {
		s += ", to be approved anew"
	}
	return s
}

// Differences counts what a candidate would change. Judged, Unjudged and Report.Replay.KernelsOwn
// are all of the log's decisions.
type Differences struct {
	Report    Report // of the verification: check its Success
	Judged    uint64 // calls that the candidate judged: each is one of the next five
	Same      uint64 // verdict, reason and rule; or approvals were presented that suffice neither then nor now
	Denied    uint64 // ALLOW then, DENY now
	Allowed   uint64 // DENY then, ALLOW now
	Anew      uint64 // ALLOW then, by approvals for the policy of then; now people would have to be asked again
	Otherwise uint64 // the same verdict, for another reason or by another rule

	// Unjudged are the entries with decisions that cannot be judged again, in log order: those that
	// are not replayable, and those on which the candidate needs the arguments of an earlier call
	// that are not there. Nil if there are none.
	Unjudged []uint64
}

// lacksOnlyApprovals reports whether an approved call lacks nothing but new approvals.
func lacksOnlyApprovals(d *contracts.DecisionRecord, now Judged) bool {
	return d.Verdict == contracts.Allow && len(d.Approvals) > 0 && now.lacksApproval()
}
