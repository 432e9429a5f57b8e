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
)

// Wrap gives the same function, guarded: its argument is marshalled to JSON, judged as a call of the tool, and decoded again from the judged
// bytes, exactly; what does not survive that is denied before anything runs. The result is decoded from the released bytes. Whose call it
// is, its session and its approvals come from [With]; an error is that of [Decision.Err]. Under the context of a kernel that was narrowed from
// k it is a call of that one: see [Kernel.Context].
//
// The type's JSON names are the schema's, letter case included, so fields want json tags. A field without omitempty is always sent, its zero
// value too, and then no default of the schema takes its place. An argument that has no JSON, or none that is an object, is denied. A result
// that has no JSON is TOOL_PANIC: the function ran, and has not said that it failed.
func Wrap[In, Out any](k *Kernel, tool string, fn func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		var args []byte
		_ = contained("the argument", func() { args, _ = json.Marshal(in) }) // what has no JSON is no arguments, which is DENY
		d, r := k.Guard(ctx, Intent{Tool: tool, Args: args, Driver: &typed[In, Out]{fn}})
		if err := d.Err(); err != nil {
			return out, err
		}
		var fits error
		if trouble := contained("the result", func() { fits = json.Unmarshal(r.Output, &out) }); trouble != nil || fits != nil {
			var none Out
			return none, fmt.Errorf("helm: %s: ran and was recorded, but its output does not fit %T", tool, none)
		}
		return out, nil
	}
}

// typed is a Go function as a driver.
type typed[In, Out any] struct {
	fn func(context.Context, In) (Out, error)
}

// Run decodes the judged arguments and encodes the result.
func (t *typed[In, Out]) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	var in In
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return executor.Result{}, errors.New("the arguments do not fit the wrapped function")
	}
	out, err := t.fn(ctx, in)
	if err != nil {
		return executor.Result{}, err
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("the result of the wrapped function has no JSON form") // no error: the function says that it did what it was called for, so its charge stays
	}
	return executor.Result{Output: b}, nil
}

// wrapped is a driver that knows before it runs whether it can decode its arguments.
type wrapped interface {
	misfit(args []byte) string
}

// misfit decodes the arguments and encodes them again: keys that differ by letter case, names that the type lacks and values that it cannot
// hold all show as other bytes. It says what is wrong, but nothing of what an error says: its text may be the type's own.
func (t *typed[In, Out]) misfit(args []byte) (what string) {
	const unfit = "the arguments, after defaults, do not fit the argument type of the wrapped function"
	defer func() {
		if recover() != nil { // the type's own methods
			what = unfit
		}
	}()
	if t.fn == nil {
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
	if again, err = tree.ParseArgs(nil, again); err != nil || !bytes.Equal(again, args) {
		return unfit
	}
	return ""
}
