package kerneltest

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"sync"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/require"
)

// ErrDisk is the error of a store that fails.
var ErrDisk = errors.New("no space left on device")

// A FaultyStore is a store of which one Append can be made to fail, panic or lie.
type FaultyStore struct {
	proofgraph.Store
	OnFail func(err error) error // the failing Append, given what the store returned; nil: nothing is written

	mu        sync.Mutex // protects n and failAt
	n, failAt int
}

// Appends returns how many Appends there were so far.
func (f *FaultyStore) Appends() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// FailIn makes the nth Append from now on fail.
func (f *FaultyStore) FailIn(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt = f.n + n
}

// Heal makes no Append fail.
func (f *FaultyStore) Heal() { f.FailIn(0) }

// Append implements [proofgraph.Store].
func (f *FaultyStore) Append(ctx context.Context, b proofgraph.Batch) error {
	return f.count(func() error { return f.Store.Append(ctx, b) })
}

// count appends, unless this is the time to fail.
func (f *FaultyStore) count(appends func() error) error {
	f.mu.Lock()
	f.n++
	fails := f.n == f.failAt
	f.mu.Unlock()
	switch {
	case fails && f.OnFail == nil:
		return ErrDisk
	case fails:
		return f.OnFail(appends())
	}
	return appends()
}

// A LyingStore returns the same blob for every digest.
type LyingStore struct{ proofgraph.Store }

// Blob implements [proofgraph.Store].
func (LyingStore) Blob(context.Context, contracts.Digest) ([]byte, error) {
	return []byte(`"forged"`), nil
}

// A ReadStore is a store whose reads are the test's.
type ReadStore struct {
	proofgraph.Store
	OnEntries func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] // nil: the store's
	OnBlob    func(contracts.Digest) ([]byte, error)                                       // nil: the store's
}

// Entries implements [proofgraph.Store].
func (r ReadStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if r.OnEntries == nil {
		return r.Store.Entries(ctx, from, to)
	}
	return r.OnEntries(ctx, from, to)
}

// Blob implements [proofgraph.Store].
func (r ReadStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if r.OnBlob == nil {
		return r.Store.Blob(ctx, d)
	}
	return r.OnBlob(d)
}

// ReadBlob is a ReadStore whose every blob is b, or fails with err.
func ReadBlob(s proofgraph.Store, b []byte, err error) ReadStore {
	return ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { return b, err }}
}

// PanicBlob is a ReadStore that panics if a blob is read.
func PanicBlob(s proofgraph.Store) ReadStore {
	return ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { panic("disk") }}
}

// A BlockingStore is a store whose Append can be made to wait.
type BlockingStore struct {
	proofgraph.Store

	mu      sync.Mutex    // protects blocked and fails
	blocked chan struct{} // nil: Append does not wait
	fails   bool
}

// Append implements [proofgraph.Store].
func (s *BlockingStore) Append(ctx context.Context, b proofgraph.Batch) error {
	s.mu.Lock()
	blocked := s.blocked
	s.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	s.mu.Lock()
	fails := s.fails
	s.mu.Unlock()
	if fails {
		return ErrDisk
	}
	return s.Store.Append(ctx, b)
}

// Block makes every Append wait until Unblock or Fail is called.
func (s *BlockingStore) Block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = make(chan struct{})
}

// Unblock lets the Appends go on that wait.
func (s *BlockingStore) Unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.blocked)
	s.blocked = nil
}

// Fail lets the Appends go on that wait, and makes them and all later ones fail.
func (s *BlockingStore) Fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = true
	close(s.blocked)
}

// OnFiles puts a world's store on disk. The function that it returns closes the store and opens it
// again.
func OnFiles(t *testing.T, store *FaultyStore) (reopen func()) {
	t.Helper()
	if joined {
		t.Skip("a log in files has one writer")
	}
	dir := filepath.Join(t.TempDir(), "log")
	var s *filestore.Store
	open := func() {
		var err error
		s, err = filestore.Open(dir, filestore.Options{})
		require.NoError(t, err)
		store.Store = s
	}
	open()
	t.Cleanup(func() { s.Close() })
	return func() {
		t.Helper()
		require.NoError(t, s.Close())
		open()
	}
}

// SaveState implements [proofgraph.Rememberer].
func (f *FaultyStore) SaveState(ctx context.Context, state []byte) error {
	if r, ok := f.Store.(proofgraph.Rememberer); ok {
		return r.SaveState(ctx, state)
	}
	return nil
}

// State implements [proofgraph.Rememberer].
func (f *FaultyStore) State(ctx context.Context) ([]byte, error) {
	if r, ok := f.Store.(proofgraph.Rememberer); ok {
		return r.State(ctx)
	}
	return nil, nil
}
