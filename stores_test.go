package helm_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

var errRead = errors.New("read error")

// broken is a store whose nth call, of whatever sort, fails or panics; every entry that is read counts as one.
type broken struct {
	proofgraph.Store
	n, failAt int
	panics    bool
}

func (b *broken) fails() bool {
	if b.n++; b.n != b.failAt {
		return false
	}
	if b.panics {
		panic("disk")
	}
	return true
}

func (b *broken) Append(ctx context.Context, batch proofgraph.Batch) error {
	if b.fails() {
		return errRead
	}
	return b.Store.Append(ctx, batch)
}

func (b *broken) Size(ctx context.Context) (uint64, error) {
	if b.fails() {
		return 0, errRead
	}
	return b.Store.Size(ctx)
}

func (b *broken) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range b.Store.Entries(ctx, from, to) {
			if b.fails() {
				yield(nil, errRead)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (b *broken) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if b.fails() {
		return nil, errRead
	}
	return b.Store.Blob(ctx, d)
}

func (b *broken) Checkpoint(ctx context.Context) ([]byte, error) {
	if b.fails() {
		return nil, errRead
	}
	return b.Store.Checkpoint(ctx)
}

// Whatever call of the store fails while New reads and settles an old log: an error, no kernel, and a store that the next New can go on with.
func TestNewFailsAtEveryCallOfTheStore(t *testing.T) {
	failNew(t, 9, func() *world {
		w := newWorld(t)
		w.call("echo", `{}`)
		if _, err := w.k.Checkpoint(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.store.in(2)
		w.call("echo", `{}`) // stays open
		return w
	})
}

// failNew has each call of the store fail that New makes over a log, which are so many at least.
func failNew(t *testing.T, calls int, old func() *world) {
	t.Helper()
	for _, panics := range []bool{false, true} {
		n := 1
		for ; ; n++ {
			w := old()
			o := w.o
			o.Store = &broken{Store: w.store, failAt: n, panics: panics}
			k, err := helm.New(o)
			if err == nil {
				k.Close()
				break
			}
			if k != nil || !panics && !errors.Is(err, errRead) {
				t.Errorf("call %d: %v, %v", n, k, err)
			}
			w.runs.Store(0)
			w.open()
			w.mustRule()
			if report := w.mustVerify(); len(report.Open) != 0 {
				t.Errorf("call %d: open decisions %v", n, report.Open)
			}
		}
		if n < calls {
			t.Fatalf("New made only %d calls", n)
		}
	}
}

// write opens the log of a store past the kernel, with a key that may be another, and writes an entry of a session.
func write(t *testing.T, s proofgraph.Store, key crypto.PrivateKey, session string, make func(c *proofgraph.Chain, seen []contracts.Digest) *contracts.Statement) {
	t.Helper()
	var seen []contracts.Digest
	l, err := proofgraph.Open(context.Background(), s, proofgraph.Options{Origin: origin, Key: key, LogKey: crypto.DeriveLogKey(seedKey(t, 1)), Trust: []byte("{}")},
		func(_ uint64, _ contracts.Entry, hash contracts.Digest, st *contracts.Statement) error {
			if st.Decision != nil {
				seen = append(seen, hash)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Chain(session)
	st := make(c, seen)
	var parents []contracts.Digest
	if st.Receipt != nil {
		parents = append(parents, st.Receipt.DecisionHash)
	}
	slot, err := l.Place(c, c.Time(), parents, nil)
	if err != nil {
		t.Fatal(err)
	}
	if st.Close != nil {
		st.Close.Count, st.Close.Last = slot.Header().Seq, slot.Header().Prev
	}
	if err := slot.Sign(st); err != nil {
		t.Fatal(err)
	}
	if err := slot.Wait(); err != nil {
		t.Fatal(err)
	}
}

// New continues no log that no kernel of its own could have written.
func TestNewRefusesForeignLogs(t *testing.T) {
	unknown := func(session string) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			write(t, w.store.Store, seedKey(t, 1), session, func(_ *proofgraph.Chain, decisions []contracts.Digest) *contracts.Statement {
				d := contracts.DecisionRecord{ArgsHash: crypto.Sum(nil), EffectType: contracts.Read, Tool: "echo", Verdict: contracts.Allow}
				return &contracts.Statement{Receipt: receipts.Unknown(&d, decisions[0])}
			})
		}
	}
	copied := func(marked bool, keep func(index uint64, n uint64) bool) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			m, n := proofgraph.NewMemory(), w.size()
			ctx, at := context.Background(), uint64(0)
			note, err := w.store.Store.Checkpoint(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !marked {
				note = nil
			}
			for i := range n {
				if keep(i, n) {
					if err := m.Append(ctx, proofgraph.Batch{At: at, Entries: []contracts.Entry{w.entry(i)}, Checkpoint: note}); err != nil {
						t.Fatal(err)
					}
					at++
				}
			}
			w.store.Store = m
		}
	}
	for name, x := range map[string]struct {
		spoil func(t *testing.T, w *world)
		says  string
	}{
		"signed by another key": {func(t *testing.T, w *world) {
			write(t, w.store.Store, seedKey(t, 9), "foreign", func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
				return &contracts.Statement{Close: new(contracts.Close)}
			})
		}, "kernel key"},
		"a second receipt":             {unknown("s"), "receipt"},
		"a receipt in another session": {unknown("another"), "receipt"},
		"an entry missing":             {copied(false, func(i, _ uint64) bool { return i != 2 }), "entry 2"},
		"genesis missing":              {copied(false, func(i, _ uint64) bool { return i != 0 }), "entry 0"},
		"cut below its checkpoint":     {copied(true, func(i, n uint64) bool { return i != n-1 }), "checkpoint"},
		"two logs mixed": {func(t *testing.T, w *world) {
			second := newWorld(t)
			second.call("echo", `{}`)
			copied(false, func(i, n uint64) bool { return i < 3 })(t, w)
			if err := w.store.Store.Append(context.Background(), proofgraph.Batch{At: 3, Entries: []contracts.Entry{second.entry(3)}}); err != nil {
				t.Fatal(err)
			}
		}, "entry 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.call("echo", `{}`)
			w.call("echo", `{}`, func(in *helm.Intent) { in.Session = "another" })
			if _, err := w.k.Checkpoint(context.Background()); err != nil {
				t.Fatal(err)
			}
			if k, err := helm.New(w.o); err != nil {
				t.Fatal(err)
			} else if err := k.Close(); err != nil {
				t.Fatal(err)
			}
			x.spoil(t, w)
			size := w.size()
			k, err := helm.New(w.o)
			if err == nil || k != nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v, want something of %q", err, x.says)
			}
			if w.size() != size {
				t.Error("wrote to the log")
			}
		})
	}
}

// A store that lost its entries and kept its checkpoint had a log: a new one does not take its place.
func TestEmptiedStore(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	w.call("echo", `{}`)
	c, err := w.k.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	emptied := proofgraph.NewMemory()
	if err := emptied.Append(ctx, proofgraph.Batch{Checkpoint: c.Note}); err != nil {
		t.Fatal(err)
	}
	o := w.o
	o.Store = emptied
	if k, err := helm.New(o); err == nil || k != nil {
		t.Error("a log was begun in an emptied store")
	}
	if n, err := emptied.Size(ctx); n != 0 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}
