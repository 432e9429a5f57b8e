package evidence

import (
	"context"
	"io"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
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

// BackTest verifies a pack as [Verify] does, and judges its calls by a candidate: what would have become of them under that stack. The section
// on back-tests in the package comment says what is taken from the log, and what is not known.
//
// When the whole pack is verified, and not before, each is called with every change, in the order of the log; of a pack that is no success too
// (UNPINNED or STALE, say), so ask the Report before what it was told is used. An error of its own ends that, and is given back as it is; nil is
// nobody who wants to know more than the numbers. With any error, be it of [Verify], there are no Differences, but for a Report of what is wrong
// with the pack, and what each was told before is not all.
func BackTest(ctx context.Context, r io.ReaderAt, size int64, o Options, candidate *guardian.Policy, each func(Change) error) (Differences, error) {
	v := newVerifier(ctx, o)
	b := v.judgesBy(candidate, each != nil)
	err := error(&Error{ErrInput, -1, "candidate", "no policy was given: make one with guardian.Compile", nil})
	if candidate.Hash() != (contracts.Digest{}) {
		err = v.inPack(r, size)
	}
	b.found.Report, err = v.answer(err)
	if err != nil {
		return Differences{Report: b.found.Report}, err
	}
	for _, x := range b.changes {
		if err := v.ctx.Err(); err != nil {
			return Differences{}, err
		}
		st, f := v.again(uint64(x.index))
		if f != nil {
			report, err := v.answer(f)
			return Differences{Report: report}, err
		}
		d, now := st.Judgement(), b.said[x.said]
		if err := each(Change{uint64(x.index), d.ID, d.Tool, judgedOf(d), now, anew(d, now)}); err != nil {
			return Differences{}, err
		}
	}
	return b.found, nil
}

// anew tells whether a call had all that it needs but approvals, which it had then.
func anew(d *contracts.DecisionRecord, now Judged) bool {
	return d.Verdict == contracts.Allow && len(d.Approvals) > 0 && now.lacksApproval()
}
