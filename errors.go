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
// tool, the reason and where it went wrong; never an argument or an output. The zero Error is a denial.
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

// ownError is the tool's own error as the caller may see it. Where a tool failed because a call inside it was denied, its error must not
// say of the outer call, which ran, that it did not.
func ownError(err error) (own error) {
	defer func() {
		if recover() != nil { // the error's own Is or As
			own = opaque{errorText(err)}
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
