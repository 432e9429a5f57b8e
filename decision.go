package helm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// One question matters for a retry: did it run?
var (
	// ErrDenied means that the call surely did not run.
	ErrDenied = errors.New("denied")
	// ErrWithheld means that the call ran, or may have run, and nothing of its output is released.
	// No error is both ErrDenied and ErrWithheld.
	ErrWithheld = errors.New("output withheld")
	// ErrApprovalRequired means that a person must approve the call first. It Is ErrDenied too.
	ErrApprovalRequired = errors.New("approval required")
)

// A Decision is the outcome of an Intent. The zero Decision denies.
//
// Args are the arguments as judged: canonical, with the defaults of the tool's schema filled in.
// What the model sent may have another hash than the one that the approver of Pending signs.
type Decision struct {
	Verdict contracts.Verdict          // the last word: Allow only if allowed, ran and recorded
	Reason  contracts.ReasonCode       // of the verdict
	Why     string                     // the place of the fault: JSON Pointer, constraint, rule id; never a value
	Record  contracts.DecisionRecord   // the decision before anything ran, as signed in its entry
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED: the request that an approver must sign
	Args    json.RawMessage            // with Pending: the arguments that it is about, for the approver to read

	tool      string
	toolError error // the tool's own error
	cause     error
}

// Allowed reports whether the call was judged admissible, ran, and was recorded. It is true even if
// the tool itself failed: [Decision.Err] is nil exactly when the output was released.
func (d Decision) Allowed() bool { return d.Verdict == contracts.Allow }

// Err returns nil exactly when the output was released. Otherwise it returns an [*Error], which Is
// ErrDenied or ErrWithheld, or the tool's own error, which is neither.
func (d Decision) Err() error {
	switch {
	case d.Verdict == contracts.Allow && d.Reason == contracts.ReasonAllow:
		return nil
	case d.Verdict == contracts.Allow && d.toolError != nil:
		return d.toolError
	}
	return &Error{d.tool, d.Reason, d.Why, d.Pending, foreign(d.cause), d.Args}
}

// ForModel returns the text to hand back to the model that made the call, and whether it is of a
// call that failed: of any that was not EXECUTED. The text is the released output, of a tool that
// failed too, else the tool's own error, of which a text over 4 KiB is cut and ends with "…". Of a
// denial it is
//
//	TOOL was denied: REASON. ADVICE (PLACE)
//
// and with Pending also whom the call waits for. It never has the text of a panic, a cause, or a
// value that was refused. r is the receipt that Guard returned with d.
func (d Decision) ForModel(r Receipt) (text string, failed bool) {
	failed = d.Verdict != contracts.Allow || d.Reason != contracts.ReasonAllow
	if d.Verdict == contracts.Allow && r.Output != nil {
		return string(r.Output), failed
	}
	if !failed {
		return "", false
	}
	if d.Verdict == contracts.Allow && d.toolError != nil {
		if text = toModel(d.toolError); text != "" {
			return shortened(text), true
		}
	}
	reason := cmp.Or(d.Reason, contracts.ReasonFailClosedError)
	text = cmp.Or(d.tool, "the call")
	if reason.Ran() {
		text += " has no result: "
	} else {
		text += " was denied: "
	}
	text += string(reason) + ". " + reason.Advice()
	if d.Why != "" {
		text += " (" + d.Why + ")"
	}
	if d.Pending != nil {
		text += " An approver must answer request " + d.Pending.Nonce + "; make the same call again then."
	}
	return text, true
}

// An Error says why a call has no output. It Is [ErrDenied] or [ErrWithheld], and unwraps to the
// cause if there is one. Its text has the tool, the reason and the place of the fault. It has no
// argument and no output; of a panic in the tool it has the type, or the Go runtime's own text. The
// zero Error is a denial.
type Error struct {
	Tool    string
	Reason  contracts.ReasonCode
	Why     string                     // JSON Pointer, constraint, rule id
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED
	Err     error                      // the cause: the store's or the signer's error, the context's

	args json.RawMessage
}

func (e *Error) Error() string {
	tool, reason, why, cause := "", contracts.ReasonFailClosedError, "", error(nil)
	if e != nil {
		tool, why, cause = e.Tool, e.Why, e.Err
		if e.Reason != "" {
			reason = e.Reason
		}
	}
	s := "helm: "
	if tool != "" {
		s += tool + ": "
	}
	s += fmt.Sprintf("%v (%s)", e.sentinel(), reason)
	if why != "" {
		s += ": " + why
	}
	if cause != nil {
		s += ": " + errorText(cause)
	}
	return s
}

// Args returns [Decision.Args]: with Pending the arguments that it is about, for the approver to
// read. It is no field, so that a log of errors has no arguments.
func (e *Error) Args() json.RawMessage {
	if e == nil {
		return nil
	}
	return e.args
}

func (e *Error) sentinel() error {
	if e != nil && e.Reason != "" && e.Reason.Ran() {
		return ErrWithheld
	}
	return ErrDenied
}

// Unwrap returns the sentinels and the cause.
func (e *Error) Unwrap() []error {
	list := []error{e.sentinel()}
	if e != nil {
		if e.Reason == contracts.ReasonApprovalRequired {
			list = append(list, ErrApprovalRequired)
		}
		if e.Err != nil {
			list = append(list, e.Err)
		}
	}
	return list
}

// foreign returns an error of a tool, a store or a signer as the caller may see it. If it holds an
// error of this package, because the tool made a call of its own, only its text is left: it must
// not say of this call whether it ran.
func foreign(err error) (seen error) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // in the error's own Is or As
			seen = errors.New(errorText(err))
		}
	}()
	var inner *Error
	if errors.As(err, &inner) || errors.Is(err, ErrDenied) || errors.Is(err, ErrWithheld) ||
		errors.Is(err, ErrApprovalRequired) {
		text := errorText(err)
		if inner == nil {
			return errors.New(text)
		}
		own := *inner
		own.Err = nil // the cause, which may be a panic
		return &opaqueError{text, own.Error()}
	}
	return err
}

// An opaqueError has the text of an error that holds one of this package.
type opaqueError struct {
	text    string
	toModel string // without causes
}

func (e *opaqueError) Error() string { return e.text }

// toModel returns the text of a tool's own error for the model.
func toModel(err error) string {
	if e, ok := err.(*opaqueError); ok {
		return e.toModel
	}
	return errorText(err)
}

// maxErrorText is how many bytes of a tool's own error a model is told. The policy limits outputs,
// and an error may quote a whole page.
const maxErrorText = 4 << 10

// shortened returns a text of at most maxErrorText bytes.
func shortened(text string) string {
	const cut = "…"
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText-len(cut)], "") + cut // without the rune that was cut
}

// errorText returns the text of an error, whose methods may panic.
func errorText(err error) (text string) {
	defer contain.Value(&text, "an error whose text cannot be had")
	return err.Error()
}

// A Receipt proves the outcome of a call. It is zero if nothing was recorded.
type Receipt struct {
	Record contracts.Receipt // the signed record, to read
	Entry  contracts.Entry   // the exact signed bytes, to keep, send and verify
	Index  uint64            // place in the log
	Output []byte            // nil unless released; JSON, or raw bytes if the output is not strict JSON
}

// Ref returns the name of the receipt, for Intent.After.
func (r Receipt) Ref() contracts.Ref {
	if len(r.Entry) == 0 {
		return contracts.Ref{}
	}
	return contracts.Ref{Index: r.Index, Hash: r.Entry.Hash()}
}

// MarshalJSON returns the entry. There is no UnmarshalJSON: a receipt is verified, by
// receipts.Open, not decoded.
func (r Receipt) MarshalJSON() ([]byte, error) { return r.Entry.MarshalJSON() }

// clone returns a copy that shares nothing with d that could be changed.
func (d Decision) clone() Decision {
	d.Record, d.Args = cloneRecord(d.Record), bytes.Clone(d.Args)
	if d.Pending = clonePointer(d.Pending); d.Pending != nil {
		d.Pending.Caller.Roles = slices.Clone(d.Pending.Caller.Roles)
		d.Pending.Roles = slices.Clone(d.Pending.Roles)
	}
	return d
}

// clone returns a copy that shares nothing with r that could be changed.
func (r Receipt) clone() Receipt {
	r.Entry, r.Output = bytes.Clone(r.Entry), bytes.Clone(r.Output)
	x := &r.Record
	if x.Decision != nil {
		d := cloneRecord(*x.Decision)
		x.Decision = &d
	}
	x.FactsHash, x.OutputHash = clonePointer(x.FactsHash), clonePointer(x.OutputHash)
	if x.Sandbox = clonePointer(x.Sandbox); x.Sandbox != nil {
		x.Sandbox.Grants = clonePointer(x.Sandbox.Grants)
	}
	x.Settled, x.Signals = slices.Clone(x.Settled), slices.Clone(x.Signals)
	return r
}

func cloneRecord(d contracts.DecisionRecord) contracts.DecisionRecord {
	d.Approvals, d.Attestations = slices.Clone(d.Approvals), slices.Clone(d.Attestations)
	d.Charges, d.Signals = slices.Clone(d.Charges), slices.Clone(d.Signals)
	d.Caller.Roles = slices.Clone(d.Caller.Roles)
	d.Delegation, d.Pending = clonePointer(d.Delegation), clonePointer(d.Pending)
	return d
}

// clonePointer returns a pointer to a copy.
func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	x := *p
	return &x
}
