package waiting

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/drivers"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A defined driver declares a definition, after it was asked to wait.
type defined struct {
	executor.Driver
	wait func()
}

func (d defined) Definition() contracts.Digest { d.wait(); return contracts.Digest{7} }

// A boxed driver declares a sandbox, after it was asked to wait.
type boxed struct {
	executor.Driver
	wait func()
	cell *cell.Cell
}

func (d *boxed) Cell() *cell.Cell { d.wait(); return d.cell }

func box(d executor.Driver, wait func()) *boxed {
	b := &boxed{Driver: d, wait: wait}
	b.cell = cell.New(b, kerneltest.Boxed("wasi"), nil, d.Run)
	return b
}

// A driver that does not declare itself holds up no call for more than 10 seconds, nor any longer
// than the caller waits: the call is denied with a receipt, and nothing runs. No more than 64
// goroutines of one tool wait for such a driver; further calls are denied at once, until one ends.
func TestDriverThatDoesNotDeclareItself(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	for name, bind := range map[string]func(executor.Driver, func()) executor.Driver{
		"definition": func(d executor.Driver, wait func()) executor.Driver { return defined{d, wait} },
		"sandbox":    func(d executor.Driver, wait func()) executor.Driver { return box(d, wait) },
	} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, onStore func(*helm.Options)) {
				release := make(chan struct{})
				var hang atomic.Bool
				hang.Store(true)
				w := kerneltest.New(t, onStore, func(o *helm.Options) {
					o.Drivers["echo"] = bind(o.Drivers["echo"], func() {
						if hang.Load() {
							<-release
						}
					})
				})
				begun := time.Now()
				denied := func(why string, after time.Duration, d helm.Decision, r helm.Receipt) {
					t.Helper()
					w.MustBe(d, r, kerneltest.Denied(contracts.ReasonFailClosedError))
					assert.EqualValues(t, 0, d.Record.Condition)
					assert.Equal(t, why, d.Why)
					assert.Equal(t, after, time.Since(begun))
					begun = time.Now()
				}
				const silent = "the driver has not declared itself for 10 s"
				d, r := w.Call("echo", `{}`)
				denied(silent, drivers.Patience, d, r)
				assert.ErrorContains(t, d.Err(), silent)

				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				d, r = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
				denied("the context ended", time.Second, d, r)
				assert.ErrorIs(t, d.Err(), context.DeadlineExceeded)
				d, r = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
				denied("the context ended, or panicked", 0, d, r) // and nobody was asked

				kerneltest.AtOnce(drivers.MaxAbandoned-2, func(i int) {
					w.Call("echo", `{}`, kerneltest.InSession(fmt.Sprint("s", i)))
				})
				begun = time.Now()
				for range 3 {
					d, r = w.Call("echo", `{}`)
					denied("64 abandoned goroutines of the tool still run", 0, d, r)
				}
				w.Tool = kerneltest.Returns(`{"ok":true}`, nil)
				w.MustCall(kerneltest.Executed(`{"ok":true}`), "pinned", `{}`)
				release <- struct{}{}
				synctest.Wait()
				hang.Store(false)
				w.MustCall(kerneltest.Executed(`{"ok":true}`), "echo", `{}`)
				w.MustVerify()
				assert.EqualError(t, w.Kernel.Close(),
					"helm: close: goroutines that were abandoned still run: echo: 63")
				close(release)
				synctest.Wait()
			})
		})
	}
}

// Tools that the policy does not declare are counted as one: a model can think of any number.
func TestUndeclaredToolsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, release := kerneltest.New(t), make(chan struct{})
		d := kerneltest.WithDriver(defined{helm.Func(nil), func() { <-release }})
		kerneltest.AtOnce(drivers.MaxAbandoned, func(i int) {
			w.Call(fmt.Sprint("invented.", i), `{}`, d, kerneltest.InSession(fmt.Sprint("s", i)))
		})
		begun := time.Now()
		for i := range 3 {
			w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), fmt.Sprint("another.", i), `{}`, d)
		}
		assert.Zero(t, time.Since(begun))
		w.MustCall(kerneltest.Denied(contracts.ReasonToolNotFound), "invented.1", `{}`)
		assert.ErrorContains(t, w.Kernel.Close(), "undeclared tools: 64")
		close(release)
	})
}

// A kernel that takes no calls asks no driver: a gateway that was shut down must not wait for tools
// that are gone.
func TestSealedKernelAsksNoDriver(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	var asked atomic.Int64
	wait := func() { asked.Add(1) }
	for name, bind := range map[string]func(executor.Driver) executor.Driver{
		"definition": func(d executor.Driver) executor.Driver { return defined{d, wait} },
		"sandbox":    func(d executor.Driver) executor.Driver { return box(d, wait) },
	} {
		onEachStore(t, func(t *testing.T, onStore func(*helm.Options)) {
			w := kerneltest.New(t, onStore, func(o *helm.Options) { o.Drivers["echo"] = bind(o.Drivers["echo"]) })
			own := bind(w)
			call := func(ctx context.Context, k *helm.Kernel) {
				t.Helper()
				before := asked.Load()
				d, r := k.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
				w.MustBe(d, r, kerneltest.Sealed())
				d, r = k.Guard(ctx, helm.Intent{Tool: "unbound", Args: []byte(`{}`), Session: "s", Driver: own})
				w.MustBe(d, r, kerneltest.Sealed())
				assert.Equal(t, before, asked.Load(), name)
			}
			asked.Store(0)
			w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`)
			require.EqualValues(t, 1, asked.Load(), "%s: or it would prove nothing", name)
			var none *helm.Kernel
			call(none.Context(t.Context()), w.Kernel)
			narrowed, err := w.Kernel.Narrow(kerneltest.Overlay(t, "task", 1, 5))
			require.NoError(t, err)
			require.NoError(t, narrowed.Close())
			call(t.Context(), narrowed)
			call(narrowed.Context(t.Context()), w.Kernel)
			require.NoError(t, w.Kernel.Err(), "the kernel itself goes on")
			w.Store.FailIn(1)
			w.Call("echo", `{}`, kerneltest.InSession("2"))
			call(t.Context(), w.Kernel)
			w.Store.Heal()
			w.Open()
			w.Close()
			call(t.Context(), w.Kernel)
		})
	}
}

// A declaration that ends its goroutine does not end the caller's.
func TestDeclarationThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Drivers["echo"] = box(o.Drivers["echo"], runtime.Goexit)
	})
	d, _ := w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), "echo", `{}`)
	assert.Equal(t, "the driver's declaration ended its goroutine", d.Why)
	w.Close()
}

// New and Swap wait no longer than a call for a driver whose definition is pinned.
func TestDefinitionThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, release := kerneltest.NewUnbound(t), make(chan struct{})
		pinned := kerneltest.Version(t, 2, "  echo:\n",
			"  echo:\n    definition: \""+contracts.Digest{7}.String()+"\"\n")
		w.Options.Drivers["echo"] = defined{w, func() { <-release }}
		w.Close()
		w.Open()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := w.Kernel.Swap(ctx, pinned)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "nothing was changed")
		assert.Equal(t, time.Second, time.Since(begun))
		err = w.Kernel.Swap(context.Background(), pinned)
		assert.ErrorContains(t, err, `"echo": the driver has not declared itself for 10 s`)
		assert.Equal(t, drivers.Patience+time.Second, time.Since(begun))
		assert.ErrorContains(t, w.Kernel.Close(), "echo: 2")

		w.Options.Policy, begun = pinned, time.Now()
		_, err = helm.New(w.Options)
		assert.ErrorContains(t, err, `"echo": the driver has not declared itself for 10 s`)
		assert.Equal(t, drivers.Patience, time.Since(begun))
		close(release)
		synctest.Wait()
		_, err = helm.New(w.Options)
		require.NoError(t, err)
	})
}

// A driver that declares itself at the last moment is heard or not, and is counted neither way.
func TestDeclarationAtTheLastMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := kerneltest.New(t, func(o *helm.Options) {
			o.Drivers["echo"] = defined{o.Drivers["echo"], func() { time.Sleep(drivers.Patience) }}
		})
		for range 2 * drivers.MaxAbandoned {
			d, r := w.Call("echo", `{}`)
			if d.Reason == contracts.ReasonAllow {
				w.MustBe(d, r, kerneltest.Executed(`{"n":1}`))
				continue
			}
			w.MustBe(d, r, kerneltest.Denied(contracts.ReasonFailClosedError))
			assert.Equal(t, "the driver has not declared itself for 10 s", d.Why)
		}
		synctest.Wait()
		w.Close()
	})
}
