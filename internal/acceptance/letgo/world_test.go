package letgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

const floor = `
helm: policy/v1
layer: P0
name: floor
version: 1
condense: {kept: high, after: 24h}
`

const bundle = `
helm: policy/v1
layer: P1
bundle: {name: office, version: 1}
labels: [web, pii]
tools:
  web:   {effect: read, input: {type: object, required: [q], properties: {q: {type: integer}}}, output: {type: object, properties: {to: {type: string}}}, labels: [web], facts: {to: /to}}
  notes: {effect: read, input: {type: object, required: [q], properties: {q: {type: integer}}}, output: {type: object, properties: {to: {type: string}}}, trusted: true, facts: {to: /to}}
  crm:   {effect: read, input: {type: object, properties: {}}, trusted: true, labels: [pii]}
  tell:  {effect: write, input: {type: object, properties: {}}, trusted: true}
  post:  {effect: write, input: {type: object, properties: {}}, trusted: true}
  pay:   {effect: write, input: {type: object, required: [to], properties: {to: {type: string}}}, trusted: true}
  book:  {effect: write, input: {type: object, required: [q], properties: {q: {type: integer}}}, trusted: true}
  wipe:  {effect: destructive, input: {type: object, properties: {}}, trusted: true}
  never: {effect: read, input: {type: object, properties: {}}, trusted: true}
rules:
  - {id: tainted, deny: tell, when: {session: tainted, eq: true}}
  - {id: pii, deny: post, when: {session: labels, has: pii}}
  - {id: stranger, deny: pay, unless: {arg: /to, from: [user, "notes#to"]}}
  - {id: all, allow: [web, notes, crm, tell, post, pay, book, wipe]}
requires:
  - {id: seen, tools: [book], all: [{receipt: notes, same: {/q: /q}, max_age: 1000h}]}
budgets:
  - {id: day, tools: [web, notes, crm], limit: 1000000, cost: 3, per: tenant, window: day}
  - {id: life, tools: [pay, book], limit: 1000000, cost: 3, per: caller, window: total, refund: error}
  - {id: chat, tools: [post, book], limit: 40, cost: 1, per: session, window: session}
`

var tools = []string{"web", "notes", "crm", "tell", "post", "pay", "book", "wipe"}

// A world is a kernel over a store in memory, with a clock of its own.
type world struct {
	testing.TB
	options helm.Options
	kernel  *helm.Kernel
	now     *atomic.Int64 // Unix time in milliseconds
	store   proofgraph.Store
}

func newWorld(t testing.TB, store proofgraph.Store, change ...func(*helm.Options)) *world {
	t.Helper()
	w := &world{TB: t, now: new(atomic.Int64), store: store}
	w.now.Store(1_790_000_000_000)
	key := kerneltest.SeedKey(t, 1)
	w.options = helm.Options{Policy: kerneltest.Compile(t, floor, bundle), Key: key, Store: store,
		Origin: kerneltest.Origin, Drivers: map[string]executor.Driver{}, Rand: new(zeros),
		Now: func() time.Time { return time.UnixMilli(w.now.Load()) }}
	for _, tool := range tools {
		w.options.Drivers[tool] = helm.Func(w.run)
	}
	for _, f := range change {
		f(&w.options)
	}
	w.open()
	return w
}

// zeros are the same nonces for every kernel.
type zeros struct{}

func (*zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (w *world) open() {
	w.Helper()
	k, err := helm.New(w.options)
	require.NoError(w, err)
	w.kernel = k
	w.Cleanup(func() { k.Close() })
}

// over is a kernel over another store, with everything else alike.
func (w *world) over(store proofgraph.Store) *world {
	w.Helper()
	o := *w
	o.now = new(atomic.Int64)
	o.now.Store(w.now.Load())
	o.options.Store, o.store = store, store
	o.options.Now = func() time.Time { return time.UnixMilli(o.now.Load()) }
	o.options.Drivers = map[string]executor.Driver{}
	for tool := range w.options.Drivers {
		o.options.Drivers[tool] = helm.Func(o.run)
	}
	o.open()
	return &o
}

var errTool = errors.New("the tool's own error")

// nested is the key of the calls that a tool makes itself.
type nested struct{}

func (w *world) run(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if calls, ok := ctx.Value(nested{}).([]helm.Intent); ok && len(calls) > 0 {
		w.kernel.Guard(context.WithValue(ctx, nested{}, calls[1:]), calls[0])
	}
	var x struct{ Q int }
	_ = json.Unmarshal(args, &x)
	if x.Q%5 == 4 {
		return nil, errTool
	}
	return fmt.Appendf(nil, `{"to":"ACC-%d"}`, x.Q), nil
}

func (w *world) later(d time.Duration) { w.now.Add(d.Milliseconds()) }

// call makes a call. It fails the test if that is not recorded.
func (w *world) call(in helm.Intent) (helm.Decision, helm.Receipt) {
	w.Helper()
	d, r := w.kernel.Guard(context.Background(), in)
	require.NotNil(w, r.Entry, "%s: %v", in.Tool, d.Err())
	return d, r
}

var kim = helm.Caller{ID: "kim", Tenant: "acme"}

func (w *world) mustCall(session, tool, args string, after ...contracts.Ref) helm.Receipt {
	w.Helper()
	d, r := w.call(helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: session, After: after, Caller: kim})
	require.NoError(w, d.Err())
	return r
}

func (w *world) close(session string) {
	w.Helper()
	require.NoError(w, w.kernel.CloseSession(context.Background(), session))
}

func (w *world) condense() helm.Condensed {
	w.Helper()
	c, err := w.kernel.Condense(context.Background(), time.Time{})
	require.NoError(w, err)
	return c
}

func (w *world) drop() helm.Dropped {
	w.Helper()
	d, err := w.kernel.Drop(context.Background())
	require.NoError(w, err)
	return d
}

// lines returns the lines of a store.
func lines(t testing.TB, s proofgraph.Store) (list []contracts.Entry) {
	t.Helper()
	size, err := s.Size(context.Background())
	require.NoError(t, err)
	for e, err := range s.Entries(context.Background(), 0, size) {
		require.NoError(t, err)
		list = append(list, e)
	}
	return list
}

// A story is a random life of some sessions: the same seed is the same story.
type story struct {
	*rand.Rand
	refs   []contracts.Ref
	closed map[string]bool
	number int
}

func newStory(seed uint64) *story {
	return &story{Rand: rand.New(rand.NewPCG(seed, 1)), closed: map[string]bool{}}
}

func (s *story) session() string {
	for {
		name := []string{"main", fmt.Sprint("chat-", s.IntN(s.number/40+4))}[min(s.IntN(8), 1)]
		if !s.closed[name] || s.IntN(30) == 0 {
			return name
		}
	}
}

func (s *story) intent() helm.Intent {
	tool := append(tools, "never", "unknown")[s.IntN(len(tools)+2)]
	if s.IntN(2) == 0 {
		tool = []string{"web", "notes"}[s.IntN(2)]
	}
	args := `{}`
	switch tool {
	case "web", "notes", "book":
		args = fmt.Sprintf(`{"q":%d}`, s.IntN(12))
	case "pay":
		args = fmt.Sprintf(`{"to":"ACC-%d"}`, s.IntN(12))
	}
	in := helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: s.session(),
		Caller: helm.Caller{ID: fmt.Sprint("caller-", s.IntN(3)), Tenant: fmt.Sprint("tenant-", s.IntN(2))}}
	if s.IntN(4) == 0 && len(s.refs) > 0 {
		for range 1 + s.IntN(2) {
			in.After = append(in.After, s.refs[s.IntN(len(s.refs))])
		}
	}
	if s.IntN(6) == 0 && in.Session != "main" {
		in.Idempotency = fmt.Sprint("key-", s.IntN(20))
	}
	return in
}

// tell goes on with the story, for n steps.
func (w *world) tell(s *story, n int) {
	w.Helper()
	ctx := context.Background()
	for range n {
		s.number++
		w.now.Add(int64(s.IntN(2000)))
		switch s.IntN(30) {
		case 0:
			name := s.session()
			if name != "main" {
				w.close(name)
				s.closed[name] = true
			}
		case 1:
			name := s.session()
			if err := w.kernel.UserMessage(ctx, name, fmt.Sprintf("pay ACC-%d", s.IntN(12))); err != nil {
				require.True(w, name == "main" || s.closed[name], "%v", err)
			}
		case 2:
			calls := []helm.Intent{s.intent(), s.intent()}
			calls[0].After, calls[1].After = nil, nil
			_, r := w.kernel.Guard(context.WithValue(ctx, nested{}, calls), s.intent())
			s.note(r)
		default:
			_, r := w.kernel.Guard(ctx, s.intent())
			s.note(r)
		}
	}
}

// note keeps a receipt as a cause of calls to come, and its decision now and then.
func (s *story) note(r helm.Receipt) {
	if r.Entry == nil {
		return
	}
	s.refs = append(s.refs, r.Ref())
	if r.Record.Decision == nil && s.IntN(3) == 0 {
		s.refs = append(s.refs, contracts.Ref{Index: r.Index - 1, Hash: r.Record.DecisionHash})
	}
}

// end closes every session of the story but a few.
func (w *world) end(s *story) {
	w.Helper()
	for i := range s.number/40 + 4 {
		name := fmt.Sprint("chat-", i)
		if s.closed[name] || i%7 == 3 {
			continue
		}
		w.close(name)
		s.closed[name] = true
	}
}

// A fork is a store that begins as another one, and goes on for itself. It is a Condenser.
type fork struct {
	mu    sync.Mutex // protects all below
	all   []contracts.Entry
	blobs map[contracts.Digest][]byte // nil: erased
	base  proofgraph.Store
	note  []byte
	stubs map[uint64][]byte // that Condense got, whether they were put in place or not
	puts  func(uint64) bool // nil: all
}

var _ proofgraph.Condenser = (*fork)(nil)

func newFork(t testing.TB, base proofgraph.Store) *fork {
	t.Helper()
	note, err := base.Checkpoint(context.Background())
	require.NoError(t, err)
	return &fork{all: lines(t, base), blobs: map[contracts.Digest][]byte{}, base: base, note: note}
}

func (f *fork) Append(_ context.Context, b proofgraph.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.At != uint64(len(f.all)) {
		return proofgraph.ErrConflict
	}
	for _, e := range b.Entries {
		f.all = append(f.all, append(contracts.Entry{}, e...))
	}
	for _, blob := range b.Blobs {
		f.blobs[crypto.Sum(blob)] = append([]byte{}, blob...)
	}
	if b.Checkpoint != nil {
		f.note = append([]byte{}, b.Checkpoint...)
	}
	return nil
}

func (f *fork) Size(context.Context) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uint64(len(f.all)), nil
}

func (f *fork) Entries(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		f.mu.Lock()
		list := append([]contracts.Entry{}, f.all[from:to]...)
		f.mu.Unlock()
		for _, e := range list {
			if !yield(append(contracts.Entry{}, e...), nil) {
				return
			}
		}
	}
}

func (f *fork) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	f.mu.Lock()
	b, ok := f.blobs[d]
	f.mu.Unlock()
	switch {
	case !ok:
		return f.base.Blob(ctx, d)
	case b == nil:
		return nil, proofgraph.ErrNoBlob
	}
	return append([]byte{}, b...), nil
}

func (f *fork) Checkpoint(context.Context) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]byte(nil), f.note...), nil
}

func (f *fork) Condense(
	_ context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	f.stubs = map[uint64][]byte{}
	if f.puts == nil {
		for d := range blobs {
			f.mu.Lock()
			f.blobs[d] = nil
			f.mu.Unlock()
		}
	}
	for i, line := range stubs {
		f.stubs[i] = append([]byte{}, line...)
		if f.puts == nil || f.puts(i) {
			f.mu.Lock()
			f.all[i] = f.stubs[i]
			f.mu.Unlock()
		}
	}
	return nil
}

// fill makes n calls that may go, in a session.
func (w *world) fill(session string, n int) {
	w.Helper()
	for i := range n {
		w.mustCall(session, "notes", fmt.Sprintf(`{"q":%d}`, 5*i)) // it fails for others
	}
}

// old is a world with so many calls in a session that was closed more than a day ago.
func old(t testing.TB, n int, change ...func(*helm.Options)) *world {
	t.Helper()
	w := newWorld(t, proofgraph.NewMemory(), change...)
	w.fill("chat", n)
	w.close("chat")
	w.later(25 * time.Hour)
	return w
}

// gone returns the indexes of the stubs in a store.
func gone(t testing.TB, s proofgraph.Store) (list []uint64) {
	t.Helper()
	for i, e := range lines(t, s) {
		if contracts.IsStub(e) {
			list = append(list, uint64(i))
		}
	}
	return list
}

// statement reads an entry.
func statement(t testing.TB, e contracts.Entry) *contracts.Statement {
	t.Helper()
	var r contracts.Reader
	sealed, err := r.Open(e)
	require.NoError(t, err)
	st, err := sealed.Statement()
	require.NoError(t, err)
	return st
}

// intentOf is a call by kim.
func intentOf(tool, session string, q int) helm.Intent {
	return helm.Intent{Tool: tool, Args: fmt.Appendf(nil, `{"q":%d}`, q), Session: session, Caller: kim}
}
