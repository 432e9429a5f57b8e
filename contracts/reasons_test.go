package contracts

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The design of each reason, written down once more: condition, whether it ran, how a run with it
// ends, whether it can be in a log.
var designed = map[ReasonCode]struct {
	condition int
	outcome   Outcome
	verdict   Verdict
	output    bool
	logged    bool
}{
	"KERNEL_SEALED":                         {0, Denied, Deny, false, false},
	"INTENT_MALFORMED":                      {0, Denied, Deny, false, true},
	"ERR_TOOL_ARGS_CANONICALIZATION_FAILED": {0, Denied, Deny, false, true},
	"SESSION_CLOSED":                        {0, Denied, Deny, false, true},
	"SYSTEM_FROZEN":                         {0, Denied, Deny, false, true},
	"IDEMPOTENCY_CONFLICT":                  {0, Denied, Deny, false, true},
	"DENY_TOOL_NOT_FOUND":                   {1, Denied, Deny, false, true},
	"SIDE_EFFECT_NOT_PERMITTED":             {1, Denied, Deny, false, true},
	"CONNECTOR_NOT_ALLOWED":                 {1, Denied, Deny, false, true},
	"SANDBOX_VIOLATION":                     {1, Denied, Deny, false, true},
	"DRIVER_NOT_BOUND":                      {1, Denied, Deny, false, true},
	"SCHEMA_VIOLATION":                      {2, Denied, Deny, false, true},
	"DESTINATION_NOT_ALLOWED":               {2, Denied, Deny, false, true},
	"BUDGET_ERROR":                          {3, Denied, Deny, false, true},
	"BUDGET_EXCEEDED":                       {3, Denied, Deny, false, true},
	"MISSING_REQUIREMENT":                   {4, Denied, Deny, false, true},
	"APPROVAL_INVALID":                      {4, Denied, Deny, false, true},
	"APPROVAL_EXPIRED":                      {4, Denied, Deny, false, true},
	"APPROVAL_REQUIRED":                     {4, Denied, Deny, false, true},
	"POLICY_VIOLATION":                      {5, Denied, Deny, false, true},
	"NO_POLICY_DEFINED":                     {5, Denied, Deny, false, true},
	"DELEGATION_INVALID":                    {6, Denied, Deny, false, true},
	"DELEGATION_SCOPE_VIOLATION":            {6, Denied, Deny, false, true},
	"THREAT_SIGNAL_DETECTED":                {7, Denied, Deny, false, true},
	"CEILING_VIOLATION":                     {8, Denied, Deny, false, true},
	"FAIL_CLOSED_ERROR":                     {AnyCondition, Denied, Deny, false, true},

	"ALLOW":                        {8, Executed, Allow, true, true},
	"ERR_CONNECTOR_CONTRACT_DRIFT": {NoCondition, Withheld, Deny, true, true},
	"TOOL_ERROR":                   {NoCondition, Failed, Allow, false, true},
	"TOOL_PANIC":                   {NoCondition, Failed, Deny, false, true},
	"TOOL_TIMEOUT":                 {NoCondition, Indeterminate, Deny, false, true},
	"TOOL_CANCELED":                {NoCondition, Indeterminate, Deny, false, true},
	"ERR_COMPUTE_GAS_EXHAUSTED":    {NoCondition, Failed, Deny, false, true},
	"ERR_COMPUTE_TIME_EXHAUSTED":   {NoCondition, Failed, Deny, false, true},
	"ERR_COMPUTE_MEMORY_EXHAUSTED": {NoCondition, Failed, Deny, false, true},
	"ERR_COMPUTE_OUTPUT_EXHAUSTED": {NoCondition, Withheld, Deny, false, true},
	"RECEIPT_NOT_STORED":           {NoCondition, Denied, Deny, false, false},
	"OUTCOME_UNKNOWN":              {NoCondition, Indeterminate, Deny, false, true},
	"OUTPUT_NOT_KEPT":              {NoCondition, Denied, Deny, false, false},
}

// Every code is in the registry exactly once, as designed.
func TestReasonsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	seen := map[ReasonCode]bool{}
	for r := range Reasons() {
		want, ok := designed[r]
		if !ok || seen[r] {
			t.Errorf("%s: in the design %v, seen before %v", r, ok, seen[r])
			continue
		}
		seen[r] = true
		row := r.row()
		outcome, verdict := r.Ending()
		if r.Condition() != want.condition || outcome != want.outcome || verdict != want.verdict ||
			row.output != want.output || row.unlogged == want.logged {
			t.Errorf("%s: condition %d, %s %s, output %v, unlogged %v", r, r.Condition(), outcome, verdict, row.output,
				row.unlogged)
		}
		if !form.MatchString(string(r)) || !r.Known() || r.Meaning() == "" {
			t.Errorf("%s: form, known %v, meaning %q", r, r.Known(), r.Meaning())
		}
		if ran := want.condition == NoCondition || r == ReasonAllow; r.Ran() != ran {
			t.Errorf("%s: ran %v", r, r.Ran())
		}
		assert.Equal(t, r == ReasonAllow, (r.Advice() == ""), "%s: advice %q", r, r.Advice())
		assert.False(t, r.endsRun() && r.denies(want.condition), "%s: in both halves of the table", r)
		assert.True(t, r.endsRun() == (want.outcome != Denied) && (!r.endsRun() || !row.unlogged), "%s: ends a run %v",
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
		ReasonBudgetError, ReasonBudgetExceeded, ReasonApprovalInvalid, ReasonApprovalExpired, ReasonApprovalRequired}
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
