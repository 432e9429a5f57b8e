package helm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// story makes six calls of every sort and tells what their callers learned.
func (w *world) story() (released, denied, withheld int, stored []helm.Receipt) {
	for i, x := range []struct{ tool, args string }{
		{"echo", `{"text":"1"}`}, {"echo", `{"text":"secret"}`}, {"pinned", `{}`}, {"nobody", `{}`}, {"echo", `{"text":"2"}`}, {"echo", `[]`},
	} {
		d, r := w.call(x.tool, x.args, func(in *helm.Intent) { in.Session = fmt.Sprint("s", i%2) })
		err := d.Err()
		switch {
		case err == nil:
			released++
		case errors.Is(err, helm.ErrDenied):
			denied++
		case errors.Is(err, helm.ErrWithheld):
			withheld++
		}
		if len(r.Entry) > 0 {
			stored = append(stored, r)
		}
		if (err == nil) != (r.Output != nil) {
			w.t.Errorf("call %d: output %q with error %v", i, r.Output, err)
		}
	}
	return
}

// aftermath shows what must hold after a failure, whatever it was: an effect has a durable decision, what was acknowledged is there, the
// next New settles what was open, and the whole log verifies.
func (w *world) aftermath(stored []helm.Receipt) {
	w.t.Helper()
	ran := w.runs.Load()
	w.store.mu.Lock()
	w.store.failAt = 0
	w.store.mu.Unlock()
	w.key.failAt.Store(0)
	w.open()
	decisions, receipts := int64(0), int64(0)
	for _, st := range w.statements() {
		if st.Decision != nil {
			decisions++
		}
		if st.Receipt != nil && st.Receipt.Decision == nil {
			receipts++
		}
	}
	if ran > decisions {
		w.t.Errorf("%d effects with %d durable decisions", ran, decisions)
	}
	if decisions != receipts {
		w.t.Errorf("%d decisions and %d receipts after settling", decisions, receipts)
	}
	for _, r := range stored {
		if string(w.entry(r.Index)) != string(r.Entry) {
			w.t.Errorf("receipt %d was acknowledged and is not there", r.Index)
		}
	}
	w.runs.Store(0)
	w.mustVerify()
}

func TestStoreFailsAtEveryCall(t *testing.T) {
	sane := newWorld(t)
	base := sane.store.n // New's own
	released, _, _, _ := sane.story()
	appends := sane.store.n - base
	if appends < 9 || released != 2 {
		t.Fatalf("%d appends, %d released: the story is not the one that the cases were made for", appends, released)
	}
	for how, f := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return errDisk },
		"panics":                  func(error) error { panic("disk") },
	} {
		for n := 1; n <= appends; n++ {
			t.Run(fmt.Sprintf("%s, %d", how, n), func(t *testing.T) {
				w := newWorld(t)
				w.store.how = f
				w.store.in(n)
				released, denied, withheld, stored := w.story()
				if w.k.Trust() == nil || released+denied+withheld != 6 || withheld > 2 {
					t.Errorf("released %d, denied %d, withheld %d", released, denied, withheld)
				}
				if d, _ := w.call("echo", `{}`); d.Reason != contracts.ReasonKernelSealed {
					t.Errorf("not sealed: %s", d.Reason)
				}
				w.aftermath(stored)
			})
		}
	}
}

func TestSignerFailsAtEverySignature(t *testing.T) {
	sane := newWorld(t)
	base := sane.key.n.Load()
	sane.story()
	signatures := int(sane.key.n.Load() - base)
	if signatures < 9 {
		t.Fatalf("only %d signatures", signatures)
	}
	for _, panics := range []bool{false, true} {
		for n := 1; n <= signatures; n++ {
			t.Run(fmt.Sprintf("panics %v, %d", panics, n), func(t *testing.T) {
				w := newWorld(t)
				w.key.panics = panics
				w.key.in(int64(n))
				_, _, _, stored := w.story()
				if d, _ := w.call("echo", `{}`); d.Reason != contracts.ReasonKernelSealed {
					t.Errorf("not sealed: %s", d.Reason)
				}
				w.aftermath(stored)
			})
		}
	}
}

// New itself may fail at each of its calls; the next one goes on from what is there.
func TestNewFailsAtEveryAppend(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t)
		w.store.in(2)
		w.call("echo", `{}`) // open: the receipt was not stored
		w.store.in(n)
		k, err := helm.New(w.o)
		if err == nil {
			if n == 1 {
				t.Fatal("New appended nothing")
			}
			k.Close()
			return
		}
		if k != nil || !errors.Is(err, errDisk) {
			t.Errorf("append %d: %v, %v", n, k, err)
		}
		w.store.failAt = 0
		w.runs.Store(0)
		w.open()
		if w.mustVerify().Size == 0 {
			t.Error("an empty log")
		}
	}
}

func TestCheckpointFailureSeals(t *testing.T) {
	w := newWorld(t)
	w.call("echo", `{}`)
	w.runs.Store(0)
	w.store.in(1)
	if _, err := w.k.Checkpoint(context.Background()); !errors.Is(err, errDisk) {
		t.Errorf("checkpoint: %v", err)
	}
	w.mustBeSealed()
	w.aftermath(nil)
}
