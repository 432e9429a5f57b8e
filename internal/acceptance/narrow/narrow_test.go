package narrow

import (
	"context"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A task gets its overlay: it denies what the kernel above allows, and nothing else has changed.
func TestNarrow(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	w.MustAllow(task, 5)
	w.MustDeny(task, 6, "P2:task:few")
	w.MustAllow(w.Kernel, 6)

	// Narrower still. The stack is in the order of narrowing, not of names, and the first overlay
	// that denies is the reason.
	step := w.Narrow(task, kerneltest.Overlay(t, "a-step", 3, 3))
	w.MustAllow(step, 3)
	w.MustDeny(step, 4, "P2:a-step:few")
	w.MustDeny(step, 6, "P2:task:few")
	w.MustAllow(task, 4)

	// A sibling is another branch: it has none of the first one's overlays.
	sibling := w.Narrow(w.Kernel, kerneltest.Overlay(t, "other", 1, 2, "only: [echo]"))
	w.MustDeny(sibling, 3, "P2:other:few")
	w.MustAllow(task, 3)
	d, _ := sibling.Guard(context.Background(), helm.Intent{Tool: "slow", Args: []byte(`{}`)})
	assert.Equal(t, "P2:other:only", d.Record.Rule, "a tool outside only: %s by", d.Reason)

	// An overlay changes nothing that it is not for.
	ada := w.Narrow(w.Kernel, kerneltest.Overlay(t, "ada", 1, 1, "for: {session: s, caller: ada}"))
	w.MustDeny(ada, 2, "P2:ada:few", func(in *helm.Intent) { in.Caller.ID = "ada" })
	w.MustAllow(ada, 2, func(in *helm.Intent) { in.Caller.ID = "eve" })
	w.MustAllow(ada, 2, func(in *helm.Intent) { in.Caller.ID, in.Session = "ada", "elsewhere" })

	w.MustHavePolicies("P1:test:1, P1:test:1 P2:task:1, P1:test:1 P2:task:1 P2:a-step:3, P1:test:1 P2:other:1, " +
		"P1:test:1 P2:ada:1")
	assert.Equal(t, 5, w.PolicyEntries(), "policy entries")
	report := w.MustVerify()
	assert.Zero(t, report.Replay.NotReplayable, "replay")
	assert.GreaterOrEqual(t, report.Replay.Replayed, uint64(13))
	w.MustAgree(report)
}

// Log, sessions, keys and admission are shared: a chain has the calls of all kernels, a key has one
// effect, a session is closed for all.
func TestNarrowShares(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	key := kerneltest.WithKey("k")
	_, first := w.Echo(w.Kernel, 4, key)
	d, again := w.Echo(task, 4, key)
	assert.NoError(t, d.Err(), "the key's effect under another kernel")
	assert.Equal(t, first.Index, again.Index)
	assert.Equal(t, int64(1), w.Runs.Swap(0))
	d, _ = w.Echo(task, 3, key)
	assert.Equal(t, contracts.ReasonIdempotencyConflict, d.Reason, "the key of another call")
	_, r := w.Echo(task, 1, func(in *helm.Intent) { in.After = []contracts.Ref{first.Ref()}; in.Session = "t" })
	assert.Equal(t, contracts.Executed, r.Record.Outcome, "an entry of the kernel above as parent")
	assert.Same(t, w.Kernel.Trust(), task.Trust(), "another trust state")
	require.NoError(t, task.CloseSession(context.Background(), "s"))
	d, _ = w.Echo(w.Kernel, 1)
	assert.Equal(t, contracts.ReasonSessionClosed, d.Reason, "a session that the narrowed kernel closed")
	c, err := task.Checkpoint(context.Background())
	assert.NoError(t, err)
	assert.Equal(t, w.Size(), c.Size)
	w.MustVerify()
}

// A repeat of a key runs nothing, writes nothing, and returns the first outcome, also under an
// overlay, and after a swap, that would deny the call. For every other caller, and for every other
// call, the key is a conflict.
func TestRepeatIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 2))
	key := kerneltest.WithKey("k")
	w.MustDeny(task, 4, "P2:task:few", key) // binds nothing
	_, first := w.Echo(w.Kernel, 4, key)
	repeat := func(k *helm.Kernel) {
		t.Helper()
		w.Runs.Store(0)
		before := w.Size()
		d, r := w.Echo(k, 4, key)
		assert.NoError(t, d.Err(), "a repeat")
		assert.Equal(t, `{"n":4}`, string(r.Output))
		assert.Equal(t, first.Index, r.Index)
		assert.Zero(t, w.Runs.Load())
		assert.Equal(t, before, w.Size())
		for name, change := range map[string]func(*helm.Intent){
			"caller": func(in *helm.Intent) { in.Caller.ID = "eve" },
			"role":   func(in *helm.Intent) { in.Caller.Roles = append(in.Caller.Roles, "more") },
		} {
			d, r := w.Echo(k, 4, key, change)
			assert.Equal(t, contracts.ReasonIdempotencyConflict, d.Reason, "with another %s", name)
			assert.Nil(t, r.Output, "with another %s", name)
		}
		d, r = w.Echo(k, 4, key, kerneltest.InSession("other"))
		if k == task {
			assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason, "in another session")
			assert.Nil(t, r.Output, "in another session")
		}
	}
	repeat(task)
	w.Swap(kerneltest.Version(t, 2, kerneltest.NoEcho...))
	d, _ := w.Echo(w.Kernel, 4)
	assert.Equal(t, contracts.ReasonNoPolicyDefined, d.Reason, "after the swap")
	repeat(w.Kernel)
	w.MustVerify()
}

// All kernels seal together, whichever made the call that failed.
func TestNarrowSealsTogether(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	a, b := w.Narrow(w.Kernel, kerneltest.Overlay(t, "a", 1, 5)), w.Narrow(w.Kernel, kerneltest.Overlay(t, "b", 1, 5))
	w.Store.FailIn(1)
	d, _ := w.Echo(a, 1)
	assert.Equal(t, contracts.ReasonFailClosedError, d.Reason)
	assert.ErrorIs(t, d.Err(), kerneltest.ErrDisk)
	w.MustBeClosed(a)
	w.MustBeClosed(b)
	w.MustBeSealed()
	w.Runs.Store(0)
	w.MustRecover(nil)
}

// A narrowed kernel closes itself alone and waits for its own calls. The kernel that New made
// closes all, and waits for all.
func TestNarrowClose(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	step, sibling := w.Narrow(task, kerneltest.Overlay(t, "step", 1, 4)),
		w.Narrow(w.Kernel, kerneltest.Overlay(t, "sibling", 1, 3, "only: [echo, slow]"))
	started, release := make(chan struct{}, 2), make(chan struct{})
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		started <- struct{}{}
		<-release
		return executor.Result{Output: []byte(`1`)}, nil
	}
	done := make(chan helm.Decision, 2)
	for _, k := range []*helm.Kernel{w.Kernel, sibling} { // neither of which the task waits for
		go func() { d, _ := w.Echo(k, 1); done <- d }()
		<-started
	}
	kerneltest.Within(t, 10*time.Second, "closing a task that has no calls", func() {
		assert.NoError(t, task.Close())
	})
	w.MustBeClosed(task)
	closed := make(chan error, 1)
	go func() { closed <- sibling.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	for range 2 {
		d := <-done
		assert.NoError(t, d.Err(), "a call that ran")
	}
	assert.NoError(t, <-closed)
	assert.NoError(t, sibling.Close(), "closing twice")
	w.Tool = kerneltest.ReturnsArgs
	w.Swap(kerneltest.Version(t, 2, "slow:", "quick:", " slow,", "")) // over which the sibling would not load
	w.MustAllow(step, 4)                                              // whose parent is closed
	w.MustDeny(step, 6, "P2:task:few")
	w.MustAllow(w.Kernel, 6)

	started, release = make(chan struct{}, 1), make(chan struct{})
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		started <- struct{}{}
		<-release
		return executor.Result{Output: []byte(`1`)}, nil
	}
	go func() { d, _ := w.Echo(step, 1); done <- d }()
	<-started
	go func() { closed <- w.Kernel.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for a narrowed kernel's call: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	d := <-done
	assert.NoError(t, d.Err(), "a narrowed kernel's call")
	assert.NoError(t, <-closed)
	w.MustBeClosed(step)
	assert.NoError(t, step.Close(), "closing what is closed")
	var none *helm.Kernel
	assert.Error(t, none.Close(), "no kernel was closed")
	assert.Error(t, new(helm.Kernel).Close())
	w.Runs.Store(0)
	w.Options.Policy = kerneltest.Version(t, 2)
	w.Open()
	w.MustVerify()
}
