package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type echoArgs struct {
	N    float64 `json:"n"`
	Text string  `json:"text,omitempty"`
}

func TestWrap(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	echo := helm.Wrap(w.Kernel, "echo", func(ctx context.Context, in echoArgs) (echoArgs, error) {
		w.Runs.Add(1)
		return in, nil
	})
	ctx := helm.With(context.Background(), helm.Intent{Session: "s", Caller: helm.Caller{ID: "ada"}})
	out, err := echo(ctx, echoArgs{2, "x"})
	assert.NoError(t, err)
	assert.Equal(t, echoArgs{2, "x"}, out)
	out, err = echo(ctx, echoArgs{2, "a secret"})
	assert.ErrorIs(t, err, helm.ErrDenied)
	assert.Equal(t, echoArgs{}, out)
	var refused *helm.Error
	_, err = echo(ctx, echoArgs{2, "secret"})
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "echo", refused.Tool)
	assert.Equal(t, contracts.ReasonPolicyViolation, refused.Reason)
	assert.NotEmpty(t, refused.Reason.Advice())
	assert.Equal(t, int64(1), w.Runs.Load(), "runs of the tool")
	fails := helm.Wrap(w.Kernel, "echo", func(context.Context, echoArgs) (echoArgs, error) {
		return echoArgs{1, "half made"}, kerneltest.ErrTool
	})
	out, err = fails(ctx, echoArgs{})
	assert.ErrorIs(t, err, kerneltest.ErrTool)
	assert.Equal(t, echoArgs{}, out)
	drifts := helm.Wrap(w.Kernel, "pinned",
		func(context.Context, struct{}) (map[string]string, error) { return map[string]string{"ok": "?"}, nil })
	if out, err := drifts(ctx, struct{}{}); !errors.Is(err, helm.ErrWithheld) || out != nil {
		t.Errorf("%v %v", out, err)
	}
	w.MustVerify()
}

// takes returns a call of a wrapped function with that argument.
func takes[In any](w *kerneltest.World, in In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := helm.Wrap(w.Kernel, "echo", func(context.Context, In) (int, error) {
			w.Runs.Add(1)
			return 0, nil
		})(ctx, in)
		return err
	}
}

// A value that does not survive the way from Go to JSON and back is denied before anything runs,
// and recorded.
func TestWrapMisfits(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	type onlyText struct {
		Text string `json:"text"`
	}
	type shouting struct{ TEXT string }
	ctx := helm.With(context.Background(), helm.Intent{Session: "s"})
	require.NoError(t, takes(w, echoArgs{N: 1})(ctx), "or the denials below would prove nothing")
	w.Runs.Store(0)
	for name, call := range map[string]func(context.Context) error{
		"the type lacks what the schema fills in": takes(w, onlyText{"private"}),
		"the type holds less than the schema":     takes(w, lossy{N: 2.5}),
		"the type decodes what it did not encode": takes(w, oneWay{}),
		"the type panics when it is decoded":      takes(w, explosive{}),
		"the type panics when it is encoded":      takes(w, bursting{}),
		"the type tells what it was given":        takes(w, telling{}),
		"a key of another letter case":            takes(w, shouting{"private"}),
		"a channel":                               takes[chan int](w, nil),
		"a good argument, but the function is none": func(ctx context.Context) error {
			_, err := helm.Wrap[echoArgs, int](w.Kernel, "echo", nil)(ctx, echoArgs{N: 1})
			return err
		},
	} {
		before := w.Size()
		err := call(ctx)
		var refused *helm.Error
		require.ErrorAs(t, err, &refused, name)
		assert.ErrorIs(t, err, helm.ErrDenied, name)
		assert.Equal(t, contracts.ReasonSchemaViolation, refused.Reason, name)
		assert.NotEmpty(t, refused.Why, name)
		assert.NotContains(t, err.Error(), "private", "%s: a value in %v", name, err)
		assert.Equal(t, before+1, w.Size(), name)
		assert.Zero(t, w.Runs.Load(), name)
	}
	w.MustVerify()
}

type lossy struct{ N float64 }

func (l lossy) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]float64{"n": l.N}) }

func (l *lossy) UnmarshalJSON(b []byte) error { l.N = 2; return nil }

type oneWay struct{}

func (oneWay) MarshalJSON() ([]byte, error) { return []byte(`{"n":1,"text":"private"}`), nil }

func (*oneWay) UnmarshalJSON([]byte) error { return errors.New("private") }

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { return []byte(`{"n":1}`), nil }

func (*explosive) UnmarshalJSON([]byte) error { panic("private") }

// telling is an argument whose type quotes its input in its error.
type telling struct{}

func (telling) MarshalJSON() ([]byte, error) { return []byte(`{"n":1,"text":"private"}`), nil }

func (*telling) UnmarshalJSON([]byte) error {
	return &json.UnmarshalTypeError{Field: "private", Value: "private", Type: reflect.TypeFor[int]()}
}

type bursting struct{}

func (bursting) MarshalJSON() ([]byte, error) { panic("private") }

func (*bursting) UnmarshalJSON([]byte) error { panic("private") }

// Methods of a result's type may panic: that is an error after the fact.
func TestWrapResultPanics(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	ctx := helm.With(context.Background(), helm.Intent{Session: "s"})
	_, err := helm.Wrap(w.Kernel, "echo", func(context.Context, echoArgs) (bursting, error) {
		return bursting{}, nil
	})(ctx, echoArgs{N: 1})
	assert.ErrorIs(t, err, helm.ErrWithheld, "result that cannot be written")
	out, err := helm.Wrap(w.Kernel, "echo", func(context.Context, echoArgs) (unreadable, error) {
		return unreadable{}, nil
	})(ctx, echoArgs{N: 1})
	require.Error(t, err, "result that cannot be read")
	require.NotErrorIs(t, err, helm.ErrDenied)
	require.NotErrorIs(t, err, helm.ErrWithheld)
	assert.Equal(t, unreadable{}, out)
	assert.NotContains(t, err.Error(), "private")
	w.MustVerify()
}

type unreadable struct{ half int }

func (unreadable) MarshalJSON() ([]byte, error) { return []byte(`"private"`), nil }

func (u *unreadable) UnmarshalJSON(b []byte) error { u.half = 1; panic("private") }

func TestWith(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	var got contracts.Call
	w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		got = c
		return executor.Result{}, nil
	}
	ctx := helm.With(context.Background(), helm.Intent{Session: "outer", Caller: helm.Caller{ID: "outer"},
		Args: json.RawMessage(`{"n":7}`)})
	ctx = helm.With(ctx, helm.Intent{Tool: "pinned", Session: "pinned-only"})
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "inner"}})
	for _, x := range []struct{ tool, session, caller string }{{"echo", "outer", "inner"}, {"slow", "outer", "inner"},
		{"pinned", "pinned-only", "inner"}} {
		w.Kernel.Guard(ctx, helm.Intent{Tool: x.tool, Args: json.RawMessage(`{}`)})
		assert.Equal(t, x.tool, got.Tool)
		assert.Equal(t, x.session, got.Session)
		assert.Equal(t, x.caller, got.Caller.ID)
	}
	w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "own",
		Caller: helm.Caller{Tenant: "own"}})
	assert.Equal(t, "own", got.Session, "an intent's own fields")
	assert.Empty(t, got.Caller.ID)
	assert.Equal(t, "own", got.Caller.Tenant)
	assert.Equal(t, `{"n":1}`, string(got.Args))
	d, _ := w.Kernel.Guard(ctx, helm.Intent{Args: json.RawMessage(`{}`)})
	assert.Equal(t, contracts.ReasonIntentMalformed, d.Reason, "an intent without a tool")
	d, _ = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo"})
	assert.Equal(t, contracts.ReasonArgsCanonicalization, d.Reason, "an intent without arguments")
}

func TestDriversBound(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	own := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { w.Runs.Add(1); return nil, nil })
	for name, x := range map[string]struct {
		tool   string
		driver executor.Driver
		reason contracts.ReasonCode
	}{
		"none":               {"unbound", nil, contracts.ReasonDriverNotBound},
		"nil function":       {"unbound", helm.Func(nil), contracts.ReasonDriverNotBound},
		"both":               {"echo", own, contracts.ReasonDriverNotBound},
		"of the intent":      {"unbound", own, contracts.ReasonAllow},
		"of the options":     {"echo", nil, contracts.ReasonAllow},
		"bound, undeclared":  {"undeclared", own, contracts.ReasonToolNotFound},
		"bound, not allowed": {"closed", nil, contracts.ReasonNoPolicyDefined},
	} {
		w.Runs.Store(0)
		d, _ := w.Call(x.tool, `{}`, kerneltest.WithDriver(x.driver))
		assert.Equal(t, x.reason, d.Reason, name)
		assert.Equal(t, x.reason == contracts.ReasonAllow, w.Runs.Load() == 1, name)
	}
	w.MustVerify()
}
