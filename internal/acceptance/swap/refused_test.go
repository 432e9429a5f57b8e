package swap

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ending is a context that ends when it is told to.
type ending struct {
	context.Context
	done chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.done }

func (e ending) Err() error {
	select {
	case <-e.done:
		return context.Canceled
	default:
		return nil
	}
}

// A refused Swap leaves no entry, and every kernel as it was.
func TestSwapRefused(t *testing.T) {
	t.Parallel()
	var clock func()
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			if clock != nil {
				clock()
			}
			return time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
		}
	})
	w.Swap(kerneltest.Version(t, 4))
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 7, 5, "only: [echo, slow]"))
	gone := w.Narrow(w.Kernel, kerneltest.Overlay(t, "gone", 7, 5, "for: {session: gone}"))
	before := w.Size()
	bg := context.Background()
	ended, cancel := context.WithCancel(bg)
	cancel()
	withTask := func(v int, name string) *guardian.Policy {
		return kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "version: 1", "version: 5", 1),
			fmt.Sprintf("helm: policy/v1\nlayer: P2\nname: %s\nversion: %d\nonly: [echo]\n", name, v))
	}
	var none *helm.Kernel
	for name, c := range map[string]struct {
		k    *helm.Kernel
		p    *guardian.Policy
		says string
	}{
		"nil":             {w.Kernel, nil, "no documents"},
		"the zero policy": {w.Kernel, new(guardian.Policy), "no documents"},
		"a version before": {w.Kernel, kerneltest.Version(t, 3),
			"policy P1 test: version 3 goes back: the log has had version 4"},
		"that of New": {w.Kernel, kerneltest.Compile(t, kerneltest.Policy), "version 1 goes back"},
		"expired": {w.Kernel, kerneltest.Version(t, 5, "tools:",
			"expires: \"2026-11-20T17:00:00Z\"\ntools:"), "expired at"},
		"an overlay's version before": {w.Kernel, withTask(6, "task"),
			"policy P2 task: version 6 goes back: the log has had version 7"},
		"a name that an overlay has": {w.Kernel, withTask(8, "task"), "cannot follow"},
		"without a tool that one names": {w.Kernel, kerneltest.Version(t, 5, "slow:", "quick:", " slow,", ""),
			"cannot follow"},
		"with another type for its test": {w.Kernel, kerneltest.Version(t, 5, "n: {type: number, default: 1}",
			"n: {type: string}"), "cannot follow"},
		"of a narrowed kernel": {task, kerneltest.Version(t, 5), "swap that one"},
		"of no kernel":         {none, kerneltest.Version(t, 5), "no kernel"},
		"of the zero kernel":   {new(helm.Kernel), kerneltest.Version(t, 5), "no kernel"},
	} {
		err := c.k.Swap(bg, c.p)
		require.Error(t, err, name)
		require.ErrorContains(t, err, c.says, name)
		assert.True(t, strings.HasPrefix(err.Error(), "helm: "), name)
	}
	var load *guardian.LoadError
	err := w.Kernel.Swap(bg, kerneltest.Version(t, 5, "slow:", "quick:", " slow,", ""))
	require.ErrorAs(t, err, &load, "not whose fault it is")
	assert.Equal(t, "overlay.yaml", load.Document)
	err = w.Kernel.Swap(ended, kerneltest.Version(t, 5))
	assert.ErrorIs(t, err, context.Canceled, "with an ended context")
	assert.ErrorContains(t, err, "nothing was changed")
	late := ending{bg, make(chan struct{})}
	clock = func() { clock = nil; close(late.done) }
	err = w.Kernel.Swap(late, kerneltest.Version(t, 5))
	assert.ErrorIs(t, err, context.Canceled, "with a context that ended while policies were compiled")
	assert.ErrorContains(t, err, "nothing was changed")
	for n := range int64(3) {
		touches := new(atomic.Int64)
		touches.Store(n)
		assert.Error(t, w.Kernel.Swap(kerneltest.HostileContext{Context: bg, Left: touches}, kerneltest.Version(t, 5)),
			"with a context that panics at touch %d", n)
	}
	clock = func() { panic("the clock") }
	err = w.Kernel.Swap(bg, kerneltest.Version(t, 5))
	require.Error(t, err, "without a clock")
	assert.NotContains(t, err.Error(), "the clock")
	clock = nil
	n := w.Size() - before
	assert.Zero(t, n, "entries of what was refused")
	d, _ := w.Echo(w.Kernel, 1)
	assert.Equal(t, kerneltest.Version(t, 4).Hash(), d.Record.PolicyHash, "judged by a policy that was refused")
	w.MustDeny(task, 6, "P2:task:few")

	// A closed kernel delays no swap.
	for _, k := range []*helm.Kernel{task, gone} {
		require.NoError(t, k.Close())
	}
	late = ending{bg, make(chan struct{})}
	clock = func() { clock = nil; close(late.done) }
	err = w.Kernel.Swap(late, kerneltest.Version(t, 5))
	assert.ErrorIs(t, err, context.Canceled, "with a context that ended before the policy was put in force")
	w.Swap(kerneltest.Version(t, 5, "slow:", "quick:", " slow,", ""))
	var nowhere context.Context
	assert.NoError(t, w.Kernel.Swap(nowhere, kerneltest.Version(t, 6)), "without a context")
	w.MustVerify()
	w.Close()
	assert.Error(t, w.Kernel.Swap(bg, kerneltest.Version(t, 7)), "a closed kernel was swapped")
	w.Options.Policy = kerneltest.Version(t, 5)
	k, err := helm.New(w.Options)
	assert.Nil(t, k, "the next process, with the version before")
	assert.ErrorContains(t, err, "version 5 goes back")
}

// If a policy cannot be stored or signed, whichever of them, the kernel seals, and the next one
// finds a log that verifies.
func TestSwapFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *kerneltest.World){
		"the store": func(w *kerneltest.World) { w.Store.FailIn(1) },
		"the store, after it wrote": func(w *kerneltest.World) {
			w.Store.OnFail = func(error) error { return kerneltest.ErrDisk }
			w.Store.FailIn(1)
		},
		"the key, at the first":  func(w *kerneltest.World) { w.Key.FailIn(1) },
		"the key, at the second": func(w *kerneltest.World) { w.Key.FailIn(2) },
		"the key, at the last":   func(w *kerneltest.World) { w.Key.FailIn(3) },
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t)
			a, b := w.Narrow(w.Kernel, kerneltest.Overlay(t, "a", 1, 5)),
				w.Narrow(w.Kernel, kerneltest.Overlay(t, "b", 1, 5))
			fail(w)
			var wg sync.WaitGroup
			failed := atomic.Int64{}
			for i := range 4 {
				wg.Go(func() {
					if w.Kernel.Swap(context.Background(), kerneltest.Version(t, 2+i)) != nil {
						failed.Add(1)
					}
				})
			}
			kerneltest.Within(t, 10*time.Second, "swaps", wg.Wait)
			assert.Equal(t, int64(4), failed.Load(), "of 4 swaps failed")
			w.MustBeClosed(a)
			w.MustBeClosed(b)
			w.MustBeSealed()
			w.Runs.Store(0)
			w.Options.Policy = kerneltest.Version(t, 9)
			w.MustRecover(nil)
			w.PolicyEntries()
		})
	}
}
