package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCloseSession(t *testing.T) {
	t.Parallel()
	w, ctx := kerneltest.New(t), context.Background()
	w.Call("echo", `{}`)
	require.NoError(t, w.Kernel.CloseSession(ctx, "s"))
	assert.NoError(t, w.Kernel.CloseSession(ctx, "s"), "closing twice")
	assert.NoError(t, w.Kernel.CloseSession(ctx, "never-used"), "closing a session without calls")
	for _, name := range []string{"", "main", "@refused", "a b"} {
		assert.Error(t, w.Kernel.CloseSession(ctx, name), "session %q was closed", name)
	}
	w.Runs.Store(0)
	for _, session := range []string{"s", "never-used"} {
		w.MustCall(kerneltest.Denied(contracts.ReasonSessionClosed), "echo", `{}`, kerneltest.InSession(session))
	}
	w.MustCall(kerneltest.Denied(contracts.ReasonArgsCanonicalization), "echo", `[`)
	w.Open() // and it stays closed
	w.MustCall(kerneltest.Denied(contracts.ReasonSessionClosed), "echo", `{}`)
	w.MustVerify()
}

// Closing waits for the calls that run. Calls from inside them continue; calls from outside wait
// and are then denied.
func TestCloseSessionWaits(t *testing.T) {
	t.Parallel()
	w, ctx := kerneltest.New(t), context.Background()
	started, release := make(chan struct{}), make(chan struct{})
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if string(c.Args) != `{"n":1}` { // a call from inside or outside of the first
			return executor.Result{}, nil
		}
		close(started)
		<-release
		assert.Error(t, w.Kernel.CloseSession(ctx, "s"), "closed from inside one of its calls")
		d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`)})
		assert.Equal(t, contracts.ReasonContractDrift, d.Reason, "call from inside")
		return executor.Result{}, nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		d, _ := w.Call("echo", `{}`)
		assert.NoError(t, d.Err())
	})
	<-started
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, w.Kernel.CloseSession(short, "s"), context.DeadlineExceeded, "closing with a short context")
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- w.Kernel.CloseSession(ctx, "s") }()
	}
	wg.Go(func() {
		d, _ := w.Call("echo", `{"n":2}`)
		either := []contracts.ReasonCode{contracts.ReasonSessionClosed, contracts.ReasonAllow}
		assert.Contains(t, either, d.Reason, "call from outside")
	})
	close(release)
	kerneltest.Within(t, 10*time.Second, "closing", func() {
		for range 2 {
			assert.NoError(t, <-closed)
		}
		wg.Wait()
	})
	w.MustVerify()
}

func TestCloseWaitsAndSeals(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	started, release := make(chan struct{}), make(chan struct{})
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		close(started)
		<-release
		return executor.Result{}, nil
	}
	done := make(chan helm.Decision)
	go func() { d, _ := w.Call("echo", `{}`); done <- d }()
	<-started
	closed := make(chan error)
	go func() { closed <- w.Kernel.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	d := <-done
	assert.NoError(t, d.Err(), "the running call")
	assert.NoError(t, <-closed)
	w.Runs.Store(0)
	w.MustBeSealed()
	assert.NoError(t, w.Kernel.Close(), "closing twice")
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	key := kerneltest.WithKey("k")
	other := func(f func(in *helm.Intent)) func(in *helm.Intent) {
		return func(in *helm.Intent) { key(in); f(in) }
	}
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })

	w.MustCall(kerneltest.Denied(contracts.ReasonPolicyViolation), "echo", `{"text":"secret"}`,
		key) // a denial binds nothing
	_, first := w.MustCall(kerneltest.Executed(`{"n":1,"text":"x"}`), "echo", `{"text":"x"}`, key)

	repeat := func() {
		t.Helper()
		_, r := w.MustCall(kerneltest.Want{Verdict: contracts.Allow, Reason: contracts.ReasonAllow,
			Outcome: contracts.Executed, Output: `{"n":1,"text":"x"}`, Runs: 0}, "echo", `{"text":"x","n":1.0}`,
			key) // the same after defaults
		assert.Equal(t, first.Index, r.Index, "the repeat has receipt %d, the first", r.Index)
	}
	size := w.Size()
	repeat()
	assert.Equal(t, size, w.Size(), "a repeat wrote to the log")
	w.Open()
	repeat()
	for name, change := range map[string]func(in *helm.Intent){
		"caller": func(in *helm.Intent) { in.Caller.ID = "eve" },
		"tool":   func(in *helm.Intent) { in.Tool = "pinned" },
		"args":   func(in *helm.Intent) { in.Args = []byte(`{"text":"y"}`) },
	} {
		d, r := w.Call("echo", `{"text":"x"}`, other(change))
		assert.Equal(t, contracts.ReasonIdempotencyConflict, d.Reason, "other %s", name)
		w.MustBe(d, r, kerneltest.Denied(contracts.ReasonIdempotencyConflict))
	}
	w.MustCall(kerneltest.Executed(`{"n":1,"text":"x"}`), "echo", `{"text":"x"}`,
		other(kerneltest.InSession("elsewhere"))) // keys belong to the session
	w.MustVerify()
}

// A store that returns other bytes than were recorded gets no repeat an output.
func TestIdempotencyTrustsNoStore(t *testing.T) {
	t.Parallel()
	key := kerneltest.WithKey("k")
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
	w.Call("echo", `{}`, key)
	w.Runs.Store(0)
	w.Store.Store = kerneltest.LyingStore{Store: w.Store.Store}
	d, r := w.Call("echo", `{}`, key)
	assert.Equal(t, contracts.ReasonOutputNotKept, d.Reason)
	assert.Nil(t, r.Output)
	assert.ErrorIs(t, d.Err(), helm.ErrWithheld)
}

func TestIdempotencyOfFailures(t *testing.T) {
	t.Parallel()
	key := kerneltest.WithKey("k")
	w := kerneltest.New(t)
	w.Tool = kerneltest.NoOutput(kerneltest.ErrTool)
	_, r := w.MustCall(kerneltest.Failed(), "echo", `{}`, key)
	d, again := w.Call("echo", `{}`, key)
	err := d.Err()
	assert.Equal(t, contracts.ReasonToolError, d.Reason, "repeat")
	assert.Error(t, err)
	assert.NotErrorIs(t, err, helm.ErrDenied)
	assert.Equal(t, r.Index, again.Index)
	assert.Zero(t, w.Runs.Load())
	w.MustVerify()
}

// Ten callers of one key: one effect, and all have its output.
func TestIdempotencyRaced(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			d, r := w.Call("echo", `{"text":"x"}`, kerneltest.WithKey("k"))
			assert.NoError(t, d.Err())
			assert.Equal(t, `{"n":1,"text":"x"}`, string(r.Output))
		})
	}
	kerneltest.Within(t, 10*time.Second, "ten callers", wg.Wait)
	assert.Equal(t, int64(1), w.Runs.Load(), "runs of the tool")
	w.MustVerify()
}

// A call from inside the call that holds its key would wait for itself.
func TestIdempotencyFromInside(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		for args, recorded := range map[string]bool{`{}`: false, `{"n":2}`: true} {
			d, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(args), Idempotency: "k"})
			assert.Equal(t, contracts.ReasonIdempotencyConflict, d.Reason, args)
			assert.Equal(t, recorded, len(r.Entry) > 0, args)
			assert.ErrorIs(t, d.Err(), helm.ErrDenied, args)
		}
		return executor.Result{}, nil
	}
	kerneltest.Within(t, 10*time.Second, "a call from inside", func() {
		d, _ := w.Call("echo", `{}`, kerneltest.WithKey("k"))
		assert.NoError(t, d.Err())
	})
	w.MustVerify()
}

func TestConcurrentSessions(t *testing.T) {
	t.Parallel()
	const callers, calls = 64, 10
	for name, session := range map[string]func(i int) string{
		"one": func(int) string { return "one" },
		"64":  func(i int) string { return fmt.Sprint("s-", i) },
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t)
			var mu sync.Mutex
			seen := map[uint64]bool{}
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for j := range calls {
						args, denied := fmt.Sprintf(`{"text":"%d.%d"}`, i, j), j%3 == 2
						if denied {
							args = `{"text":"secret"}`
						}
						d, r := w.Call("echo", args, func(in *helm.Intent) { in.Session = session(i) })
						assert.Equal(t, errors.Is(d.Err(), helm.ErrDenied), denied, "%d.%d", i, j)
						if !denied {
							assert.Equal(t, `{"n":1,`+args[1:], string(r.Output), "%d.%d", i, j)
						}
						mu.Lock()
						assert.False(t, seen[r.Index], "two receipts at %d", r.Index)
						seen[r.Index] = true
						mu.Unlock()
					}
				})
			}
			kerneltest.Within(t, time.Minute, "all calls", wg.Wait)
			assert.Len(t, seen, callers*calls, "receipts")
			assert.EqualValues(t, callers*7, w.Runs.Load(), "runs of the tool")
			w.MustVerify()
		})
	}
}
