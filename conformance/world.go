package conformance

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmcrypto "github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// origin is the name of every log.
const origin = "example.test/conformance"

// noon is the time at which every clock starts.
var noon = time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)

// keyOf is the key that follows from a name. Nobody must trust it.
func keyOf(name string) helmcrypto.PrivateKey {
	seed := helmcrypto.Sum([]byte("helm conformance key v1\n" + name))
	k, err := helmcrypto.NewKeyFromSeed(seed[:])
	if err != nil {
		panic(err) // a digest has the length of a seed
	}
	return k
}

func publicOf(name string) helmcrypto.PublicKey {
	p, err := helmcrypto.PublicOf(keyOf(name))
	if err != nil {
		panic(err) // a key in memory has a public key
	}
	return p
}

// A world is a kernel over a store, a key and a clock that fail when the case says so. It is the
// driver of every tool of its policy, unless the case binds none.
type world struct {
	*trial
	kernel  kernel
	options helm.Options
	store   *faultyStore
	key     *faultyKey
	clock   faultyClock
	tool    executor.Driver // what the tools do; nil: they return their arguments
	packKey string          // who signs packs; "": kernel

	read   []*contracts.Statement // of the log, so far
	folded int                    // of them, whose trust events are in last
	last   *registry.State

	mu    sync.Mutex // protects calls
	calls []contracts.Call
}

// newWorld makes a world of documents, over a log in memory. The changes are made to the options
// before the kernel is opened.
func (t *trial) newWorld(documents []string, change ...func(w *world)) *world {
	w := &world{
		trial: t,
		store: &faultyStore{Store: proofgraph.NewMemory()},
		key:   &faultyKey{PrivateKey: keyOf("kernel")},
	}
	w.clock.now.Store(noon.UnixNano())
	policy, err := compile(documents...)
	t.must(err, "the policy of the case")
	w.options = helm.Options{Policy: policy, Key: w.key, LogKey: keyOf("log"), Store: w.store, Origin: origin,
		Now: w.clock.Now, Rand: rand.NewChaCha8([32]byte{}), Drivers: map[string]executor.Driver{}}
	for _, tool := range policy.Tools() {
		w.options.Drivers[tool.Name] = w
	}
	for _, f := range change {
		f(w)
	}
	w.open()
	t.after(func() { w.kernel.Close() })
	return w
}

// compile compiles documents in JSON.
func compile(documents ...string) (*guardian.Policy, error) {
	list := make([]contracts.Document, len(documents))
	for i, text := range documents {
		var t helmcrypto.Tree
		err := t.Parse([]byte(text), helmcrypto.Limits{Bytes: len(text), Depth: helmcrypto.MaxDepth, Object: true})
		if err != nil {
			return nil, err
		}
		list[i] = contracts.Document{Name: "policy.json", Canonical: t.Root().Append(nil)}
	}
	return guardian.Compile(list...)
}

// open opens a kernel over the store as it is.
func (w *world) open() {
	k, err := w.subject.open(w.options)
	w.must(err, "opening a kernel")
	w.kernel = k
}

// reopen closes the kernel and opens another one over the same log, as another process would. Store
// and key fail no more.
func (w *world) reopen() {
	w.kernel.Close()
	w.store.heal()
	w.key.failIn(0)
	w.open()
}

// onFiles puts the log of a world on disk.
func onFiles(w *world) {
	dir, err := os.MkdirTemp("", "conformance")
	w.must(err, "a folder for the log")
	w.after(func() { os.RemoveAll(dir) })
	s, err := filestore.Open(dir, filestore.Options{})
	w.must(err, "a log on files")
	w.after(func() { s.Close() })
	w.store.Store = s
}

// inMemory leaves the log of a world in memory.
func inMemory(*world) {}

// Run makes a world a driver. It keeps what it was called with.
func (w *world) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.tool != nil {
		return w.tool.Run(ctx, c)
	}
	return executor.Result{Output: c.Args}, nil
}

// ran returns the calls of tools since it was called last.
func (w *world) ran() []contracts.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// An answer is what Guard returned.
type answer struct {
	helm.Decision
	receipt helm.Receipt
}

func (w *world) guard(in helm.Intent) answer { return w.guardBy(w.ctx, w.kernel, in) }

func (w *world) guardBy(ctx context.Context, k kernel, in helm.Intent) answer {
	d, r := k.Guard(ctx, in)
	return answer{d, r}
}

// wantRun makes a call that must be allowed, run once, and leave an EXECUTED receipt.
func (w *world) wantRun(in helm.Intent) answer {
	a := w.guard(in)
	w.check(a.Err() == nil && a.Verdict == contracts.Allow && a.Reason == contracts.ReasonAllow,
		"%s: %s %s (%s), want ALLOW", in.Tool, a.Verdict, a.Reason, a.Why)
	n := len(w.ran())
	w.check(n == 1, "%s: allowed, and the tool ran %d times", in.Tool, n)
	w.wantReceipt(a, contracts.Executed)
	return a
}

// wantDenied makes a call that must be denied for a reason, not run, and leave a DENIED receipt.
func (w *world) wantDenied(reason contracts.ReasonCode, in helm.Intent) answer {
	a := w.guard(in)
	w.isDenied(reason, a)
	return a
}

// isDenied holds an answer to a denial with a receipt.
func (w *world) isDenied(reason contracts.ReasonCode, a answer) {
	w.notRun(reason, a)
	w.wantReceipt(a, contracts.Denied)
	d := a.receipt.Record.Decision
	w.check(
		d != nil && d.Reason == reason && d.Verdict == contracts.Deny,
		"%s: the receipt is of another denial",
		reason,
	)
	if at := reason.Condition(); at != contracts.AnyCondition {
		w.check(d.Condition == at, "%s: the receipt has condition %d, want %d", reason, d.Condition, at)
	}
}

// notRun holds an answer to a denial before anything ran.
func (w *world) notRun(reason contracts.ReasonCode, a answer) {
	w.check(a.Verdict == contracts.Deny && !a.Allowed(), "%s: allowed", reason)
	w.check(a.Reason == reason, "denied for %s (%s), want %s", a.Reason, a.Why, reason)
	w.check(errors.Is(a.Err(), helm.ErrDenied) && !errors.Is(a.Err(), helm.ErrWithheld), "%s: not ErrDenied", reason)
	w.check(a.receipt.Output == nil, "%s: an output", reason)
	n := len(w.ran())
	w.check(n == 0, "%s: denied, and the tool ran %d times", reason, n)
}

// withheld holds an answer to a call that ran once, of which nothing is released.
func (w *world) withheld(reason contracts.ReasonCode, a answer) {
	w.check(a.Verdict == contracts.Deny && !a.Allowed(), "%s: allowed", reason)
	w.check(a.Reason == reason, "%s (%s), want %s", a.Reason, a.Why, reason)
	w.check(errors.Is(a.Err(), helm.ErrWithheld) && !errors.Is(a.Err(), helm.ErrDenied), "%s: not ErrWithheld", reason)
	w.check(a.receipt.Output == nil, "%s: the output was released", reason)
	n := len(w.ran())
	w.check(n == 1, "%s: the tool ran %d times", reason, n)
}

// wantReceipt holds an answer to a signed receipt, which is in the log.
func (w *world) wantReceipt(a answer, outcome contracts.Outcome) {
	r := a.receipt
	w.check(r.Entry != nil, "%s: no receipt", a.Reason)
	signed, err := receipts.Open(r.Entry, w.state(), r.Index)
	w.must(err, "the receipt")
	w.check(signed.Outcome == outcome, "%s: the receipt says %s, want %s", a.Reason, signed.Outcome, outcome)
	w.check(string(w.entry(r.Index)) == string(r.Entry), "%s: the receipt is not in the log", a.Reason)
}

// unrecorded holds an answer to one without a receipt.
func (w *world) unrecorded(a answer) {
	w.check(
		a.receipt.Entry == nil && a.receipt.Record.Outcome == "",
		"%s: a receipt, and nothing was recorded",
		a.Reason,
	)
}

// statements are those of the log, in order.
func (w *world) statements() []*contracts.Statement {
	size, err := w.store.Store.Size(w.ctx)
	w.must(err, "the size of the log")
	for e, err := range w.store.Store.Entries(w.ctx, uint64(len(w.read)), size) {
		w.must(err, "reading the log")
		var reader contracts.Reader
		sealed, err := reader.Open(e)
		w.must(err, "an entry of the log")
		st, err := sealed.Statement()
		w.must(err, "an entry of the log")
		w.read = append(w.read, st)
	}
	return w.read
}

// entries are those of the log, in order.
func (w *world) entries() (list []contracts.Entry) {
	size, err := w.store.Store.Size(w.ctx)
	w.must(err, "the size of the log")
	for e, err := range w.store.Store.Entries(w.ctx, 0, size) {
		w.must(err, "reading the log")
		list = append(list, e)
	}
	return list
}

func (w *world) entry(index uint64) contracts.Entry {
	for e, err := range w.store.Store.Entries(w.ctx, index, index+1) {
		w.must(err, "reading the log")
		return e
	}
	return nil
}

// initial is the trust state with which the log starts.
func (w *world) initial() *registry.State {
	s, err := w.options.Trust.Initial(publicOf("kernel"), publicOf("log"))
	w.must(err, "the initial trust state")
	return s
}

// state is the trust state at the end of the log.
func (w *world) state() *registry.State {
	if w.last == nil {
		w.last = w.initial()
	}
	for i, st := range w.statements()[w.folded:] {
		if st.Trust != nil {
			var err error
			w.last, err = w.last.Apply(st.Trust, origin, uint64(w.folded+i))
			w.must(err, "a trust event of the log")
		}
	}
	w.folded = len(w.read)
	return w.last
}

// verified writes a pack of the log and has it verified: LOGGED, and every verdict replays.
func (w *world) verified() evidence.Report {
	report, err := w.verify(w.pack(), evidence.Options{Trust: w.initial(), Origin: origin})
	w.must(err, "verifying the log")
	w.check(report.Success(evidence.Logged), "the log is %s, signer %s, want LOGGED", report.Level, report.Signer)
	w.check(report.Replay.Differing == 0, "%d verdicts do not replay", report.Replay.Differing)
	return report
}

// pack writes a pack of the whole log, up to a new checkpoint.
func (w *world) pack() []byte {
	_, err := w.kernel.Checkpoint(w.ctx)
	w.must(err, "a checkpoint")
	var b bytes.Buffer
	signer := w.packKey
	if signer == "" {
		signer = "kernel"
	}
	w.must(w.write(&b, w.store.Store, keyOf(signer)), "writing a pack")
	return b.Bytes()
}

// A faultyStore is a store of which one Append can be made to fail.
type faultyStore struct {
	proofgraph.Store

	mu        sync.Mutex // protects n, failAt and panics
	n, failAt int
	panics    bool
}

// failIn makes the nth Append from now on fail.
func (s *faultyStore) failIn(n int, panics bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failAt, s.panics = s.n+n, panics
}

func (s *faultyStore) heal() { s.failIn(0, false) }

var errDisk = errors.New("no space left on device")

// Append implements [proofgraph.Store].
func (s *faultyStore) Append(ctx context.Context, b proofgraph.Batch) error {
	s.mu.Lock()
	s.n++
	fails, panics := s.n == s.failAt, s.panics
	s.mu.Unlock()
	switch {
	case fails && panics:
		panic("disk")
	case fails:
		return errDisk
	}
	return s.Store.Append(ctx, b)
}

// A faultyKey is a key of which one signature can be made to fail.
type faultyKey struct {
	helmcrypto.PrivateKey
	n, failAt atomic.Int64
	panics    bool
}

// failIn makes the nth signature from now on fail.
func (k *faultyKey) failIn(n int64) { k.failAt.Store(k.n.Load() + n) }

var errKey = errors.New("the key is away")

// Sign implements [crypto.Signer].
func (k *faultyKey) Sign(r io.Reader, msg []byte, o crypto.SignerOpts) ([]byte, error) {
	if k.n.Add(1) != k.failAt.Load() {
		return k.PrivateKey.Sign(r, msg, o)
	}
	if k.panics {
		panic("the key")
	}
	return nil, errKey
}

// A faultyClock is a clock that stands still unless the case moves it.
type faultyClock struct {
	now  atomic.Int64                     // nanoseconds since 1970
	does atomic.Pointer[func() time.Time] // what is asked in its place; nil: now
}

// Now returns the time.
func (c *faultyClock) Now() time.Time {
	if f := c.does.Load(); f != nil {
		return (*f)()
	}
	return time.Unix(0, c.now.Load()).UTC()
}

// pass lets time go by.
func (c *faultyClock) pass(d time.Duration) { c.now.Add(int64(d)) }

// raw is the text of arguments.
func raw(text string) json.RawMessage { return json.RawMessage(text) }
