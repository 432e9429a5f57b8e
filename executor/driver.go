package executor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
)

// A Driver runs one tool. [Run] calls it on a goroutine of its own, with a context that ends at the
// tool's time limit or with the caller's context, whichever is first. call.Args are the canonical
// bytes that were judged. Everything in call belongs to the driver, and so does the result after
// Run has copied it. A driver should return soon after its context ends.
type Driver interface {
	Run(ctx context.Context, call contracts.Call) (Result, error)
}

// A Result is what a driver returns. If it returns an error too, only Gas counts.
type Result = cell.Result

// A Sandboxed driver runs its tool in a sandbox. Sandbox must always return the same: it is read
// before the call is judged, and the call is judged by it. If it does not return within 10 seconds
// the call is denied.
type Sandboxed interface {
	Driver
	Sandbox() contracts.SandboxInfo
}

// A Defined driver runs a tool whose provider publishes a definition: of an MCP tool its name,
// description, inputSchema and all other published members. Definition returns the SHA-256 of the
// canonical JSON (RFC 8785) of the definition as the driver knows it now, or the zero Digest if
// there is none. It is called before each call is judged, from many goroutines; if it does not
// return within 10 seconds the call is denied. If the policy pins a definition of the tool, a
// driver that returns another, or none, is not used. So a tool's description, which a model relies
// on, cannot change unnoticed.
type Defined interface {
	Driver
	Definition() contracts.Digest
}

// A Func is a function as a [Driver]. A nil Func is no driver.
type Func func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)

var _ Driver = Func(nil)

// Run calls f.
func (f Func) Run(ctx context.Context, call contracts.Call) (Result, error) {
	if f == nil {
		return Result{}, errNoDriver
	}
	out, err := f(ctx, call.Args)
	return Result{Output: out}, err
}

// A Text is a function as a [Driver] whose output is text, which is never read as JSON. A nil Text
// is no driver.
type Text func(ctx context.Context, args json.RawMessage) (string, error)

var _ Driver = Text(nil)

// Run calls f.
func (f Text) Run(ctx context.Context, call contracts.Call) (Result, error) {
	if f == nil {
		return Result{}, errNoDriver
	}
	out, err := f(ctx, call.Args)
	return Result{Output: []byte(out), Raw: true}, err
}

var errNoDriver = errors.New("executor: there is no driver")

// runnable reports whether there is a driver to call.
func runnable(d Driver) bool {
	switch f := d.(type) {
	case nil:
		return false
	case Func:
		return f != nil
	case Text:
		return f != nil
	}
	return true
}

// A LimitError is the error of a [Sandboxed] driver whose sandbox stopped the tool. Reason is one
// of ERR_COMPUTE_GAS_EXHAUSTED, ERR_COMPUTE_TIME_EXHAUSTED, ERR_COMPUTE_MEMORY_EXHAUSTED and
// ERR_COMPUTE_OUTPUT_EXHAUSTED. From any other driver, or with any other reason, it is an error of
// the tool like any other.
type LimitError struct{ Reason contracts.ReasonCode }

func (e LimitError) Error() string {
	return "executor: the sandbox stopped the tool: " + string(e.Reason)
}

// limitOf returns the limit that an error names, or "". It calls methods of the error, which are
// the driver's; if one panics, limitOf returns "".
func limitOf(err error) contracts.ReasonCode {
	defer contain.Drop()
	var value LimitError
	var pointer *LimitError
	if errors.As(err, &pointer) && pointer != nil {
		value = *pointer
	} else if !errors.As(err, &value) {
		return ""
	}
	switch value.Reason {
	case contracts.ReasonGasExhausted, contracts.ReasonTimeExhausted,
		contracts.ReasonMemoryExhausted, contracts.ReasonOutputExhausted:
		return value.Reason
	}
	return ""
}
