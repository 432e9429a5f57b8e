package kerneltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// atOnce calls f from n goroutines at once.
func AtOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// Changes of a call.

func WithArgs(text string) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Args = []byte(text) }
}

// aftermath shows what must hold after a failure, whatever it was: an effect has a durable decision, what was acknowledged is there, the
// next New settles what was open, and the whole log verifies.
func (w *World) MustRecover(stored []helm.Receipt) {
	w.T.Helper()
	ran := w.Runs.Load()
	w.Store.mu.Lock()
	w.Store.FailAt = 0
	w.Store.mu.Unlock()
	w.Key.FailAt.Store(0)
	w.Open()
	decisions, receipts := int64(0), int64(0)
	for _, st := range w.Statements() {
		if st.Decision != nil {
			decisions++
		}
		if st.Receipt != nil && st.Receipt.Decision == nil {
			receipts++
		}
	}
	if ran > decisions {
		w.T.Errorf("%d effects with %d durable decisions", ran, decisions)
	}
	if decisions != receipts {
		w.T.Errorf("%d decisions and %d receipts after settling", decisions, receipts)
	}
	for _, r := range stored {
		if string(w.Entry(r.Index)) != string(r.Entry) {
			w.T.Errorf("receipt %d was acknowledged and is not there", r.Index)
		}
	}
	w.Runs.Store(0)
	w.MustVerify()
}

func Must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

const Origin = "example.test/helm"

// A world is a kernel over a store and a signer that can be made to fail, with tools that count their runs.
type World struct {
	T       *testing.T
	Kernel  *helm.Kernel
	Options helm.Options
	Store   *FaultyStore
	Key     *FaultySigner
	Runs    atomic.Int64
	Tool    func(ctx context.Context, c contracts.Call) (executor.Result, error) // what every bound tool does
	Events  []helm.Event
	mu      sync.Mutex

	Governed bool // the log has trust events
}

func SeedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func New(t *testing.T, change ...func(*helm.Options)) *World {
	t.Helper()
	w := &World{T: t, Store: &FaultyStore{Store: proofgraph.NewMemory()}, Key: &FaultySigner{PrivateKey: SeedKey(t, 1)}}
	w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		return executor.Result{Output: c.Args}, nil
	}
	log := crypto.DeriveLogKey(w.Key.PrivateKey)
	w.Options = helm.Options{Policy: Compile(t, Policy), Key: w.Key, LogKey: log, Store: w.Store, Origin: Origin,
		Drivers: map[string]executor.Driver{"echo": w, "pinned": w, "slow": w, "scoped": w, "closed": w, "undeclared": w},
		Observe: func(_ context.Context, e helm.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Events = append(w.Events, e)
		}}
	for _, f := range change {
		f(&w.Options)
	}
	w.Open()
	return w
}

// open makes a kernel over what the store has.
func (w *World) Open() {
	w.T.Helper()
	k, err := helm.New(w.Options)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Kernel = k
	w.T.Cleanup(func() { k.Close() })
}

// Run makes the world a driver.
func (w *World) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	w.Runs.Add(1)
	return w.Tool(ctx, c)
}

func (w *World) Call(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return w.Kernel.Guard(context.Background(), in)
}

// want is what a call must come to.
type Want struct {
	Verdict contracts.Verdict
	Reason  contracts.ReasonCode
	Outcome contracts.Outcome // "" is: no receipt
	Err     error             // nil, ErrDenied or ErrWithheld; errOwn is the tool's own
	Output  string            // "" is: none released
	Runs    int64             // since the last look
}

// Executed is what an allowed call comes to that ran once and returned output.
func Executed(output string) Want {
	return Want{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed, Output: output, Runs: 1}
}

// Denied is what a call comes to that is denied with a receipt, and does not run.
func Denied(reason contracts.ReasonCode) Want {
	return Want{Reason: reason, Outcome: contracts.Denied, Err: helm.ErrDenied}
}

var ErrTool = errors.New("the tool's own error")

// mustBe holds one call to what it must come to, the signed receipt included.
func (w *World) MustBe(d helm.Decision, r helm.Receipt, x Want) {
	w.T.Helper()
	if d.Verdict != x.Verdict || d.Reason != x.Reason {
		w.T.Errorf("got %v %s (%s), want %v %s", d.Verdict, d.Reason, d.Why, x.Verdict, x.Reason)
	}
	err := d.Err()
	for _, sentinel := range []error{helm.ErrDenied, helm.ErrWithheld} {
		if errors.Is(err, sentinel) != (x.Err == sentinel) {
			w.T.Errorf("error %v: Is %v is %v", err, sentinel, errors.Is(err, sentinel))
		}
	}
	if (err == nil) != (x.Err == nil) || x.Err == ErrTool && !errors.Is(err, ErrTool) {
		w.T.Errorf("error %v, want %v", err, x.Err)
	}
	if (err == nil) != (r.Output != nil) || string(r.Output) != x.Output {
		w.T.Errorf("output %q with error %v, want %q", r.Output, err, x.Output)
	}
	if d.Allowed() != (x.Verdict == contracts.Allow) {
		w.T.Errorf("Allowed is %v", d.Allowed())
	}
	if runs := w.Runs.Swap(0); runs != x.Runs {
		w.T.Errorf("ran %d times, want %d", runs, x.Runs)
	}
	if x.Outcome == "" {
		if r.Entry != nil || r.Record.Outcome != "" || r.Index != 0 {
			w.T.Errorf("a receipt %s where nothing was recorded", r.Record.Outcome)
		}
		return
	}
	record, err := receipts.Open(r.Entry, w.TrustState(), r.Index)
	if err != nil {
		w.T.Fatalf("receipt: %v", err)
	}
	if record.Outcome != x.Outcome || r.Record.Outcome != x.Outcome {
		w.T.Errorf("receipt %s, want %s", record.Outcome, x.Outcome)
	}
	if stored := w.Entry(r.Index); !bytes.Equal(stored, r.Entry) {
		w.T.Errorf("entry %d of the store is not the receipt", r.Index)
	}
}

func (w *World) Entry(index uint64) contracts.Entry {
	w.T.Helper()
	for e, err := range w.Store.Store.Entries(context.Background(), index, index+1) {
		if err != nil {
			w.T.Fatal(err)
		}
		return e
	}
	w.T.Fatalf("no entry %d", index)
	return nil
}

func (w *World) Size() uint64 {
	n, err := w.Store.Store.Size(context.Background())
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// mustBeSealed shows that nothing runs any more and nothing is written.
func (w *World) MustBeSealed() {
	w.T.Helper()
	before := w.Size()
	d, r := w.Call("echo", `{}`)
	w.MustBe(d, r, Want{Reason: contracts.ReasonKernelSealed, Err: helm.ErrDenied})
	if after := w.Size(); after != before {
		w.T.Errorf("a sealed kernel wrote %d entries", after-before)
	}
}

// mustVerify packs the log and verifies it: every chain, signature and verdict.
func (w *World) MustVerify() evidence.Report {
	w.T.Helper()
	ctx := context.Background()
	if _, err := w.Kernel.Checkpoint(ctx); err != nil {
		w.T.Fatal(err)
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, w.Store.Store, w.Key.PrivateKey); err != nil {
		w.T.Fatal(err)
	}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), evidence.Options{Trust: w.Kernel.Trust(), Origin: Origin})
	if err != nil || report.Level != evidence.Logged || report.Replay.Differing != 0 {
		w.T.Fatalf("pack: %v %+v", err, report)
	}
	return report
}

// statements reads the whole log.
func (w *World) Statements() iter.Seq2[uint64, *contracts.Statement] {
	return func(yield func(uint64, *contracts.Statement) bool) {
		var r contracts.Reader
		index := uint64(0)
		for e, err := range w.Store.Store.Entries(context.Background(), 0, w.Size()) {
			if err != nil {
				w.T.Fatal(err)
			}
			sealed, err := r.Open(e)
			if err != nil {
				w.T.Fatal(err)
			}
			st, err := sealed.Statement()
			if err != nil {
				w.T.Fatal(err)
			}
			if !yield(index, st) {
				return
			}
			index++
		}
	}
}

func Within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s: still waiting after %v", what, d)
	}
}
