package helm_test

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
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// policyText is the policy of the tests: what may be echoed, and what may not.
const policyText = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, properties: {text: {type: string}, n: {type: number, default: 1}}}
    limits: {output: 1KiB}
  pinned:
    effect: write
    risk: high
    input: {type: object, properties: {text: {type: string}}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  slow:
    effect: read
    input: {type: object}
    limits: {timeout: 1s}
  unbound:
    effect: read
    input: {type: object}
  scoped:
    effect: read
    input: {type: object, required: [path], properties: {path: {type: string}}}
    scope: [{arg: /path, within: [/srv]}]
  closed:
    effect: destructive
    input: {type: object}
rules:
  - {id: no-secrets, deny: echo, when: {arg: /text, finds: secret, absent: false}}
  - {id: all, allow: [echo, pinned, slow, unbound, scoped]}
`

const origin = "example.test/helm"

// A world is a kernel over a store and a signer that can be made to fail, with tools that count their runs.
type world struct {
	t      *testing.T
	k      *helm.Kernel
	o      helm.Options
	store  *faulty
	key    *signer
	runs   atomic.Int64
	tool   func(ctx context.Context, c contracts.Call) (executor.Result, error) // what every bound tool does
	events []helm.Event
	mu     sync.Mutex

	governed bool // the log has trust events
}

func compile(t testing.TB, text string) *guardian.Policy {
	t.Helper()
	doc, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := guardian.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func seedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newWorld(t *testing.T, change ...func(*helm.Options)) *world {
	t.Helper()
	w := &world{t: t, store: &faulty{Store: proofgraph.NewMemory()}, key: &signer{PrivateKey: seedKey(t, 1)}}
	w.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		return executor.Result{Output: c.Args}, nil
	}
	log := crypto.DeriveLogKey(w.key.PrivateKey)
	w.o = helm.Options{Policy: compile(t, policyText), Key: w.key, LogKey: log, Store: w.store, Origin: origin,
		Drivers: map[string]executor.Driver{"echo": w, "pinned": w, "slow": w, "scoped": w, "closed": w, "undeclared": w},
		Observe: func(_ context.Context, e helm.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		}}
	for _, f := range change {
		f(&w.o)
	}
	w.open()
	return w
}

// open makes a kernel over what the store has.
func (w *world) open() {
	w.t.Helper()
	k, err := helm.New(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.k = k
	w.t.Cleanup(func() { k.Close() })
}

// Run makes the world a driver.
func (w *world) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	w.runs.Add(1)
	return w.tool(ctx, c)
}

func (w *world) call(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return w.k.Guard(context.Background(), in)
}

// want is what a call must come to.
type want struct {
	verdict contracts.Verdict
	reason  contracts.ReasonCode
	outcome contracts.Outcome // "" is: no receipt
	err     error             // nil, ErrDenied or ErrWithheld; errOwn is the tool's own
	output  string            // "" is: none released
	runs    int64             // since the last look
}

var errOwn = errors.New("the tool's own error")

// mustBe holds one call to what it must come to, the signed receipt included.
func (w *world) mustBe(d helm.Decision, r helm.Receipt, x want) {
	w.t.Helper()
	if d.Verdict != x.verdict || d.Reason != x.reason {
		w.t.Errorf("got %v %s (%s), want %v %s", d.Verdict, d.Reason, d.Why, x.verdict, x.reason)
	}
	err := d.Err()
	for _, sentinel := range []error{helm.ErrDenied, helm.ErrWithheld} {
		if errors.Is(err, sentinel) != (x.err == sentinel) {
			w.t.Errorf("error %v: Is %v is %v", err, sentinel, errors.Is(err, sentinel))
		}
	}
	if (err == nil) != (x.err == nil) || x.err == errOwn && !errors.Is(err, errOwn) {
		w.t.Errorf("error %v, want %v", err, x.err)
	}
	if (err == nil) != (r.Output != nil) || string(r.Output) != x.output {
		w.t.Errorf("output %q with error %v, want %q", r.Output, err, x.output)
	}
	if d.Allowed() != (x.verdict == contracts.Allow) {
		w.t.Errorf("Allowed is %v", d.Allowed())
	}
	if runs := w.runs.Swap(0); runs != x.runs {
		w.t.Errorf("ran %d times, want %d", runs, x.runs)
	}
	if x.outcome == "" {
		if r.Entry != nil || r.Record.Outcome != "" || r.Index != 0 {
			w.t.Errorf("a receipt %s where nothing was recorded", r.Record.Outcome)
		}
		return
	}
	record, err := receipts.Open(r.Entry, w.present(), r.Index)
	if err != nil {
		w.t.Fatalf("receipt: %v", err)
	}
	if record.Outcome != x.outcome || r.Record.Outcome != x.outcome {
		w.t.Errorf("receipt %s, want %s", record.Outcome, x.outcome)
	}
	if stored := w.entry(r.Index); !bytes.Equal(stored, r.Entry) {
		w.t.Errorf("entry %d of the store is not the receipt", r.Index)
	}
}

func (w *world) entry(index uint64) contracts.Entry {
	w.t.Helper()
	for e, err := range w.store.Store.Entries(context.Background(), index, index+1) {
		if err != nil {
			w.t.Fatal(err)
		}
		return e
	}
	w.t.Fatalf("no entry %d", index)
	return nil
}

func (w *world) size() uint64 {
	n, err := w.store.Store.Size(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// mustBeSealed shows that nothing runs any more and nothing is written.
func (w *world) mustBeSealed() {
	w.t.Helper()
	before := w.size()
	d, r := w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonKernelSealed, err: helm.ErrDenied})
	if after := w.size(); after != before {
		w.t.Errorf("a sealed kernel wrote %d entries", after-before)
	}
}

// mustVerify packs the log and verifies it: every chain, signature and verdict.
func (w *world) mustVerify() evidence.Report {
	w.t.Helper()
	ctx := context.Background()
	if _, err := w.k.Checkpoint(ctx); err != nil {
		w.t.Fatal(err)
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, w.store.Store, w.key.PrivateKey); err != nil {
		w.t.Fatal(err)
	}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), evidence.Options{Trust: w.k.Trust(), Origin: origin})
	if err != nil || report.Level != evidence.Logged || report.Replay.Differing != 0 {
		w.t.Fatalf("pack: %v %+v", err, report)
	}
	return report
}

// faulty is a store that fails, panics or lies at a call of Append.
type faulty struct {
	proofgraph.Store
	mu     sync.Mutex
	n      int                     // Appends so far
	failAt int                     // the nth fails; 0 is never
	how    func(store error) error // of a failing Append, given what the store would have said; nil: it writes nothing
}

var errDisk = errors.New("no space left on device")

func (f *faulty) Append(ctx context.Context, b proofgraph.Batch) error {
	f.mu.Lock()
	f.n++
	fail, how := f.n == f.failAt, f.how
	f.mu.Unlock()
	switch {
	case fail && how == nil:
		return errDisk
	case fail:
		return how(f.Store.Append(ctx, b))
	}
	return f.Store.Append(ctx, b)
}

// in makes the nth Append from now on fail.
func (f *faulty) in(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt = f.n + n
}

// signer is a key whose nth signature fails.
type signer struct {
	crypto.PrivateKey
	n, failAt atomic.Int64
	panics    bool
	exits     bool // its goroutine
}

var errKMS = errors.New("the KMS is away")

func (s *signer) fail() bool { return s.n.Add(1) == s.failAt.Load() }

func (s *signer) in(n int64) { s.failAt.Store(s.n.Load() + n) }

// statements reads the whole log.
func (w *world) statements() iter.Seq2[uint64, *contracts.Statement] {
	return func(yield func(uint64, *contracts.Statement) bool) {
		var r contracts.Reader
		index := uint64(0)
		for e, err := range w.store.Store.Entries(context.Background(), 0, w.size()) {
			if err != nil {
				w.t.Fatal(err)
			}
			sealed, err := r.Open(e)
			if err != nil {
				w.t.Fatal(err)
			}
			st, err := sealed.Statement()
			if err != nil {
				w.t.Fatal(err)
			}
			if !yield(index, st) {
				return
			}
			index++
		}
	}
}

func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s: still waiting after %v", what, d)
	}
}
