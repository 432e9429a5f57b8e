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

// A Sandboxed driver runs its tool in a sandbox. Its cell is the claim to the sandbox and what runs
// there, in one value: [Run], and a kernel, call what is in the cell and not the driver's Run. Only
// packages of this library can make a cell that runs, and a cell is that of one driver: a driver
// that wraps, embeds or copies another, and answers with its cell, counts as no driver. A kernel
// asks for the cell before each call is judged, and if Cell does not return within 10 seconds
// the call is denied.
type Sandboxed interface {
	Driver
	Cell() *cell.Cell
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

var (
	errNoDriver = errors.New("executor: there is no driver")
	errNoCell   = errors.New("executor: the driver's cell is not its own, or runs nothing")
)

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

// A LimitError is the error of a [Sandboxed] driver if its sandbox stopped the tool. Reason is one
// of ERR_COMPUTE_GAS_EXHAUSTED, ERR_COMPUTE_TIME_EXHAUSTED, ERR_COMPUTE_MEMORY_EXHAUSTED and
// ERR_COMPUTE_OUTPUT_EXHAUSTED. From a cell without grants, from any other driver, or with any
// other reason, it is an error of the tool like any other.
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
