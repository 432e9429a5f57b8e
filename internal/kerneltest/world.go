package kerneltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Origin is the name of every world's log.
const Origin = "example.test/helm"

// A World is a kernel over a store and a signer that can be made to fail, with tools that count
// their runs. It is the driver of every tool that is bound.
type World struct {
	T        *testing.T
	Kernel   *helm.Kernel
	Options  helm.Options // of the kernel, and of the next one that Open makes
	Store    *FaultyStore
	Key      *FaultySigner
	Runs     atomic.Int64 // of the tool, since MustBe looked at them
	Tool     Tool         // what every bound tool does
	Events   []helm.Event // what was observed
	Governed bool         // the log has trust events

	mu sync.Mutex // protects Events while calls run
}

// A Tool is what a driver does.
type Tool = func(context.Context, contracts.Call) (executor.Result, error)

// Returns is a tool that returns output and err.
func Returns(output string, err error) Tool {
	return func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(output)}, err
	}
}

// NoOutput is a tool that returns no output, and err.
func NoOutput(err error) Tool {
	return func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, err }
}

// ReturnsArgs is a tool that returns its arguments: what the tools of a new world do.
func ReturnsArgs(_ context.Context, c contracts.Call) (executor.Result, error) {
	return executor.Result{Output: c.Args}, nil
}

// ErrTool is the error of a tool that fails.
var ErrTool = errors.New("the tool's own error")

// New makes a world whose policy is [Policy], over a log in memory. The changes are made to the
// options before the kernel is made.
func New(t *testing.T, change ...func(*helm.Options)) *World {
	t.Helper()
	w := &World{T: t, Tool: ReturnsArgs, Store: &FaultyStore{Store: proofgraph.NewMemory()},
		Key: &FaultySigner{PrivateKey: SeedKey(t, 1)}}
	w.Options = helm.Options{Policy: Compile(t, Policy), Key: w.Key, LogKey: crypto.DeriveLogKey(w.Key.PrivateKey),
		Store: w.Store, Origin: Origin, Drivers: map[string]executor.Driver{},
		Observe: func(_ context.Context, e helm.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Events = append(w.Events, e)
		}}
	if joined {
		w.Store, w.Options.Store = OnJoined(t)
	}
	for _, tool := range []string{"echo", "pinned", "slow", "scoped", "closed"} {
		w.Options.Drivers[tool] = w
	}
	for _, f := range change {
		f(&w.Options)
	}
	w.Open()
	return w
}

// NewUnbound makes a world that has no driver for echo and pinned, so that functions can be wrapped
// as these tools.
func NewUnbound(t *testing.T) *World {
	t.Helper()
	return New(t, func(o *helm.Options) { delete(o.Drivers, "echo"); delete(o.Drivers, "pinned") })
}

// Open makes a kernel over the store as it is, with the drivers of those tools that its policy
// declares. The one before is left alone.
func (w *World) Open() {
	w.T.Helper()
	o := w.Options
	o.Drivers = maps.Clone(o.Drivers)
	maps.DeleteFunc(o.Drivers, func(tool string, _ executor.Driver) bool {
		_, declared := o.Policy.Limits(tool)
		return !declared
	})
	killed(o.Store)
	k, err := helm.New(o)
	require.NoError(w.T, err)
	w.Kernel = k
	w.T.Cleanup(func() { k.Close() })
}

// Close closes the kernel.
func (w *World) Close() {
	w.T.Helper()
	require.NoError(w.T, w.Kernel.Close())
}

// Reopen closes the kernel and makes another one over the same store, as another process would. A
// state that was not made or not taken meanwhile fails the test: nothing else would tell.
func (w *World) Reopen() {
	w.T.Helper()
	w.mu.Lock()
	before := len(w.Events)
	w.mu.Unlock()
	w.Close()
	w.Open()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.Events[before:] {
		assert.NotEqual(w.T, "state", e.Why, "%v", e.Err)
	}
}

// Run makes a World a driver.
func (w *World) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	w.Runs.Add(1)
	return w.Tool(ctx, c)
}

// Call calls a tool in the session s.
func (w *World) Call(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return w.Kernel.Guard(context.Background(), in)
}

// WithArgs changes the arguments of a call.
func WithArgs(text string) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Args = []byte(text) }
}

// WithKey makes a call idempotent by a key.
func WithKey(key string) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Idempotency = key }
}

// WithDriver binds a driver for one call.
func WithDriver(d executor.Driver) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Driver = d }
}

// InSession makes a call one of another session.
func InSession(name string) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Session = name }
}

// Entry reads one entry of the log.
func (w *World) Entry(index uint64) contracts.Entry {
	w.T.Helper()
	for e, err := range w.Store.Store.Entries(context.Background(), index, index+1) {
		require.NoError(w.T, err)
		return e
	}
	w.T.Fatalf("no entry %d", index)
	return nil
}

// Size returns how many entries the log has.
func (w *World) Size() uint64 {
	w.T.Helper()
	n, err := w.Store.Store.Size(context.Background())
	require.NoError(w.T, err)
	return n
}

// Statements reads the whole log.
func (w *World) Statements() iter.Seq2[uint64, *contracts.Statement] {
	return func(yield func(uint64, *contracts.Statement) bool) {
		var r contracts.Reader
		index := uint64(0)
		for e, err := range w.Store.Store.Entries(context.Background(), 0, w.Size()) {
			require.NoError(w.T, err)
			sealed, err := r.Open(e)
			require.NoError(w.T, err)
			st, err := sealed.Statement()
			require.NoError(w.T, err)
			if !yield(index, st) {
				return
			}
			index++
		}
	}
}

// Pack writes an evidence pack of the whole log.
func (w *World) Pack() []byte {
	w.T.Helper()
	var pack bytes.Buffer
	require.NoError(w.T, evidence.Write(context.Background(), &pack, w.Store.Store, w.Key.PrivateKey))
	return pack.Bytes()
}

// MustVerify packs the log and verifies it: every chain, signature and verdict.
func (w *World) MustVerify() evidence.Report {
	w.T.Helper()
	ctx := context.Background()
	_, err := w.Kernel.Checkpoint(ctx)
	require.NoError(w.T, err)
	pack := w.Pack()
	report, err := evidence.Verify(ctx, bytes.NewReader(pack), int64(len(pack)),
		evidence.Options{Trust: w.Kernel.Trust(), Origin: Origin})
	if err != nil || report.Level != evidence.Logged || report.Replay.Differing != 0 {
		w.T.Fatalf("pack: %v %+v", err, report)
	}
	return report
}

// MustRecover shows what must hold after any failure: an effect has a durable decision, the
// receipts that were returned are in the log, the next New settles what was open, and the whole log
// verifies. Store and signer fail no more, and the kernel is a new one.
func (w *World) MustRecover(returned []helm.Receipt) {
	w.T.Helper()
	ran := w.Runs.Swap(0)
	w.Store.Heal()
	w.Key.failAt.Store(0)
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
	assert.LessOrEqual(w.T, ran, decisions, "effects without a durable decision")
	assert.Equal(w.T, decisions, receipts, "decisions and their receipts, after settling")
	for _, r := range returned {
		assert.Equal(w.T, string(r.Entry), string(w.Entry(r.Index)), "receipt %d was returned and is not there",
			r.Index)
	}
	w.MustVerify()
}
