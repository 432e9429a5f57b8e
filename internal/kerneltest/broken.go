package kerneltest

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
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

// failNew has each call of the store fail that New makes over a log, which are so many at least.
func MustFailNew(t *testing.T, calls int, old func() *World) {
	t.Helper()
	for _, panics := range []bool{false, true} {
		n := 1
		for ; ; n++ {
			w := old()
			o := w.Options
			o.Store = &broken{Store: w.Store, failAt: n, panics: panics}
			k, err := helm.New(o)
			if err == nil {
				k.Close()
				break
			}
			if k != nil || !panics && !errors.Is(err, errRead) {
				t.Errorf("call %d: %v, %v", n, k, err)
			}
			w.Runs.Store(0)
			w.Open()
			w.MustFollowTrust()
			if report := w.MustVerify(); len(report.Open) != 0 {
				t.Errorf("call %d: open decisions %v", n, report.Open)
			}
		}
		if n < calls {
			t.Fatalf("New made only %d calls", n)
		}
	}
}

// write opens the log of a store past the kernel, with a key that may be another, and writes an entry of a session.
func AppendEntry(t *testing.T, s proofgraph.Store, key crypto.PrivateKey, session string, make func(c *proofgraph.Chain, seen []contracts.Digest) *contracts.Statement) {
	t.Helper()
	var seen []contracts.Digest
	l, err := proofgraph.Open(context.Background(), s, proofgraph.Options{Origin: Origin, Key: key, LogKey: crypto.DeriveLogKey(SeedKey(t, 1)), Trust: []byte("{}")},
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
