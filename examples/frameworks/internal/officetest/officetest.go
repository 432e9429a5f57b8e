// Package officetest checks a run of a program.
package officetest

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

const (
	tooMuch   = "P1:shop:too-much: the rule denies the call"
	noTool    = "no bundle declares the tool"
	ownerSays = "P1:shop:second-look: a person of the role owner must approve the call"
)

// Refund is the whole of what a program prints, under whatever framework: verdicts, reasons,
// receipts, and what the model is told. NONCE stands for 32 digits.
const Refund = `model  calls invoice_find {"number":"4711"}
helm   ALLOW invoice_find ALLOW, receipt 3
model  is told {"number":"4711","total":120}
model  calls invoice_refund {"amount":9000,"number":"4711"}
helm   DENY invoice_refund POLICY_VIOLATION: ` + tooMuch + `, receipt 4
model  is told invoice_refund was denied: POLICY_VIOLATION. ` +
	`A rule forbids this call. Do not try to get round it; find another way or report this. (` + tooMuch + `)
model  calls invoice_delete {"number":"4711"}
helm   DENY invoice_delete DENY_TOOL_NOT_FOUND: ` + noTool + `, receipt 5
model  is told invoice_delete was denied: DENY_TOOL_NOT_FOUND. ` +
	`There is no such tool. Use one of the tools you were given. (` + noTool + `)
model  calls invoice_refund {"amount":80,"number":"4711"}
helm   DENY invoice_refund APPROVAL_REQUIRED: ` + ownerSays + `, receipt 6
model  is told invoice_refund was denied: APPROVAL_REQUIRED. ` +
	`A person must approve this call. Tell the user, and wait. (` + ownerSays + `) ` +
	`An approver must answer request NONCE; make the same call again then.
ann    approves invoice_refund {"amount":80,"number":"4711"} for bob
model  calls invoice_refund {"amount":80,"number":"4711"}
helm   ALLOW invoice_refund ALLOW, receipt 8
model  is told {"refunded":80}
audit  LOGGED, signer TRUSTED: 2 allowed, 3 denied, 5 receipts, 5 verdicts replayed
`

var (
	nonce  = regexp.MustCompile(`request [0-9a-f]{32};`)
	digest = regexp.MustCompile(`sha256:[0-9a-f]{64}`) // of what is no name of a tool
)

// Run runs a program, and returns what it printed.
func Run(t *testing.T, open office.Opener, play office.Play) (*office.Office, string) {
	t.Helper()
	var out bytes.Buffer
	o, err := office.Run(t.Context(), &out, open, play)
	require.NoError(t, err, out.String())
	return o, nonce.ReplaceAllString(out.String(), "request NONCE;")
}

// CheckRefund runs a program that plays [office.Refund].
func CheckRefund(t *testing.T, open office.Opener, play office.Play) {
	t.Helper()
	o, out := Run(t, open, play)
	assert.Equal(t, Refund, out)
	CheckLog(t, o)
}

// CheckOdd has a program make calls that a framework may answer by itself. Each must leave a
// receipt, and none may end the conversation. raw says that the framework does not decode
// arguments.
func CheckOdd(t *testing.T, open office.Opener, play office.Play, raw bool) {
	t.Helper()
	o, err := open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	o.Script.Calls = []office.Call{
		{Tool: "invoice_find", Args: `{ "number": "\u0034711" }`},
		{Tool: "invoice_find", Args: `{}`},
		{Tool: "invoice_find", Args: `{"number":"4711","colour":"red"}`},
		{Tool: "Invoice_Find", Args: `{"number":"4711"}`},
		{Tool: "invoice find", Args: `{"number":"4711"}`},
		{Tool: "invoice_find", Args: `{"number":"4711","number":"4712"}`},
	}
	require.NoError(t, play(t.Context(), o))
	want := []string{"ALLOW invoice_find ALLOW",
		"DENY invoice_find SCHEMA_VIOLATION", "DENY invoice_find SCHEMA_VIOLATION",
		"DENY Invoice_Find DENY_TOOL_NOT_FOUND", "DENY sha256:DIGEST INTENT_MALFORMED"}
	ran := []string{`invoice_find {"number":"4711"}`} // canonical: the bytes that were judged
	if raw {
		want = append(want, "DENY invoice_find ERR_TOOL_ARGS_CANONICALIZATION_FAILED")
	} else { // the framework kept the last
		want, ran = append(want, "ALLOW invoice_find ALLOW"), append(ran, `invoice_find {"number":"4712"}`)
	}
	var got []string
	for _, e := range o.Events[:len(want)] {
		e, _, _ = strings.Cut(digest.ReplaceAllString(e, "sha256:DIGEST"), ": ")
		got = append(got, e)
	}
	assert.Equal(t, want, got)
	assert.Equal(t, ran, o.Shop.Ran())
	require.NoError(t, o.Audit(t.Context()))
	assert.EqualValues(t, len(o.Events), o.Report.Receipts)
}

// CheckLog checks that the two calls of [office.Refund] that were allowed ran, and no others, and
// that the log verifies and has a receipt of each call of the script.
func CheckLog(t *testing.T, o *office.Office) {
	t.Helper()
	assert.Equal(t, []string{`invoice_find {"number":"4711"}`, `invoice_refund {"amount":80,"number":"4711"}`},
		o.Shop.Ran())
	calls := len(o.Script.Calls)
	assert.Len(t, o.Script.Told, calls, "the model was not told of each call")
	assert.Len(t, o.Events, calls, "the kernel judged other calls than the model made")
	assert.True(t, o.Report.Success(evidence.Logged), o.Report.String())
	assert.EqualValues(t, 2, o.Report.Allows)
	assert.EqualValues(t, calls-2, o.Report.Denials)
	assert.EqualValues(t, calls, o.Report.Receipts)
	assert.EqualValues(t, calls, o.Report.Replay.Replayed)
	assert.Empty(t, o.Report.Open)
}
