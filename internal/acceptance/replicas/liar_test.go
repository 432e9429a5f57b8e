package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// A liar is a store whose owner shows one kernel something else than what there is.
type liar struct {
	*sharedmem.Store
	forgets bool // turns show no balance and no nonce, and none is noted
	session func(proofgraph.Placed) ([]proofgraph.Placed, error)

	mu      sync.Mutex // protects the fields below
	failAt  int        // the read that fails; 0: none
	reads   int
	panics  bool
	waits   chan struct{} // the failing read waits for it
	waiting chan struct{} // closed when it does
}

func (l *liar) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := l.Store.Join(ctx, origin)
	return &lyingWriter{w, l}, err
}

// read counts a read, and reports why it fails.
func (l *liar) read() error {
	l.mu.Lock()
	l.reads++
	fails, waits := l.reads == l.failAt, l.waits
	l.mu.Unlock()
	switch {
	case !fails:
		return nil
	case l.panics:
		panic("disk")
	case waits != nil:
		close(l.waiting)
		<-waits
	}
	return errRead
}

// failIn has the nth read from now on fail; 0: none.
func (l *liar) failIn(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads, l.failAt = 0, n
}

var errRead = errors.New("read error")

func (l *liar) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	return func(yield func(proofgraph.Placed, error) bool) {
		if err := l.read(); err != nil {
			yield(proofgraph.Placed{}, err)
			return
		}
		for p, err := range l.Store.Session(ctx, name, from) {
			list := []proofgraph.Placed{p}
			if err == nil {
				err = l.read()
			}
			if err == nil && l.session != nil && name != contracts.SessionKernel {
				list, err = l.session(p)
			}
			if err != nil {
				yield(proofgraph.Placed{}, err)
				return
			}
			for _, p := range list {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

func (l *liar) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range l.Store.Entries(ctx, from, to) {
			if err == nil {
				err = l.read()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (l *liar) Size(ctx context.Context) (uint64, error) {
	if err := l.read(); err != nil {
		return 0, err
	}
	return l.Store.Size(ctx)
}

func (l *liar) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := l.read(); err != nil {
		return nil, err
	}
	return l.Store.Blob(ctx, d)
}

type lyingWriter struct {
	proofgraph.Writer
	liar *liar
}

func (w *lyingWriter) Turn(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	s, err := w.Writer.Turn(ctx, a)
	if w.liar.forgets {
		s.Used = nil
		for i := range s.Spent {
			s.Spent[i].Spent = 0
		}
	}
	return s, err
}

func (w *lyingWriter) End(ctx context.Context, c proofgraph.Change) error {
	if w.liar.forgets {
		c.Used = nil
	}
	return w.Writer.End(ctx, c)
}

func (w *lyingWriter) Put(ctx context.Context, g proofgraph.State, c proofgraph.Change) (uint64, error) {
	if w.liar.forgets {
		c.Used = nil
	}
	return w.Writer.Put(ctx, g, c)
}

// invalid fails the test unless a pack of the log is INVALID for that reason.
func (f *fleet) invalid(k *helm.Kernel, want error) {
	f.Helper()
	pack := f.pack(k)
	r, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)),
		evidence.Options{Trust: k.Trust(), Origin: kerneltest.Origin})
	require.ErrorIs(f, err, want)
	require.False(f, r.Success(evidence.Logged))
}

// lied makes a kernel over a store that lies to it about the fleet's log.
func (f *fleet) lied(l *liar) *helm.Kernel {
	f.Helper()
	l.Store = f.store
	o := f.options
	o.Store = l
	k, err := helm.New(o)
	require.NoError(f, err)
	f.Cleanup(func() { k.Close() })
	return k
}

// An owner who changes balances has a budget exceeded, and the pack shows it.
func TestFalseBalance(t *testing.T) {
	t.Parallel()
	few := kerneltest.Edit(t, kerneltest.Policy+budgets, "limit: 300", "limit: 1")
	f := newFleet(t, 1, few)
	d, _ := f.call(f.kernels[0], "a")
	require.NoError(t, d.Err())
	k := f.lied(&liar{forgets: true})
	d, _ = f.call(k, "b")
	require.NoError(t, d.Err(), "the budget is exceeded")
	f.invalid(k, evidence.ErrBudget)
}

// An owner who removes nonces has an approval used twice, and the pack shows it.
func TestRemovedNonce(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	f := newFleet(t, 1, kerneltest.Policy, func(o *helm.Options) {
		o.Policy, o.Trust, o.Key, o.LogKey, o.Now, o.Drivers = b.Options.Policy, b.Options.Trust, b.Options.Key,
			b.Options.LogKey, b.Options.Now, nil
	})
	pay := func(in *helm.Intent) {
		in.Tool, in.Args, in.Driver, in.Caller = "pay", []byte(kerneltest.Rent), f, helm.Caller{ID: "clerk"}
	}
	asked, _ := f.call(f.kernels[0], "", pay)
	require.NotNil(t, asked.Pending)
	yes := kerneltest.With(b.Approve(*asked.Pending, kerneltest.Ann))
	d, _ := f.call(f.kernels[0], "", pay, yes)
	require.NoError(t, d.Err())
	k := f.lied(&liar{forgets: true})
	d, _ = f.call(k, "", pay, yes)
	require.NoError(t, d.Err(), "the approval is used twice")
	f.invalid(k, evidence.ErrReference)
}

// Entries that are held back from a kernel, which then writes others in their places: the two parts
// make no log together, and a kept checkpoint is not of the shorter one.
func TestEntriesHeldBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, 0, kerneltest.Policy)
	var changes []proofgraph.Change
	f.store.Hook(sharedmem.Hooks{After: func(_ context.Context, op sharedmem.Op, err error) error {
		if err == nil && op.Name != "Turn" && len(op.Change.Entries) > 0 {
			changes = append(changes, op.Change)
		}
		return err
	}})
	k := f.join()
	for range 3 {
		d, _ := f.call(k, "chat")
		require.NoError(t, d.Err())
	}
	f.store.Hook(sharedmem.Hooks{})
	note, err := k.Checkpoint(ctx)
	require.NoError(t, err)

	short := newFleet(t, 0, kerneltest.Policy)
	w, err := short.store.Join(ctx, kerneltest.Origin)
	require.NoError(t, err)
	kernel := uint64(0) // entries of the session ""
	for _, c := range changes[:len(changes)-2] {
		c.Checkpoint = nil
		_, err := w.Put(ctx, proofgraph.State{Kernel: kernel, Spent: c.Spent}, c)
		require.NoError(t, err)
		if end, ok := c.Sessions[contracts.SessionKernel]; ok {
			kernel = end.Next
		}
	}
	o := short.options
	o.Last = note.Note
	none, err := helm.New(o)
	require.ErrorContains(t, err, "Options.Last")
	require.Nil(t, none)

	other := short.join()
	d, _ := short.call(other, "chat", kerneltest.WithArgs(`{"text":"another"}`))
	require.NoError(t, d.Err(), "nothing shows yet that there are other entries")
	short.verified(other)
	size, err := short.store.Size(ctx)
	require.NoError(t, err)
	joined := kerneltest.ReadStore{Store: f.store, OnEntries: func(
		ctx context.Context, from, to uint64,
	) iter.Seq2[contracts.Entry, error] {
		return func(yield func(contracts.Entry, error) bool) {
			var all []contracts.Entry
			for e := range f.store.Entries(ctx, 0, note.Size) {
				all = append(all, e)
			}
			for e := range short.store.Entries(ctx, size-2, size) {
				all = append(all, e)
			}
			for _, e := range all[from:min(to, uint64(len(all)))] {
				if !yield(e, nil) {
					return
				}
			}
		}
	}, OnBlob: func(d contracts.Digest) ([]byte, error) {
		if b, err := f.store.Blob(ctx, d); err == nil {
			return b, nil
		}
		return short.store.Blob(ctx, d)
	}}
	_, err = helm.New(helm.Options{Policy: f.options.Policy, Key: f.options.Key, LogKey: f.options.LogKey,
		Origin: kerneltest.Origin, Store: longer{joined, note.Size + 2}})
	require.ErrorContains(t, err, "seq")
}

type longer struct {
	kerneltest.ReadStore
	size uint64
}

func (l longer) Size(context.Context) (uint64, error) { return l.size, nil }

// moves makes a fleet in whose session "chat" one kernel has looked at an account, and a call of
// another kernel that is allowed for that.
func moves(t *testing.T) (f *fleet, move func(k *helm.Kernel) (helm.Decision, helm.Receipt)) {
	policy := kerneltest.Edit(t, kerneltest.BankPolicy, "approval: {roles: [owner], ttl: 10m}", "receipt: look",
		"approval: {roles: [owner, auditor], quorum: 2, ttl: 1h}", "receipt: look")
	f = newFleet(t, 0, policy, func(o *helm.Options) { o.Drivers = nil })
	tool := func(name, args string) func(*helm.Intent) {
		return func(in *helm.Intent) { in.Tool, in.Args, in.Driver = name, []byte(args), f }
	}
	k := f.join()
	for i := range 3 {
		d, _ := f.call(k, "chat", tool("look", fmt.Sprintf(`{"account":"%d"}`, i)))
		require.NoError(t, d.Err())
	}
	f.runs.Store(0)
	return f, func(k *helm.Kernel) (helm.Decision, helm.Receipt) {
		return f.call(k, "chat", tool("move", `{"from":"9","to":"2"}`))
	}
}

// denied fails the test if a call was allowed, ran, or left what does not verify.
func (f *fleet) denied(what string, d helm.Decision, r helm.Receipt) {
	f.Helper()
	assert.Equal(f, contracts.Deny, d.Verdict, what)
	assert.ErrorIs(f, d.Err(), helm.ErrDenied, what)
	assert.Nil(f, r.Output, what)
	assert.Zero(f, f.runs.Load(), what)
	f.verified(f.join())
}

// A store that shows other entries as those of a session has nothing allowed by it.
func TestLiesAboutASession(t *testing.T) {
	t.Parallel()
	var held []proofgraph.Placed
	seq := 0
	lies := map[string]func(p proofgraph.Placed) ([]proofgraph.Placed, error){
		"other bytes": func(p proofgraph.Placed) ([]proofgraph.Placed, error) {
			p.Entry = slices.Clone(p.Entry)
			p.Entry[len(p.Entry)/2] ^= 1
			return []proofgraph.Placed{p}, nil
		},
		"another order": func(p proofgraph.Placed) ([]proofgraph.Placed, error) {
			if held = append(held, p); len(held) < 2 {
				return nil, nil
			}
			list := []proofgraph.Placed{held[1], held[0]}
			held = nil
			return list, nil
		},
		"twice": func(p proofgraph.Placed) ([]proofgraph.Placed, error) { return []proofgraph.Placed{p, p}, nil },
		"the first is missing": func(p proofgraph.Placed) ([]proofgraph.Placed, error) {
			if seq++; seq == 1 {
				return nil, nil
			}
			return []proofgraph.Placed{p}, nil
		},
		"the second is missing": func(p proofgraph.Placed) ([]proofgraph.Placed, error) {
			if seq++; seq == 2 {
				return nil, nil
			}
			return []proofgraph.Placed{p}, nil
		},
		"the last are missing": func(p proofgraph.Placed) ([]proofgraph.Placed, error) {
			if seq++; seq > 2 {
				return nil, nil
			}
			return []proofgraph.Placed{p}, nil
		},
		"all are missing": func(proofgraph.Placed) ([]proofgraph.Placed, error) { return nil, nil },
	}
	for name, lie := range lies {
		f, move := moves(t)
		held, seq = nil, 0
		d, r := move(f.lied(&liar{session: lie}))
		assert.Equal(t, contracts.ReasonFailClosedError, d.Reason, name)
		f.denied(name, d, r)
		d, _ = move(f.join())
		assert.NoError(t, d.Err(), "%s: without the lie", name)
	}
}

// Whatever read of the store fails, and however: the call is denied, or was not judged by it.
func TestReadsFail(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fails", "panics", "waits"} {
		n := 1
		for ; ; n++ {
			f, move := moves(t)
			l := &liar{}
			k := f.lied(l)
			what := fmt.Sprintf("read %d %s", n, how)
			if l.panics = how == "panics"; how == "waits" {
				l.waits, l.waiting = make(chan struct{}), make(chan struct{})
			}
			l.failIn(n)
			var d helm.Decision
			var r helm.Receipt
			done := make(chan struct{})
			go func() {
				defer close(done)
				d, r = move(k)
			}()
			if how == "waits" {
				select {
				case <-l.waiting:
					assert.Zero(t, f.runs.Load(), what)
					close(l.waits)
				case <-done:
				}
			}
			<-done
			l.mu.Lock()
			failed := l.reads >= n
			l.mu.Unlock()
			if !failed {
				require.NoError(t, d.Err(), "nothing fails")
				break
			}
			l.failIn(0)
			f.denied(what, d, r)
		}
		assert.Greater(t, n, 6, "%s: the session was read", how)
	}
}
