package executor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// A Driver runs one tool. The executor calls it on a goroutine of its own, with a context that ends at the tool's time limit or with the
// caller's context, whichever is first. call.Args are the canonical bytes that were judged. What call holds belongs to the driver, and so
// does what it returns: neither is looked at again after a copy was made. A driver should return soon after its context ends.
type Driver interface {
	Run(ctx context.Context, call contracts.Call) (Result, error)
}

// Result is what a driver returns.
type Result struct {
	Output []byte // JSON, or any other bytes; empty means that there is none
	Gas    uint64 // used, by a Sandboxed driver
}

// Sandboxed is a driver that runs its tool in a sandbox. What it declares is constant: it is read before the call is judged, and is then
// what the call was judged by.
type Sandboxed interface {
	Driver
	Sandbox() contracts.SandboxInfo
}

// Defined is a driver of a tool whose provider publishes a definition: of an MCP tool its name, description, inputSchema and whatever else is
// published with them. Definition is the SHA-256 of the canonical JSON (RFC 8785) of that definition as the driver knows it now; the zero
// Digest is none. It is read before each call is judged, from many goroutines: where the policy pins a definition of the tool, a driver that
// declares another, or none, is no driver for it. So what a tool says of itself, which is what a model goes by, cannot change unnoticed.
type Defined interface {
	Driver
	Definition() contracts.Digest
}

// Func is a function as a Driver. A nil Func is no driver.
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

var errNoDriver = errors.New("executor: there is no driver")

// runs tells whether there is anything to call.
func runs(d Driver) bool {
	f, ok := d.(Func)
	return d != nil && !(ok && f == nil)
}

// LimitError is how a [Sandboxed] driver says that its sandbox stopped the tool. Reason is one of ERR_COMPUTE_GAS_EXHAUSTED,
// ERR_COMPUTE_TIME_EXHAUSTED, ERR_COMPUTE_MEMORY_EXHAUSTED and ERR_COMPUTE_OUTPUT_EXHAUSTED. From any other driver, or with any other
// reason, it is the tool's own error and no more.
type LimitError struct{ Reason contracts.ReasonCode }

func (e LimitError) Error() string {
	return "executor: the sandbox stopped the tool: " + string(e.Reason)
}

// limitOf gives the limit that an error names, or "". It calls methods of the error, which are the driver's: one that panics names none.
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
	case contracts.ReasonGasExhausted, contracts.ReasonTimeExhausted, contracts.ReasonMemoryExhausted, contracts.ReasonOutputExhausted:
		return value.Reason
	}
	return ""
}
