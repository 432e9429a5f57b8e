package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/contain"
)

// Wrap returns the same function, guarded. Its argument is marshalled to JSON, judged as a call of
// the tool, and decoded again from the judged bytes, exactly: an argument that does not survive
// this is denied before anything runs. The result is decoded from the released bytes. Caller,
// session and approvals come from [With]. An error is that of [Decision.Err]. Under the
// context of a kernel that was narrowed from k the call is one of that kernel: see
// [Kernel.Context].
//
// The type's JSON names are the schema's, letter case included, so fields need json tags. A field
// without omitempty is always sent, its zero value too, and then no default of the schema takes its
// place. An argument that has no JSON form, or none that is an object, is denied. A result that has
// no JSON form is TOOL_PANIC: the function ran, and has not said that it failed.
func Wrap[In, Out any](
	k *Kernel, tool string, fn func(context.Context, In) (Out, error),
) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		var none Out
		args, err := encode(in)
		if err != nil {
			args = nil // no arguments, which Guard denies and records
		}
		d, r := k.Guard(ctx, Intent{Tool: tool, Args: args, Driver: &wrapped[In, Out]{fn}})
		if err := d.Err(); err != nil {
			return none, err
		}
		out, err := decode[Out](r.Output)
		if err != nil { // not wrapped: its text may be the type's own, and quote the output
			return none, fmt.Errorf("helm: %s: ran and was recorded, but its output does not fit %T", tool, none)
		}
		return out, nil
	}
}

// encode marshals a value, whose methods may panic.
func encode(v any) (b []byte, err error) {
	defer contain.Error(&err, "its MarshalJSON")
	return json.Marshal(v)
}

// decode unmarshals a value, whose methods may panic.
func decode[T any](b []byte) (v T, err error) {
	defer contain.Error(&err, "its UnmarshalJSON")
	err = json.Unmarshal(b, &v)
	return v, err
}

// wrapped is a Go function as a driver.
type wrapped[In, Out any] struct {
	fn func(context.Context, In) (Out, error)
}

var _ typed = (*wrapped[any, any])(nil)

// Run decodes the judged arguments, calls the function and encodes its result.
func (w *wrapped[In, Out]) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	var in In
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return executor.Result{}, errors.New("the arguments do not fit the wrapped function")
	}
	out, err := w.fn(ctx, in)
	if err != nil {
		return executor.Result{}, err
	}
	output, err := json.Marshal(out)
	if err != nil {
		// A Fault, because the function says that it has run without error: its charge stays.
		return executor.Result{}, contain.Fault("the result of the wrapped function has no JSON form")
	}
	return executor.Result{Output: output}, nil
}

// unrepresentable decodes the arguments and encodes them again. Keys that differ by letter case,
// names that the type lacks and values that it cannot hold all show as other bytes. The result
// has nothing of the text of an error, which may be the type's own.
func (w *wrapped[In, Out]) unrepresentable(args []byte) (why string) {
	const unfit = "the arguments, after defaults, do not fit the argument type of the wrapped function"
	defer contain.Value(&why, unfit) // a panic in the type's own methods
	if w.fn == nil {
		return "the wrapped function is nil"
	}
	var in In
	if err := json.Unmarshal(args, &in); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return unfit + ": one is no " + kind.Type.String()
		}
		return unfit
	}
	again, err := json.Marshal(in)
	if err != nil {
		return unfit
	}
	var tree crypto.Tree
	canonical, err := tree.ParseArgs(nil, again)
	if err != nil || !bytes.Equal(canonical, args) {
		return unfit
	}
	return ""
}
