package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever of the host panics, at whatever moment: the call is denied or recorded, and the kernel
// continues.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	t.Run("context", func(t *testing.T) {
		w := kerneltest.New(t)
		denied, allowed := 0, 0
		for n := range int64(12) {
			left := new(atomic.Int64)
			left.Store(n)
			d, r := w.Kernel.Guard(kerneltest.HostileContext{Context: context.Background(), Left: left},
				helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s"})
			switch {
			case errors.Is(d.Err(), helm.ErrDenied) && d.Reason == contracts.ReasonFailClosedError &&
				r.Record.Outcome == contracts.Denied:
				denied++
			case len(r.Entry) > 0:
				allowed++
			default:
				t.Errorf("panic at touch %d: %s %v", n, d.Reason, d.Err())
			}
		}
		assert.NotZero(t, denied, "the panics missed one side")
		assert.NotZero(t, allowed)
		w.Runs.Store(0)
		w.MustVerify()
	})
	t.Run("nil context", func(t *testing.T) {
		w := kerneltest.New(t)
		var none context.Context // as a caller might pass it
		d, r := w.Kernel.Guard(none, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		w.MustBe(d, r, kerneltest.Executed(`{"n":1}`))
	})
	t.Run("clock", func(t *testing.T) {
		var broken atomic.Bool
		w := kerneltest.New(t, func(o *helm.Options) {
			o.Now = func() time.Time {
				if broken.Load() {
					panic("the clock")
				}
				return time.Now()
			}
		})
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			broken.Store(true) // while the tool runs: its end is recorded all the same
			return executor.Result{}, nil
		}
		w.MustCall(kerneltest.Executed("null"), "echo", `{}`)
		w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), "echo", `{}`)
		broken.Store(false)
		w.MustVerify()
	})
	t.Run("clock that goes back", func(t *testing.T) {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		w := kerneltest.New(t, func(o *helm.Options) {
			o.Now = func() time.Time { now = now.Add(-time.Hour); return now }
		})
		for range 3 {
			w.Call("echo", `{}`)
		}
		w.Runs.Store(0)
		w.MustVerify() // which holds every session to times that do not decrease
	})
	t.Run("observer", func(t *testing.T) {
		w := kerneltest.New(t,
			func(o *helm.Options) { o.Observe = func(context.Context, helm.Event) { panic("the observer") } })
		w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`)
	})
	t.Run("observer that calls Guard", func(t *testing.T) {
		var w *kerneltest.World
		var depth atomic.Int64
		w = kerneltest.New(t, func(o *helm.Options) {
			o.Observe = func(ctx context.Context, e helm.Event) {
				if depth.Add(1) == 1 {
					d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`),
						Session: e.Session})
					assert.NoError(t, d.Err())
				}
			}
		})
		kerneltest.Within(t, 10*time.Second, "an observer that calls Guard", func() { w.Call("echo", `{}`) })
	})
	t.Run("sandbox declaration", func(t *testing.T) {
		w := kerneltest.New(t)
		w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), "unbound", `{}`,
			kerneltest.WithDriver(kerneltest.PanickingSandbox{Driver: w}))
		w.MustVerify()
	})
	t.Run("error of the tool", func(t *testing.T) {
		w := kerneltest.New(t)
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{}, panickingError{}
		}
		d, _ := w.Call("echo", `{}`)
		assert.Equal(t, contracts.ReasonToolError, d.Reason)
		require.Error(t, d.Err())
		assert.NotEmpty(t, d.Err().Error())
		w.MustVerify()
	})
}

type panickingError struct{}

func (panickingError) Error() string { panic("Error") }

func (panickingError) Is(error) bool { panic("Is") }

func (panickingError) As(any) bool { panic("As") }

func (panickingError) Unwrap() []error { panic("Unwrap") }

// Zero values and nil deny.
func TestZeroValuesDeny(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]*helm.Kernel{"nil": nil, "zero": {}} {
		d, r := k.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		assert.False(t, d.Allowed(), "%s kernel", name)
		assert.ErrorIs(t, d.Err(), helm.ErrDenied, "%s kernel", name)
		assert.Equal(t, contracts.ReasonKernelSealed, d.Reason, "%s kernel", name)
		assert.Nil(t, r.Entry, "%s kernel", name)
		assert.Nil(t, k.Trust(), "%s kernel has a trust state", name)
		assert.Error(t, k.Close(), "%s kernel closed", name)
		assert.Error(t, k.CloseSession(context.Background(), "s"), "%s kernel closed a session", name)
		_, err := k.Checkpoint(context.Background())
		assert.Error(t, err, "%s kernel signed a checkpoint", name)
	}
	err := (helm.Decision{}).Err()
	assert.ErrorIs(t, err, helm.ErrDenied, "zero Decision")
	assert.NotErrorIs(t, err, helm.ErrWithheld)
	assert.False(t, (helm.Decision{}).Allowed())
	for _, err := range []error{&helm.Error{}, (*helm.Error)(nil)} {
		require.ErrorIs(t, err, helm.ErrDenied)
		assert.NotEmpty(t, err.Error())
	}
	b, err := (helm.Receipt{}).MarshalJSON()
	assert.NoError(t, err, "zero Receipt")
	assert.Equal(t, "null", string(b))
	assert.Equal(t, contracts.Ref{}, (helm.Receipt{}).Ref())
}

// A change that a caller makes afterwards, or a driver to what it kept, changes nothing.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	kept := []byte(`{"text":"kept"}`)
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: kept}, nil
	}
	in := helm.Intent{Tool: "echo", Args: json.RawMessage(`{"text":"x"}`),
		Caller: helm.Caller{ID: "ada", Roles: []string{"b", "a", "b"}}, Session: "s"}
	d, r := w.Kernel.Guard(context.Background(), in)
	assert.Equal(t, "b", in.Caller.Roles[0], "the caller's roles were sorted in place")
	entry := bytes.Clone(r.Entry)
	for _, b := range [][]byte{in.Args, kept} {
		for i := range b {
			b[i] = 'x'
		}
	}
	in.Caller.Roles[0], in.Caller.Roles[1] = "root", "root"
	delete(w.Options.Drivers, "echo")
	w.Options.Policy = nil
	assert.NoError(t, d.Err())
	assert.Equal(t, `{"text":"kept"}`, string(r.Output))
	assert.Equal(t, "a", d.Record.Caller.Roles[0])
	assert.Len(t, d.Record.Caller.Roles, 2)
	for i := range r.Entry { // the receipt is the caller's
		r.Entry[i] = 'x'
	}
	assert.True(t, bytes.Equal(w.Entry(r.Index), entry), "the store shares the entry with the receipt")
	w.Runs.Store(0)
	d, _ = w.Call("echo", `{}`)
	assert.NoError(t, d.Err(), "after the options changed")
	w.MustVerify()
}

// A tool that calls Guard is chained to the call that runs it, and does not deadlock, in its own
// session or another.
func TestCallsInsideCalls(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	inner := make(chan helm.Receipt, 2)
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "echo" && c.Session == "s" {
			_, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`)})
			inner <- r
			_, r = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "other"})
			inner <- r
		}
		return executor.Result{Output: []byte(`{"ok":true}`)}, nil
	}
	kerneltest.Within(t, 10*time.Second, "calls inside a call", func() {
		d, _ := w.Kernel.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`),
			Session: "s",
			Caller:  helm.Caller{ID: "ada"}, Idempotency: "k"}) // which is for this call alone
		assert.NoError(t, d.Err())
		assert.Equal(t, "k", d.Record.Idempotency)
	})
	sessions := map[string]bool{}
	for range 2 {
		r := <-inner
		for _, st := range w.Statements() {
			if st.Decision != nil && r.Record.DecisionHash == w.Entry(indexOf(w, st)).Hash() {
				sessions[st.Session] = true
				assert.Equal(t, "ada", st.Decision.Caller.ID, "the inner call")
				assert.Empty(t, st.Decision.Idempotency)
				assert.True(t, len(st.Parents) > 0 || st.Seq == 1, "an entry without parents within its session")
			}
		}
	}
	assert.True(t, sessions["s"])
	assert.True(t, sessions["other"])
	w.MustVerify()
}

func indexOf(w *kerneltest.World, want *contracts.Statement) (index uint64) {
	for i, st := range w.Statements() {
		if st.Session == want.Session && st.Seq == want.Seq {
			index = i
		}
	}
	return index
}

// The error of an inner denial never says that the outer call did not run.
func TestInnerDenialStaysInside(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "nobody", Args: json.RawMessage(`{}`)})
		return executor.Result{}, d.Err()
	}
	d, r := w.Call("echo", `{}`)
	err := d.Err()
	assert.Equal(t, contracts.ReasonToolError, d.Reason)
	assert.Equal(t, contracts.Failed, r.Record.Outcome)
	require.Error(t, err)
	assert.NotErrorIs(t, err, helm.ErrDenied)
	assert.NotErrorIs(t, err, helm.ErrWithheld)
	assert.False(t, errors.As(err, new(*helm.Error)), "the error of the inner call")
}

// The same calls with another order of keys, time zone and process have the same decisions.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	var hashes [2][]contracts.Digest
	for i, args := range []string{`{"text":"x","n":2}`, ` {"n":2.0, "te\u0078t":"x"}`} {
		w := kerneltest.New(t, func(o *helm.Options) {
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			if i == 1 {
				at = at.In(time.FixedZone("elsewhere", -7*3600))
			}
			o.Now = func() time.Time { return at }
		})
		for _, x := range []string{args, `{"text":"secret"}`} {
			d, _ := w.Call("echo", x,
				func(in *helm.Intent) { in.Caller.Roles = [][]string{{"a", "b"}, {"b", "a", "a"}}[i] })
			hashes[i] = append(hashes[i], d.Record.PolicyDecisionHash, d.Record.PolicyHash, d.Record.InputsHash,
				d.Record.ArgsHash)
		}
	}
	for i := range hashes[0] {
		assert.Equal(t, hashes[1][i], hashes[0][i], "hash %d differs", i)
		assert.NotEqual(t, contracts.Digest{}, hashes[0][i], "hash %d differs", i)
	}
}

// A driver may be a nil pointer: its type may have methods that need no value. If they do need one,
// that is a panic like any other, before the call or in it, and recorded.
func TestNilPointerAsDriver(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	panicked := kerneltest.Withheld(contracts.ReasonToolPanic, contracts.Failed)
	for name, x := range map[string]struct {
		driver executor.Driver
		want   kerneltest.Want
	}{
		"methods that need no value":   {(*stateless)(nil), kerneltest.Executed(`{"ok":true}`)},
		"methods that need one":        {(*stateful)(nil), panicked},
		"a function behind a pointer":  {(*helm.Func)(nil), panicked},
		"a declaration that needs one": {(*declaring)(nil), kerneltest.Denied(contracts.ReasonFailClosedError)},
	} {
		x.want.Runs = 0 // they do not count
		files, err := filestore.Open(filepath.Join(t.TempDir(), "log"), filestore.Options{})
		require.NoError(t, err, name)
		defer files.Close()
		for _, store := range []proofgraph.Store{proofgraph.NewMemory(), files} {
			w := kerneltest.New(t, func(o *helm.Options) {
				kerneltest.Faulty(o.Store).Store = store
				o.Drivers["echo"] = x.driver
			})
			w.MustCall(x.want, "echo", `{}`)
			w.MustCall(x.want, "unbound", `{}`, kerneltest.WithDriver(x.driver))
			w.MustVerify()
			w.Close()
		}
	}
}

type stateless struct{}

func (*stateless) Run(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{Output: []byte(`{"ok":true}`)}, nil
}

type stateful struct{ output []byte }

func (s *stateful) Run(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{Output: s.output}, nil
}

type declaring struct {
	stateless
	cell *cell.Cell
}

func (d *declaring) Cell() *cell.Cell { return d.cell }
