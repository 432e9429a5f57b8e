package contracts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite ../docs/reasons.md")

const reasonsFile = "../docs/reasons.md"

const reasonsIntro = `# Reason codes

Every answer of a kernel has one of these codes, and so has every decision and receipt of a log. The registry is closed: it is a table of
package contracts, which writer and verifier share, and this page is written from it (` + "`go test ./contracts -run TestReasonsDocument -update`" + `).

Conditions are judged in the order of this page, and within one the reasons are tried in the order of its table: the first that fails is the
answer. FAIL_CLOSED_ERROR may be the answer at any of them.

- **ran**: whether the tool ran. After *perhaps* its effect may have taken place: look before you repeat the call.
- **last word**: verdict and outcome of the receipt. If nothing was recorded there is no receipt.
- **error**: what errors.Is says of Decision.Err(). *neither* is the tool's own error, which is neither of the two.
- **retry**: whether the same call may fare better later, with nothing changed in it but its approvals and attestations.
- **rule**: the decision names what decided: a rule, a requirement, a budget, a scope, as layer:document:id.
- **logged**: whether the code can stand in a log. What cannot is known to the caller and the observer alone.
- **to the model**: ` + "`ReasonCode.Advice()`" + `. It reveals nothing that a model could use to get round the refusal.
`

// The sections of the page, in published order.
var reasonSections = []struct {
	title string
	holds func(*reason) bool
	about string
}{
	{"0. The request is well-formed, kernel and session are live", at(0),
		"No policy is asked here: this is the kernel's own refusal, but for arguments that are no JSON, which " +
			"anyone can see."},
	{"1. The tool is of the declared surface", at(1),
		"A tool that no bundle declares does not exist; of one that is declared, floors say which effects, " +
			"connectors and sandboxes are permitted."},
	{"2. The arguments conform", at(2), "Schemas are closed; defaults are filled in before."},
	{"3. The budgets suffice", at(3),
		"All budgets that apply are charged, or none. What is spent since the look at the balance is denied for the " +
			"same reason."},
	{"4. The requirements are met", at(4),
		"Judged as if every approval were there. Approvals are asked for last, after condition 8, so that a person " +
			"is asked only when the answer decides."},
	{"5. The caller is authorised", at(5), "The bundle's rules first, then each overlay that is for the call."},
	{"6. The delegation is valid and covers the call", at(6), "Asked only where a delegation is presented."},
	{"7. No threat signal", at(7), "A signal, never the control. No kernel judges it yet."},
	{"8. The floors hold", func(r *reason) bool { return r.condition == 8 && r.outcome == "" },
		"What no bundle can permit."},
	{"At any condition", at(AnyCondition),
		"Whatever errs or panics while a call is judged. The decision has the condition that was being judged."},
	{"Outcomes", func(r *reason) bool { return r.condition == NoCondition || r.outcome == Executed },
		"The call was admissible, and permitted in the log before the tool was called."},
}

func at(condition int) func(*reason) bool {
	return func(r *reason) bool { return r.condition == condition && r.outcome == "" }
}

// docs/reasons.md is what the registry says.
//
//	go test ./contracts -run TestReasonsDocument -update
func TestReasonsDocument(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(reasonsIntro)
	next := 0
	for _, s := range reasonSections {
		fmt.Fprintf(&b,
			"\n## %s\n\n%s\n\n| code | meaning | ran | last word | error | retry | rule | logged | to the model "+
				"|\n|---|---|---|---|---|---|---|---|---|\n", s.title, s.about)
		rows := 0
		for i := range registry {
			r := &registry[i]
			if !s.holds(r) {
				continue
			}
			if i != next {
				t.Errorf("%s stands in the section %q, out of the order of the registry", r.code, s.title)
			}
			next++
			rows++
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.code, r.meaning, r.ranWord(),
				r.lastWord(), r.errorWord(),
				yesNo(r.retryable), yesNo(r.named), yesNo(!r.unlogged), r.advice)
		}
		assert.NotEqual(t, 0, rows, "the section %q is empty", s.title)
	}
	if next != len(registry) {
		t.Errorf("%d of %d codes are on the page", next, len(registry))
	}
	for i := range registry {
		assert.False(t, strings.ContainsAny(registry[i].meaning+registry[i].advice, "|\n<>`*"),
			"%s: its text is not plain in a table", registry[i].code)
	}
	if *update {
		require.NoError(t, os.WriteFile(reasonsFile, b.Bytes(), 0o666))
	}
	page, err := os.ReadFile(reasonsFile)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(page, b.Bytes()),
		"docs/reasons.md is not what the registry says: go test ./contracts -run TestReasonsDocument -update")
}

func (r *reason) ranWord() string {
	switch {
	case !r.ran:
		return "no"
	case r.outcome == Indeterminate:
		return "perhaps"
	case r.code == ReasonOutputNotKept:
		return "the first did"
	}
	return "yes"
}

func (r *reason) lastWord() string {
	outcome, verdict := r.code.Ending()
	switch {
	case r.code == ReasonOutputNotKept:
		return "DENY, the first's receipt"
	case r.unlogged:
		return "DENY, no receipt"
	}
	return verdict.String() + " " + string(outcome)
}

// errorWord returns the error of package helm for a code, which the tests of that package compare.
func (r *reason) errorWord() string {
	switch _, verdict := r.code.Ending(); {
	case r.code == ReasonApprovalRequired:
		return "ErrDenied, ErrApprovalRequired"
	case r.code == ReasonAllow:
		return "nil"
	case verdict == Allow:
		return "neither"
	case r.ran:
		return "ErrWithheld"
	}
	return "ErrDenied"
}

func yesNo(x bool) string {
	if x {
		return "yes"
	}
	return "no"
}
