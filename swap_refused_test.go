package helm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/guardian"
)

// ending is a context that ends when told to, though nobody waits for it.
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

// What Swap refuses leaves no entry, and every kernel as it was.
func TestSwapRefused(t *testing.T) {
	var clock func()
	w := newWorld(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			if clock != nil {
				clock()
			}
			return time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
		}
	})
	w.swap(version(t, 4))
	task := w.narrow(w.k, few(t, "task", 7, 5, "only: [echo, slow]"))
	gone := w.narrow(w.k, few(t, "gone", 7, 5, "for: {session: gone}"))
	before := w.size()
	bg := context.Background()
	ended, cancel := context.WithCancel(bg)
	cancel()
	withTask := func(v int, name string) *guardian.Policy {
		return compileAll(t, strings.Replace(policyText, "version: 1", "version: 5", 1), fmt.Sprintf("helm: policy/v1\nlayer: P2\nname: %s\nversion: %d\nonly: [echo]\n", name, v))
	}
	var none *helm.Kernel
	for name, c := range map[string]struct {
		k    *helm.Kernel
		p    *guardian.Policy
		says string
	}{
		"nil":                            {w.k, nil, "no documents"},
		"the zero policy":                {w.k, new(guardian.Policy), "no documents"},
		"a version before":               {w.k, version(t, 3), "policy P1 test: version 3 goes back: the log has had version 4"},
		"that of New":                    {w.k, compile(t, policyText), "version 1 goes back"},
		"expired":                        {w.k, version(t, 5, "tools:", "expires: \"2026-11-20T17:00:00Z\"\ntools:"), "expired at"},
		"an overlay's version before":    {w.k, withTask(6, "task"), "policy P2 task: version 6 goes back: the log has had version 7"},
		"a name that an overlay has":     {w.k, withTask(8, "task"), "cannot follow"},
		"without a tool that one names":  {w.k, version(t, 5, "slow:", "quick:", " slow,", ""), "cannot follow"},
		"with another type for its test": {w.k, version(t, 5, "n: {type: number, default: 1}", "n: {type: string}"), "cannot follow"},
		"of a narrowed kernel":           {task, version(t, 5), "swap that one"},
		"of no kernel":                   {none, version(t, 5), "no kernel"},
		"of the zero kernel":             {new(helm.Kernel), version(t, 5), "no kernel"},
	} {
		if err := c.k.Swap(bg, c.p); err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "helm: ") {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	var load *guardian.LoadError
	if err := w.k.Swap(bg, version(t, 5, "slow:", "quick:", " slow,", "")); !errors.As(err, &load) || load.Document != "overlay.yaml" {
		t.Errorf("not whose fault it is: %v", err)
	}
	if err := w.k.Swap(ended, version(t, 5)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("with an ended context: %v", err)
	}
	late := ending{bg, make(chan struct{})}
	clock = func() { clock = nil; close(late.done) }
	if err := w.k.Swap(late, version(t, 5)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("with a context that ended while policies were compiled: %v", err)
	}
	for n := range int64(3) {
		touches := new(atomic.Int64)
		touches.Store(n)
		if err := w.k.Swap(hostile{bg, touches}, version(t, 5)); err == nil {
			t.Errorf("with a context that panics at touch %d", n)
		}
	}
	clock = func() { panic("the clock") }
	if err := w.k.Swap(bg, version(t, 5)); err == nil || strings.Contains(err.Error(), "the clock") {
		t.Errorf("without a clock: %v", err)
	}
	clock = nil
	if n := w.size() - before; n != 0 {
		t.Errorf("%d entries of what was refused", n)
	}
	d, _ := w.of(w.k, 1)
	if d.Record.PolicyHash != version(t, 4).Hash() {
		t.Error("judged by a policy that was refused")
	}
	w.mustDeny(task, 6, "P2:task:few")

	// A kernel that is closed holds nobody up.
	for _, k := range []*helm.Kernel{task, gone} {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.swap(version(t, 5, "slow:", "quick:", " slow,", ""))
	var nowhere context.Context
	if err := w.k.Swap(nowhere, version(t, 6)); err != nil {
		t.Errorf("without a context: %v", err)
	}
	w.mustVerify()
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.k.Swap(bg, version(t, 7)); err == nil {
		t.Error("a closed kernel was swapped")
	}
	w.o.Policy = version(t, 5)
	if k, err := helm.New(w.o); k != nil || err == nil || !strings.Contains(err.Error(), "version 5 goes back") {
		t.Errorf("the next process, with the version before: %v", err)
	}
}

// When the policies cannot be stored or signed, at whichever of them, the kernel seals; the next one finds a log that holds.
func TestSwapFails(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"the store":                 func(w *world) { w.store.in(1) },
		"the store, after it wrote": func(w *world) { w.store.how = func(error) error { return errDisk }; w.store.in(1) },
		"the key, at the first":     func(w *world) { w.key.in(1) },
		"the key, at the second":    func(w *world) { w.key.in(2) },
		"the key, at the last":      func(w *world) { w.key.in(3) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.narrow(w.k, few(t, "a", 1, 5)), w.narrow(w.k, few(t, "b", 1, 5))
			fail(w)
			var wg sync.WaitGroup
			failed := atomic.Int64{}
			for i := range 4 {
				wg.Go(func() {
					if w.k.Swap(context.Background(), version(t, 2+i)) != nil {
						failed.Add(1)
					}
				})
			}
			within(t, 10*time.Second, "swaps", wg.Wait)
			if failed.Load() != 4 {
				t.Errorf("%d of 4 swaps failed", failed.Load())
			}
			w.mustBeClosed(a)
			w.mustBeClosed(b)
			w.mustBeSealed()
			w.runs.Store(0)
			w.o.Policy = version(t, 9)
			w.aftermath(nil)
			w.policies()
		})
	}
}
