package helm

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

// One question matters for a retry: did it run?
var (
	// ErrDenied means that the call surely did not run.
	ErrDenied = errors.New("denied")
	// ErrWithheld means that the call ran, or may have run, and nothing of its output is released. An error is never both.
	ErrWithheld = errors.New("output withheld")
	// ErrApprovalRequired means that a person must approve the call first. It Is ErrDenied too.
	ErrApprovalRequired = errors.New("approval required")
)

// Error is why a call has no output. It Is [ErrDenied] or [ErrWithheld], and unwraps to the cause where there is one. Its text has the
// tool, the reason and where it went wrong; never an argument or an output, but for what a tool says itself when it panics. The zero Error
// is a denial.
type Error struct {
	Tool    string
	Reason  contracts.ReasonCode
	Why     string                     // JSON Pointer, constraint, rule id
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED
	Err     error                      // the cause: the store's or the signer's error, the context's
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

func (e *Error) sentinel() error {
	if e != nil && e.Reason != "" && e.Reason.Ran() {
		return ErrWithheld
	}
	return ErrDenied
}

// Unwrap gives the sentinels and the cause.
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

// opaque is an error of which only the text is left.
type opaque struct{ text string }

func (o opaque) Error() string { return o.text }

// foreign is an error of somebody else's, the tool's own or a cause, as the caller may see it. One that has an answer of HELM's in it, because
// a tool, a store or a signer made a call of its own, must not say of this call whether it ran: of it only the text is left.
func foreign(err error) (seen error) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // the error's own Is or As
			seen = opaque{errorText(err)}
		}
	}()
	var inner *Error
	if errors.As(err, &inner) || errors.Is(err, ErrDenied) || errors.Is(err, ErrWithheld) || errors.Is(err, ErrApprovalRequired) {
		return opaque{errorText(err)}
	}
	return err
}

// errorText is the text of an error whose methods may panic.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "an error whose text cannot be had"
		}
	}()
	return err.Error()
}

// panicked makes an error of what was recovered, without the value: it may hold anything.
func panicked(where string, x any) error {
	if err, ok := x.(error); ok {
		return fmt.Errorf("%s panicked: %T", where, err)
	}
	return fmt.Errorf("%s panicked", where)
}
