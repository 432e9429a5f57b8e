package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// 64 callers, directly, of a task and nested, while four govern: they freeze and lift it, add keys and end them, all for the version that they
// think is next. Of each version one comes through. The log shows of each call that it was judged under the state of its place, and no ALLOW
// behind a freeze.
func TestGovernHammer(t *testing.T) {
	for _, room := range []int{0, 2} {
		t.Run(fmt.Sprint("room ", room), func(t *testing.T) {
			w := newRealm(t)
			if room > 0 {
				w.k.SetRoom(room)
			}
			w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
				if c.Tool == "slow" {
					_, _ = w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
				}
				return executor.Result{Output: c.Args}, nil
			}
			task := w.narrow(w.k, few(t, "task", 1, 5))
			bg := context.Background()
			var done, governing sync.WaitGroup
			var entered, refused, allowed, frozen atomic.Int64
			w.mustAllow(w.k, 1)
			allowed.Add(1)
			for g := range 4 {
				governing.Go(func() {
					state := w.k.Trust()
					for n := range 6 {
						e := contracts.TrustEvent{Type: "freeze"}
						by := []byte{seedF}
						if g%2 == 1 { // those who add keys are there to be in the way
							e = w.event(contracts.TrustEvent{Type: "key", Name: "new", Role: "publisher", Version: state.Version() + 1}, byte(60+20*g+n))
							by = []byte{seedR1, seedR2}
						} else if state.Frozen() {
							e.Type, by = "unfreeze", []byte{seedR1, seedR3}
						}
						e.Version = state.Version() + 1
						err := w.k.Govern(bg, signed(t, w.event(e), by...))
						switch {
						case err == nil:
							entered.Add(1)
						case strings.Contains(err.Error(), "version: ") || strings.Contains(err.Error(), "nothing changes"):
							refused.Add(1)
						default:
							t.Error(err)
						}
						for range 4 { // so that there is something to be judged under each state
							if d, _ := w.k.Guard(bg, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: fmt.Sprint("g", g)}); d.Reason == contracts.ReasonSystemFrozen {
								frozen.Add(1)
							}
						}
						state = w.fold(nil)
					}
				})
			}
			for i := range 64 {
				done.Go(func() {
					for j := range 8 {
						k, in := w.k, helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j%8)), Session: fmt.Sprint("s", (i+j)%9)}
						switch i % 4 {
						case 1:
							k = task
						case 2:
							in.Tool, in.Args = "slow", json.RawMessage(`{}`)
						case 3:
							in.Idempotency = fmt.Sprint(j % 5)
						}
						switch d, _ := k.Guard(bg, in); {
						case d.Allowed():
							allowed.Add(1)
						case d.Reason == contracts.ReasonSystemFrozen:
							frozen.Add(1)
						case d.Reason == contracts.ReasonOutputNotKept || d.Reason == contracts.ReasonToolTimeout: // a repeat; a slow machine
						case errors.Is(d.Err(), helm.ErrWithheld):
							t.Errorf("%s: %v", d.Reason, d.Err())
						}
					}
				})
			}
			within(t, time.Minute, "those who govern", governing.Wait)
			within(t, time.Minute, "64 callers", done.Wait)
			if s := w.present(); int64(s.Version()) != 1+entered.Load() || entered.Load() == 0 || entered.Load()+refused.Load() != 24 {
				t.Errorf("version %d, %d events entered, %d refused", s.Version(), entered.Load(), refused.Load())
			}
			if !w.present().Frozen() {
				w.govern(w.freezing(), seedR1)
			}
			if d, _ := w.of(task, 1); d.Reason == contracts.ReasonSystemFrozen {
				frozen.Add(1)
			}
			judged := w.mustRule()
			if judged < 200 || allowed.Load() == 0 || frozen.Load() == 0 {
				t.Errorf("%d judgements, %d allowed, %d frozen", judged, allowed.Load(), frozen.Load())
			}
			report := w.mustVerify()
			if room > 0 {
				w.mustAgree(report)
			}
		})
	}
}

// Of many who enter the event of one version, all at once, one comes through.
func TestGovernOnce(t *testing.T) {
	w := newRealm(t)
	var all sync.WaitGroup
	var entered atomic.Int64
	events := make([]contracts.Envelope, 16)
	for i := range events {
		events[i] = signed(t, w.adding(byte(100+i), fmt.Sprint("publisher ", i), registry.Publisher), seedR1, seedR2)
	}
	for _, e := range events {
		all.Go(func() {
			switch err := w.k.Govern(context.Background(), e); {
			case err == nil:
				entered.Add(1)
			case !strings.Contains(err.Error(), "version: 2, want 3"):
				t.Error(err)
			}
		})
	}
	within(t, time.Minute, "16 events", all.Wait)
	if entered.Load() != 1 || w.present().Version() != 2 {
		t.Errorf("%d entered", entered.Load())
	}
	w.mustVerify()
}

// A kernel whose own key is revoked under 64 callers: nothing stands behind that entry, nobody is left waiting, and the next kernel settles
// what ran.
func TestGovernEndsUnderLoad(t *testing.T) {
	for _, what := range []string{"Key", "LogKey"} {
		t.Run(what, func(t *testing.T) {
			w := newRealm(t)
			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
			e := w.revoking(1)
			if what == "LogKey" {
				id := w.present().Keys(registry.Log, 1)
				e = w.event(contracts.TrustEvent{Type: "revoke", ID: keyIDOf(id[0])})
			}
			last := signed(t, e, seedR1, seedR2)
			var all, calling sync.WaitGroup
			var ran atomic.Int64
			calling.Add(64)
			for i := range 64 {
				all.Go(func() {
					for j := 0; ; j++ {
						if j == 3 {
							calling.Done()
						}
						if i == 0 {
							if _, err := w.k.Checkpoint(context.Background()); err != nil && !errors.Is(err, proofgraph.ErrSealed) {
								t.Error(err)
							}
						}
						d, _ := w.call("echo", `{}`, func(in *helm.Intent) { in.Session = fmt.Sprint("s", i%9) })
						switch {
						case d.Allowed():
							ran.Add(1)
							continue
						case d.Reason != contracts.ReasonKernelSealed && d.Reason != contracts.ReasonReceiptNotStored && d.Reason != contracts.ReasonFailClosedError:
							t.Errorf("%s: %v", d.Reason, d.Err())
						case !strings.Contains(d.Err().Error(), "revoked the "+what):
							t.Errorf("not the cause: %v", d.Err())
						}
						if j < 3 {
							t.Errorf("the kernel ended before the event")
						}
						return
					}
				})
			}
			within(t, time.Minute, "callers", calling.Wait)
			if err := w.k.Govern(context.Background(), last); err != nil {
				t.Error(err)
			}
			size := w.size()
			within(t, time.Minute, "64 callers", all.Wait)
			if n := w.size(); n != size || ran.Load() < 64*3 {
				t.Errorf("%d entries behind the last, %d calls", n-size, ran.Load())
			}
			w.fold(func(i uint64, st *contracts.Statement, _ *registry.State) {
				if i == size-1 && st.Trust == nil {
					t.Errorf("the last entry is a %s", st.Kind())
				}
			})
			w.turn(seedK2, seedL2)
			w.open()
			w.mustRule()
			report := w.mustVerify()
			if len(report.Open) != 0 {
				t.Errorf("open: %v", report.Open)
			}
			w.mustAgree(report)
		})
	}
}

// fading is a context that ends as soon as it was looked at.
type fading struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func (f *fading) Done() <-chan struct{} { return f.done }
func (f *fading) Err() (err error) {
	select {
	case <-f.done:
		return context.Canceled
	default:
	}
	f.once.Do(func() { close(f.done) })
	return nil
}

// While the store is slow an event holds for what is judged behind it, before it is durable; nobody is told of either before. A context that
// ends before the event has its place leaves nothing; one that ends later changes nothing.
func TestGovernBeforeASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(dam)
		w := newRealm(t, func(o *helm.Options) {
			d.Store = o.Store
			o.Store = d
		})
		w.mustAllow(w.k, 1)
		size := w.size()
		fade := &fading{Context: context.Background(), done: make(chan struct{})}
		if err := w.k.Govern(fade, signed(t, w.freezing(), seedF)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was changed") || w.size() != size {
			t.Errorf("a context that ends on the way: %v", err)
		}
		w.mustAllow(w.k, 1)

		e := signed(t, w.freezing(), seedF)
		d.shut()
		ctx, cancel := context.WithCancel(context.Background())
		governed, denied := make(chan error, 1), make(chan helm.Decision, 1)
		go func() { governed <- w.k.Govern(ctx, e) }()
		synctest.Wait()
		go func() { d, _ := w.of(w.k, 1); denied <- d }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(governed)+len(denied) != 0 {
			t.Error("somebody was answered before anything was stored")
		}
		d.open()
		if err := <-governed; err != nil {
			t.Error(err)
		}
		if d := <-denied; d.Reason != contracts.ReasonSystemFrozen {
			t.Errorf("behind the event: %s", d.Reason)
		}
		w.mustRule()
		w.mustVerify()
	})
}

// A process that ends in the middle of a call, between the event that adds a key and its turn, leaves a log that the new key goes on with: it
// settles the call.
func TestRotateSettles(t *testing.T) {
	for _, files := range []bool{false, true} {
		w := newRealm(t)
		reopen := func() {}
		if files {
			w.store.Store = proofgraph.NewMemory()
			reopen = onFiles(t, w)
			w.open()
		}
		release, started, over := make(chan struct{}), make(chan struct{}), make(chan helm.Decision)
		w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
			close(started)
			<-release
			return executor.Result{Output: []byte(`{}`)}, nil
		}
		old := w.k
		go func() {
			d, _ := old.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s", Idempotency: "k"})
			over <- d
		}()
		<-started
		w.runs.Store(0)
		w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
		w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
		reopen() // as when the process is gone: nothing of it is written any more
		w.turn(seedK2, seedL2)
		w.open()
		d, r := w.call("echo", `{}`, func(in *helm.Intent) { in.Idempotency = "k" })
		w.mustBe(d, r, want{reason: contracts.ReasonOutcomeUnknown, outcome: contracts.Indeterminate, err: helm.ErrWithheld})
		close(release)
		if d := <-over; d.Reason != contracts.ReasonReceiptNotStored {
			t.Errorf("files %v: what was left behind: %s", files, d.Reason)
		}
		w.mustRule()
		report := w.mustVerify()
		if len(report.Open) != 0 || report.Allows != 1 || report.Receipts != 1 {
			t.Errorf("files %v: %+v", files, report)
		}
		w.mustAgree(report)
	}
}
