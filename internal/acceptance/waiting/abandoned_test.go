package waiting

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/drivers"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onEachStore runs f in a bubble of package synctest, with a store in memory and with one on files.
func onEachStore(t *testing.T, f func(t *testing.T, onStore func(*helm.Options))) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, func(*helm.Options) {}) })
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s, err := filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			f(t, func(o *helm.Options) { kerneltest.Faulty(o.Store).Store = s })
		})
	})
}

// Drivers that ignore their limit are abandoned, but no more than 64 of one tool: then its calls
// are denied, each with a receipt, until one of them ends. Other tools are called as ever, and
// repeats get their first outcome. Close says how many still run.
func TestAbandonedDriversAreBounded(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	onEachStore(t, func(t *testing.T, onStore func(*helm.Options)) {
		w := kerneltest.New(t, onStore)
		release := make(chan struct{})
		var hang atomic.Bool
		hang.Store(true)
		w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
			if c.Tool == "slow" && hang.Load() {
				<-release
			}
			return executor.Result{Output: c.Args}, nil
		}
		crowded := func(n int) {
			t.Helper()
			for range n {
				d, r := w.Call("slow", `{}`)
				w.MustBe(d, r, kerneltest.Denied(contracts.ReasonFailClosedError))
				assert.EqualValues(t, 0, d.Record.Condition)
				assert.Equal(t, "64 abandoned goroutines of the tool still run", d.Why)
				assert.ErrorContains(t, d.Err(), "64 abandoned goroutines of the tool still run")
			}
		}
		timesOut := kerneltest.Withheld(contracts.ReasonToolTimeout, contracts.Indeterminate)
		hang.Store(false)
		w.MustCall(kerneltest.Executed(`{}`), "slow", `{}`, kerneltest.WithKey("k"))
		hang.Store(true)
		for range drivers.MaxAbandoned {
			w.MustCall(timesOut, "slow", `{}`)
		}
		crowded(3)
		w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`)
		d, _ := w.Call("slow", `{}`, kerneltest.WithKey("k"))
		assert.Equal(t, contracts.ReasonOutputNotKept, d.Reason, "a repeat")
		w.MustCall(kerneltest.Denied(contracts.ReasonSchemaViolation), "echo", `{"text":1}`)

		release <- struct{}{} // one ends
		synctest.Wait()
		assert.True(t, w.Events[len(w.Events)-1].Late)
		w.MustCall(timesOut, "slow", `{}`)
		crowded(1)
		w.MustVerify()

		assert.EqualError(t, w.Kernel.Close(), "helm: close: goroutines that were abandoned still run: slow: 64")
		assert.NoError(t, w.Kernel.Close(), "again")
		hang.Store(false)
		close(release)
		synctest.Wait()
		w.Open()
		w.MustCall(kerneltest.Executed(`{}`), "slow", `{}`)
		w.Close()
	})
}

// As many calls at once as there may be goroutines, and more: those that run already are abandoned
// too, and each gets its receipt.
func TestAbandonedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := kerneltest.New(t)
		release := make(chan struct{})
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			<-release
			return executor.Result{}, nil
		}
		kerneltest.AtOnce(drivers.MaxAbandoned+10, func(i int) {
			d, r := w.Call("slow", `{}`, kerneltest.InSession(fmt.Sprint("s", i)))
			assert.Equal(t, contracts.ReasonToolTimeout, d.Reason)
			assert.Equal(t, contracts.Indeterminate, r.Record.Outcome)
		})
		w.Runs.Store(0)
		w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), "slow", `{}`)
		assert.NoError(t, w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5)).Close(), "of a narrowed kernel")
		close(release)
		synctest.Wait()
		w.Tool = kerneltest.ReturnsArgs
		w.MustCall(kerneltest.Executed(`{}`), "slow", `{}`)
		assert.NoError(t, w.Kernel.Close())
	})
}
