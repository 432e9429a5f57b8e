package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/roundtrip"
)

// Wrap returns the same function, guarded. Its argument is marshalled to JSON, judged as a call of
// the tool, and decoded again from the judged bytes, exactly. The result is decoded from the
// released bytes. Caller, session and approvals come from [With]. An error is that of
// [Decision.Err]. Under the context of a kernel that was narrowed from k the call is one of that
// kernel: see [Kernel.Context].
//
// The function runs with the argument that was passed, or not at all. An argument that does not
// survive the way to JSON and back is denied before anything runs, and its receipt is the kernel's
// own INTENT_MALFORMED; Reason is SCHEMA_VIOLATION, unless an earlier condition denies the call,
// and Why names the field. So In has no field that encoding/json leaves out without a word:
// unexported, tagged "-", or of a name that another field has, in embedded structs too. It has no
// func and no chan. A type with JSON or text methods of its own is not looked into. Those of an
// embedded field encode that field alone, so a struct that has them from there denies what its
// other fields hold.
//
// The type's JSON names are the schema's, letter case included, so fields need json tags. A field
// without omitempty is always sent, its zero value too, and then no default of the schema takes its
// place. If omitempty or omitzero leaves a value out that is not nil, and a default takes its
// place, the call is denied: use a pointer where the schema has a default.
//
// A result that has no JSON form is TOOL_PANIC: the function ran, and has not said that it failed.
func Wrap[In, Out any](
	k *Kernel, tool string, fn func(context.Context, In) (Out, error),
) func(context.Context, In) (Out, error) {
	arg := roundtrip.Of(reflect.TypeFor[In]())
	return func(ctx context.Context, in In) (Out, error) {
		var none Out
		w := &wrapped[In, Out]{fn: fn, in: in, arg: arg}
		var err error
		if w.sent, err = encode(in); err != nil {
			w.sent = nil // no arguments, which are denied and recorded
		}
		d, r := k.Guard(ctx, Intent{Tool: tool, Args: w.sent, Driver: w})
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

// Tool returns a tool as frameworks take it: the model's raw bytes in, and out what the model is
// told, with whether the call failed. See [Decision.ForModel]. Arguments of no bytes are {}. If d
// is nil the driver is that of Options.Drivers.
func Tool(k *Kernel, tool string, d Driver) func(ctx context.Context, args []byte) (text string, failed bool) {
	return func(ctx context.Context, args []byte) (string, bool) {
		if len(args) == 0 {
			args = []byte("{}")
		}
		decision, r := k.Guard(ctx, Intent{Tool: tool, Args: args, Driver: d})
		return decision.ForModel(r)
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

// wrapped is a Go function as a driver, for one call.
type wrapped[In, Out any] struct {
	fn   func(context.Context, In) (Out, error)
	in   In
	sent []byte // its JSON; nil: it has none
	arg  roundtrip.Type
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

// unrepresentable returns why the function would not run with the argument that was passed. It
// decodes the arguments and encodes them again: keys that differ by letter case, names that the
// type lacks and values that it cannot hold all show as other bytes. The result has nothing of the
// text of an error, which may be the type's own.
func (w *wrapped[In, Out]) unrepresentable(args []byte) (why string) {
	defer contain.Value(&why, unfit) // a panic in the type's own methods
	switch {
	case w.fn == nil:
		return "the wrapped function is nil"
	case w.sent == nil:
		if lost := w.arg.Lost(reflect.Value{}); lost != "" {
			return lost
		}
		return "the argument of the wrapped function has no JSON form"
	}
	passed := reflect.ValueOf(struct{ In In }{w.in}).Field(0) // as encoding/json sees it: not addressable
	if lost := w.arg.Lost(passed); lost != "" {
		return lost
	}
	if args == nil { // Guard cannot read them, and says why
		return ""
	}
	arrives, ok := roundTrip[In](args)
	if !ok {
		if at := roundtrip.Misfit(args, passed.Type()); at != "" {
			return at + ": the argument type of the wrapped function does not hold it"
		}
		return unfit
	}
	return roundtrip.Changed(passed, reflect.ValueOf(struct{ In In }{arrives}).Field(0))
}

const unfit = "the arguments, after defaults, do not fit the argument type of the wrapped function"

// roundTrip decodes a value and reports whether it encodes to the same.
func roundTrip[T any](canonical []byte) (v T, ok bool) {
	defer contain.Value(&ok, false)
	return v, json.Unmarshal(canonical, &v) == nil && roundtrip.Encodes(v, canonical)
}
