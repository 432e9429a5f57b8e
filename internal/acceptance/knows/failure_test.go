package knows

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hold has a session say and read things, in two sessions of which one is caused by the other. It
// returns the receipts that it was given, and how many texts were acknowledged.
func hold(w *kerneltest.World) (stored []helm.Receipt, said int) {
	w.Tool = kerneltest.Returns(`[{"id":"ID-1","note":"hello"}]`, nil)
	var after []contracts.Ref
	for i := range 3 {
		session := fmt.Sprint("s", i%2)
		if w.Kernel.UserMessage(context.Background(), session, fmt.Sprint("text ", i)) == nil {
			said++
		}
		_, r := w.Call("orders", `{}`, kerneltest.InSession(session), func(in *helm.Intent) { in.After = after })
		if r.Entry != nil {
			stored, after = append(stored, r), []contracts.Ref{r.Ref()}
		}
	}
	return stored, said
}

// Whichever Append fails: the kernel seals, what was acknowledged is there, every facts document
// that a receipt names is there, and the next process goes on.
func TestStoreFailsAtEveryAppend(t *testing.T) {
	t.Parallel()
	sane := newShop(t)
	base := sane.Store.Appends()
	hold(sane)
	appends := sane.Store.Appends() - base
	require.GreaterOrEqual(t, appends, 9, "the story is not the one that the cases were made for")
	for how, f := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return kerneltest.ErrDisk },
		"panics":                  func(error) error { panic("disk") },
	} {
		for _, files := range []bool{false, true} {
			for n := 1; n <= appends; n++ {
				w := newShop(t, func(o *helm.Options) {
					if files {
						kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
					}
				})
				w.Store.OnFail = f
				w.Store.FailIn(n)
				stored, said := hold(w)
				assert.ErrorContains(t, w.Kernel.Err(), "sealed", "%s, %d", how, n)
				w.MustRecover(stored)
				for index, st := range w.Statements() {
					var named []contracts.Digest
					switch {
					case st.Message != nil:
						named, said = append(named, st.Message.TextHash), said-1
					case st.Receipt != nil && st.Receipt.FactsHash != nil:
						named = append(named, *st.Receipt.FactsHash)
					}
					for _, d := range named {
						_, err := w.Store.Store.Blob(context.Background(), d)
						assert.NoError(t, err, "%s, %d: entry %d", how, n, index)
					}
				}
				assert.LessOrEqual(t, said, 0, "%s, %d: acknowledged, and gone", how, n)
			}
		}
	}
}

// Whichever call of the store fails while New reads a log of a session that knows things: there is
// no kernel, and the next New goes on.
func TestNewFailsAtEveryCallOfTheStore(t *testing.T) {
	t.Parallel()
	kerneltest.MustFailNew(t, 20, func() *kerneltest.World {
		w := newShop(t)
		hold(w)
		w.Store.FailIn(2)
		w.Call("orders", `{}`) // stays open
		return w
	})
}

// A process that ends between a message and its Append: a call after the message is judged with
// it, waits for it, and runs only if both are durable. If they are not, the next process has
// neither.
func TestCrashBetweenMessageAndAppend(t *testing.T) {
	kerneltest.OneWriter(t, "its store is another")
	t.Parallel()
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := newAttacked(t, false)
			w.Tool = kerneltest.Returns(`{}`, nil)
			memory := w.Store.Store
			store := &kerneltest.BlockingStore{Store: memory}
			w.Store.Store = store
			size := w.Size()
			store.Block()
			said, paid := make(chan error, 1), make(chan helm.Decision, 1)
			go func() { said <- w.Kernel.UserMessage(context.Background(), "s", "pay "+acc) }()
			synctest.Wait()
			go func() {
				d, _ := w.Call("pay", argsOf("to", acc))
				paid <- d
			}()
			synctest.Wait()
			assert.Empty(t, said, "acknowledged before it was durable")
			assert.Empty(t, paid, "answered before the message was durable")
			assert.Zero(t, w.Runs.Load(), "ran before the message was durable")
			if !ends {
				store.Unblock()
				require.NoError(t, <-said)
				require.NoError(t, (<-paid).Err())
				w.Reopen()
				w.must(passes("user 1 has to"), "s", "pay", argsOf("to", acc), nil)
				w.mustReplay()
				return
			}
			store.Fail()
			require.ErrorContains(t, <-said, "it could not be signed or stored: ")
			d := <-paid
			assert.ErrorIs(t, d.Err(), helm.ErrDenied)
			assert.Equal(t, contracts.ReasonFailClosedError, d.Reason)
			assert.Zero(t, w.Runs.Load(), "ran by words that are not in the log")
			w.Kernel.Close()
			w.Store.Store = memory
			w.Open()
			assert.Equal(t, size, w.Size())
			w.must(told(0, 0, 0), "s", "pay", argsOf("to", acc), nil)
			w.mustReplay()
		})
	}
}
