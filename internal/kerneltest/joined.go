package kerneltest

import (
	"context"
	"iter"
	"os"
	"testing"

	"github.com/helmkernel/helm/proofgraph"
)

// joined reports whether worlds are made over a store that several logs write to.
var joined = os.Getenv("HELM_TEST_STORE") != ""

// Joined reports whether worlds are made over a store that several logs write to.
func Joined() bool { return joined }

func init() {
	if name := os.Getenv("HELM_TEST_STORE"); joined && name != several {
		panic("HELM_TEST_STORE is " + name + ", and these tests were built for " + several)
	}
}

// A JoinedStore is a FaultyStore over a proofgraph.Shared: a batch of a writer is an Append.
type JoinedStore struct {
	*FaultyStore
	shared proofgraph.Shared
	joined *[]proofgraph.Writer
}

// OnJoined makes a store that several logs write to.
func OnJoined(t testing.TB) (*FaultyStore, proofgraph.Shared) {
	t.Helper()
	s := openSeveral(t)
	f := &FaultyStore{Store: s}
	return f, JoinedStore{f, s, new([]proofgraph.Writer)}
}

// OneWriter skips a test that is of a log with one writer, and says why, if worlds are made over a
// store that several write to.
func OneWriter(t testing.TB, why string) {
	t.Helper()
	if joined {
		t.Skip("of a log with one writer: " + why)
	}
}

// Faulty returns the FaultyStore of a world, whether one log writes to it or several.
func Faulty(s proofgraph.Store) *FaultyStore {
	if j, ok := s.(JoinedStore); ok {
		return j.FaultyStore
	}
	return s.(*FaultyStore)
}

// Join implements [proofgraph.Shared].
func (j JoinedStore) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := j.shared.Join(ctx, origin)
	if err != nil {
		return nil, err
	}
	*j.joined = append(*j.joined, w)
	return &faultyWriter{w, j.FaultyStore}, nil
}

// killed ends the processes of all kernels so far.
func killed(s proofgraph.Store) {
	if j, ok := s.(JoinedStore); ok {
		for _, w := range *j.joined {
			w.(interface{ Kill() }).Kill()
		}
	}
}

// Session implements [proofgraph.Shared].
func (j JoinedStore) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	return j.shared.Session(ctx, name, from)
}

type faultyWriter struct {
	proofgraph.Writer
	store *FaultyStore
}

func (w *faultyWriter) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (at uint64, err error) {
	err = w.store.count(func() (err error) {
		at, err = w.Writer.Put(ctx, guess, c)
		return err
	})
	return at, err
}

func (w *faultyWriter) End(ctx context.Context, c proofgraph.Change) error {
	if c.Entries == nil && c.Checkpoint == nil && c.Blobs == nil {
		return w.Writer.End(ctx, c)
	}
	return w.store.count(func() error { return w.Writer.End(ctx, c) })
}
