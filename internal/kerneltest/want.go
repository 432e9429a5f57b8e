package kerneltest

import (
	"errors"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/receipts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Want is what a call must come to.
type Want struct {
	Verdict contracts.Verdict
	Reason  contracts.ReasonCode
	Outcome contracts.Outcome // "" means that there is no receipt
	Err     error             // nil, ErrDenied or ErrWithheld; ErrTool is the tool's own
	Output  string            // "" means that none is released
	Runs    int64             // since the last look
}

// Executed is what an allowed call comes to that ran once and returned output.
func Executed(output string) Want {
	return Want{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed,
		Output: output, Runs: 1}
}

// Repeated is what a call comes to that repeats an executed one: its output is released, and
// nothing runs.
func Repeated(output string) Want {
	x := Executed(output)
	x.Runs = 0
	return x
}

// Denied is what a call comes to that is denied with a receipt, and does not run.
func Denied(reason contracts.ReasonCode) Want {
	return Want{Reason: reason, Outcome: contracts.Denied, Err: helm.ErrDenied}
}

// Sealed is what a call comes to when the kernel is closed or sealed: it is denied without a
// receipt.
func Sealed() Want { return Want{Reason: contracts.ReasonKernelSealed, Err: helm.ErrDenied} }

// Withheld is what a call comes to that ran once and whose output is not released.
func Withheld(reason contracts.ReasonCode, outcome contracts.Outcome) Want {
	return Want{Reason: reason, Outcome: outcome, Err: helm.ErrWithheld, Runs: 1}
}

// Failed is what an allowed call comes to that ran once and failed with [ErrTool].
func Failed() Want {
	return Want{Verdict: contracts.Allow, Reason: contracts.ReasonToolError, Outcome: contracts.Failed,
		Err: ErrTool, Runs: 1}
}

// NotStored is what a call comes to that ran once and whose receipt was not stored.
func NotStored() Want { return Withheld(contracts.ReasonReceiptNotStored, "") }

// MustBe holds one call to what it must come to, the signed receipt included. It sets Runs to 0.
func (w *World) MustBe(d helm.Decision, r helm.Receipt, x Want) {
	w.T.Helper()
	assert.Equal(w.T, x.Verdict, d.Verdict, "%s (%s)", d.Reason, d.Why)
	assert.Equal(w.T, x.Reason, d.Reason, d.Why)
	err := d.Err()
	for _, sentinel := range []error{helm.ErrDenied, helm.ErrWithheld} {
		assert.Equal(w.T, x.Err == sentinel, errors.Is(err, sentinel), "error %v is %v", err, sentinel)
	}
	assert.Equal(w.T, x.Err == nil, err == nil, "error %v, want %v", err, x.Err)
	if x.Err == ErrTool {
		assert.ErrorIs(w.T, err, ErrTool)
	}
	assert.Equal(w.T, err == nil, r.Output != nil, "output %q with error %v", r.Output, err)
	assert.Equal(w.T, x.Output, string(r.Output), "output")
	assert.Equal(w.T, x.Verdict == contracts.Allow, d.Allowed(), "Allowed")
	assert.Equal(w.T, x.Runs, w.Runs.Swap(0), "runs of the tool")
	assert.Equal(w.T, x.Reason == contracts.ReasonAllow, d.Why == "", "%s: why is %q", x.Reason, d.Why)
	text, failed := d.ForModel(r)
	assert.Equal(w.T, x.Reason != contracts.ReasonAllow, failed, "for the model: failed")
	switch {
	case x.Verdict == contracts.Allow && x.Err == nil:
		assert.Equal(w.T, x.Output, text, "for the model")
	case x.Verdict == contracts.Deny:
		assert.Contains(w.T, text, string(x.Reason)+". "+x.Reason.Advice()+" ("+d.Why+")", "for the model")
	}
	if x.Outcome == "" {
		if r.Entry != nil || r.Record.Outcome != "" || r.Index != 0 {
			w.T.Errorf("a receipt %s, although nothing was recorded", r.Record.Outcome)
		}
		return
	}
	record, err := receipts.Open(r.Entry, w.TrustState(), r.Index)
	require.NoError(w.T, err, "receipt")
	assert.Equal(w.T, x.Outcome, record.Outcome, "signed")
	assert.Equal(w.T, x.Outcome, r.Record.Outcome, "returned")
	assert.Equal(w.T, string(w.Entry(r.Index)), string(r.Entry), "entry %d of the store is not the receipt", r.Index)
}

// MustCall makes a call that must come to x.
func (w *World) MustCall(
	x Want, tool, args string, change ...func(*helm.Intent),
) (d helm.Decision, r helm.Receipt) {
	w.T.Helper()
	d, r = w.Call(tool, args, change...)
	w.MustBe(d, r, x)
	return d, r
}

// MustBeSealed shows that nothing runs any more and nothing is written.
func (w *World) MustBeSealed() {
	w.T.Helper()
	before := w.Size()
	w.MustCall(Sealed(), "echo", `{}`)
	assert.Equal(w.T, before, w.Size(), "a sealed kernel wrote entries")
}
