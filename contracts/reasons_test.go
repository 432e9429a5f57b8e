package contracts

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/internal/table"
)

// The design of each reason, written down once more: condition, whether it ran, how a run with it
// ends, whether it can be in a log.
func designed(t *testing.T) map[ReasonCode]design {
	t.Helper()
	m := make(map[ReasonCode]design)
	for _, d := range table.Read[design](t, "designed", 40) {
		m[d.Reason] = d
	}
	assert.Len(t, m, 40)
	return m
}

type design struct {
	Reason                ReasonCode
	Condition             int
	Outcome               Outcome
	Allow, Output, Logged bool
}

// Every code is in the registry exactly once, as designed.
func TestReasonsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	seen, designed := map[ReasonCode]bool{}, designed(t)
	for r := range Reasons() {
		want, ok := designed[r]
		if !ok || seen[r] {
			t.Errorf("%s: in the design %v, seen before %v", r, ok, seen[r])
			continue
		}
		seen[r] = true
		row := r.row()
		outcome, verdict := r.Ending()
		if r.Condition() != want.Condition || outcome != want.Outcome || bool(verdict) != want.Allow ||
			row.output != want.Output || row.unlogged == want.Logged {
			t.Errorf("%s: condition %d, %s %s, output %v, unlogged %v", r, r.Condition(), outcome, verdict, row.output,
				row.unlogged)
		}
		if !form.MatchString(string(r)) || !r.Known() || r.Meaning() == "" {
			t.Errorf("%s: form, known %v, meaning %q", r, r.Known(), r.Meaning())
		}
		if ran := want.Condition == NoCondition || r == ReasonAllow; r.Ran() != ran {
			t.Errorf("%s: ran %v", r, r.Ran())
		}
		assert.Equal(t, r == ReasonAllow, (r.Advice() == ""), "%s: advice %q", r, r.Advice())
		assert.False(t, r.endsRun() && r.denies(want.Condition), "%s: in both halves of the table", r)
		assert.True(t, r.endsRun() == (want.Outcome != Denied) && (!r.endsRun() || !row.unlogged), "%s: ends a run %v",
			r, r.endsRun())
		assert.Equal(t, r == ReasonToolError, row.refund, "%s: refund", r)
	}
	assert.Equal(t, len(designed), len(seen), "%d reasons, the design has", len(seen))
}

// A code that is not in the registry may have run, is not retryable, and is in no record.
func TestUnknownReason(t *testing.T) {
	t.Parallel()
	for _, r := range []ReasonCode{"", "NO_POLICY", "allow", "ALLOW ", "SCHEMA_VIOLATION\x00"} {
		outcome, verdict := r.Ending()
		if r.Known() || !r.Ran() || r.Retryable() || r.NamesRule() || r.Condition() != NoCondition ||
			outcome != Denied || verdict != Deny {
			t.Errorf("%q: known %v, ran %v, retryable %v, condition %d, %s %s", r, r.Known(), r.Ran(), r.Retryable(),
				r.Condition(), outcome, verdict)
		}
		if r.Meaning() == "" || r.Advice() != ReasonFailClosedError.Advice() || r.endsRun() {
			t.Errorf("%q: %q, %q", r, r.Meaning(), r.Advice())
		}
		for c := AnyCondition; c <= 8; c++ {
			assert.False(t, r.denies(c), "%q denies at condition %d", r, c)
		}
	}
}

func TestWhichReasonsNameARule(t *testing.T) {
	t.Parallel()
	names := []ReasonCode{ReasonAllow, ReasonPolicyViolation, ReasonCeilingViolation, ReasonDestinationNotAllowed,
		ReasonMissingRequirement,
		ReasonBudgetError, ReasonBudgetExceeded, ReasonApprovalRefused, ReasonApprovalInvalid, ReasonApprovalExpired,
		ReasonApprovalRequired}
	retryable := []ReasonCode{ReasonSystemFrozen, ReasonBudgetExceeded, ReasonMissingRequirement, ReasonApprovalInvalid,
		ReasonApprovalExpired, ReasonApprovalRequired, ReasonFailClosedError, ReasonToolError}
	for r := range Reasons() {
		assert.Equal(t, slices.Contains(names, r), r.NamesRule(), "%s: names a rule", r)
		assert.Equal(t, slices.Contains(retryable, r), r.Retryable(), "%s: retryable", r)
	}
	for range Reasons() {
		break // a caller may stop early
	}
}

// Condition 0 is the kernel's own, but for arguments that anyone can see are no JSON.
func TestKernelsOwnRefusals(t *testing.T) {
	t.Parallel()
	for r := range Reasons() {
		for c := range 9 {
			d := DecisionRecord{Reason: r, Condition: c}
			assert.Equal(t, c == 0 && r != ReasonArgsCanonicalization, d.KernelsOwn(), "%s at %d", r, c)
			d.Verdict = Allow
			assert.False(t, d.KernelsOwn(), "an ALLOW (%s at %d) is a refusal", r, c)
		}
	}
}

func TestOutcomesAreClosed(t *testing.T) {
	t.Parallel()
	known := 0
	for _, o := range []Outcome{Executed, Failed, Withheld, Indeterminate, Denied, "", "executed", "DONE"} {
		if o.Known() {
			known++
		}
	}
	assert.Equal(t, 5, known, "%d outcomes", known)
}
