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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errRead = errors.New("read error")

// A broken store fails or panics at its nth call, of whatever method. An entry that is read is a
// call.
type broken struct {
	proofgraph.Store
	n, failAt int
	panics    bool
}

func (b *broken) fail() error {
	b.n++
	switch {
	case b.n != b.failAt:
		return nil
	case b.panics:
		panic("disk")
	}
	return errRead
}

func (b *broken) Append(ctx context.Context, batch proofgraph.Batch) error {
	if err := b.fail(); err != nil {
		return err
	}
	return b.Store.Append(ctx, batch)
}

func (b *broken) Size(ctx context.Context) (uint64, error) {
	if err := b.fail(); err != nil {
		return 0, err
	}
	return b.Store.Size(ctx)
}

func (b *broken) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range b.Store.Entries(ctx, from, to) {
			if err := b.fail(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (b *broken) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.Store.Blob(ctx, d)
}

func (b *broken) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.Store.Checkpoint(ctx)
}

// brokenShared is the same of a store that several logs write to.
type brokenShared struct {
	*broken
	shared proofgraph.Shared
}

func (b brokenShared) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	w, err := b.shared.Join(ctx, origin)
	return &brokenWriter{w, b.broken}, err
}

func (b brokenShared) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	return func(yield func(proofgraph.Placed, error) bool) {
		for p, err := range b.shared.Session(ctx, name, from) {
			if err := b.fail(); err != nil {
				yield(proofgraph.Placed{}, err)
				return
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

type brokenWriter struct {
	proofgraph.Writer
	store *broken
}

func (w *brokenWriter) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
	if err := w.store.fail(); err != nil {
		return 0, err
	}
	return w.Writer.Put(ctx, guess, c)
}

func (w *brokenWriter) Turn(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	if err := w.store.fail(); err != nil {
		return proofgraph.State{}, err
	}
	return w.Writer.Turn(ctx, a)
}

func (w *brokenWriter) End(ctx context.Context, c proofgraph.Change) error {
	if err := w.store.fail(); err != nil {
		return errors.Join(err, w.Writer.End(ctx, proofgraph.Change{}))
	}
	return w.Writer.End(ctx, c)
}

func (w *brokenWriter) Dead(ctx context.Context) ([]uint64, error) {
	if err := w.store.fail(); err != nil {
		return nil, err
	}
	return w.Writer.Dead(ctx)
}

// MustFailNew has each call of the store fail, and then panic, that New makes over the log of a
// world: New must fail without a kernel, and leave a store with which the next New goes on. There
// must be at least so many calls.
func MustFailNew(t *testing.T, calls int, world func() *World) {
	t.Helper()
	if joined { // New reads the session "" alone
		calls = min(calls, 8)
	}
	for _, panics := range []bool{false, true} {
		n := 1
		for ; mustFailNewAt(t, n, panics, world()); n++ {
		}
		require.GreaterOrEqual(t, n, calls, "New made too few calls")
	}
}

// mustFailNewAt has one call fail, and reports whether there was such a call.
func mustFailNewAt(t *testing.T, n int, panics bool, w *World) bool {
	t.Helper()
	o := w.Options
	b := &broken{Store: w.Store, failAt: n, panics: panics}
	o.Store = b
	if s, ok := w.Options.Store.(proofgraph.Shared); ok {
		o.Store = brokenShared{b, s}
	}
	k, err := helm.New(o)
	if err == nil {
		k.Close()
		return false
	}
	assert.Nil(t, k, "call %d", n)
	if !panics {
		assert.ErrorIs(t, err, errRead, "call %d", n)
	}
	w.Runs.Store(0)
	w.Open()
	w.MustFollowTrust()
	assert.Empty(t, w.MustVerify().Open, "call %d: open decisions", n)
	return true
}

// AppendEntry opens the log of a store past the kernel, with any key, and writes an entry of a
// session. The entry is made by statement, which is given the decisions that the log has.
func AppendEntry(
	t *testing.T, s proofgraph.Store, key crypto.PrivateKey, session string,
	statement func(c *proofgraph.Chain, decisions []contracts.Digest) *contracts.Statement,
) {
	t.Helper()
	var decisions []contracts.Digest
	past := struct{ proofgraph.Store }{s} // a store in memory knows who has it open
	l, err := proofgraph.Open(context.Background(), past, proofgraph.Options{
		Origin: Origin, Key: key, LogKey: crypto.DeriveLogKey(SeedKey(t, 1)), Trust: []byte("{}"),
	}, func(l proofgraph.Line) error {
		if l.Statement != nil && l.Statement.Decision != nil {
			decisions = append(decisions, l.Hash)
		}
		return nil
	})
	require.NoError(t, err)
	c := l.Chain(session)
	st := statement(c, decisions)
	var parents []contracts.Digest
	if st.Receipt != nil {
		parents = append(parents, st.Receipt.DecisionHash)
	}
	write := func(at proofgraph.Place) (*contracts.Statement, error) {
		if st.Close != nil {
			st.Close.Count, st.Close.Last = at.Header().Seq, at.Header().Prev
		}
		return st, nil
	}
	slot, err := l.Place(proofgraph.Draft{Chain: c, Time: c.Time(), Parents: parents, Write: write})
	require.NoError(t, err)
	require.NoError(t, slot.Wait())
}
