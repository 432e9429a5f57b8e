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
)

// lying is a store that hands out blobs of its own.
type LyingStore struct{ proofgraph.Store }

func (LyingStore) Blob(context.Context, contracts.Digest) ([]byte, error) {
	return []byte(`"forged"`), nil
}

// reader is a store that reads as the test says.
type ReadStore struct {
	proofgraph.Store
	OnEntries func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
	OnBlob    func(contracts.Digest) ([]byte, error)
}

func (r ReadStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if r.OnEntries == nil {
		return r.Store.Entries(ctx, from, to)
	}
	return r.OnEntries(ctx, from, to)
}

func (r ReadStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if r.OnBlob == nil {
		return r.Store.Blob(ctx, d)
	}
	return r.OnBlob(d)
}

// The tests here run in bubbles of package synctest: where every goroutine waits for another, the test fails at once.

// A dam is a store that can be shut: then what is to be appended waits until it is opened.
type BlockingStore struct {
	proofgraph.Store
	Mu     sync.Mutex
	Opened chan struct{} // nil: it is open
	Fails  bool          // once opened
}

func (d *BlockingStore) Append(ctx context.Context, b proofgraph.Batch) error {
	d.Mu.Lock()
	opened := d.Opened
	d.Mu.Unlock()
	if opened != nil {
		<-opened
	}
	d.Mu.Lock()
	fails := d.Fails
	d.Mu.Unlock()
	if fails {
		return ErrDisk
	}
	return d.Store.Append(ctx, b)
}

func (d *BlockingStore) Block() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Opened = make(chan struct{})
}

func (d *BlockingStore) Unblock() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	close(d.Opened)
	d.Opened = nil
}

// onFiles puts a world's store on disk; what it gives closes and opens it anew.
func OnFiles(t *testing.T, w *World) (reopen func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	var s *filestore.Store
	open := func() {
		var err error
		if s, err = filestore.Open(dir, filestore.Options{}); err != nil {
			t.Fatal(err)
		}
		w.Store.Store = s
	}
	open()
	t.Cleanup(func() { s.Close() })
	return func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		open()
	}
}

// faulty is a store that fails, panics or lies at a call of Append.
type FaultyStore struct {
	proofgraph.Store
	mu     sync.Mutex
	N      int                     // Appends so far
	FailAt int                     // the nth fails; 0 is never
	OnFail func(store error) error // of a failing Append, given what the store would have said; nil: it writes nothing
}

var ErrDisk = errors.New("no space left on device")

func (f *FaultyStore) Append(ctx context.Context, b proofgraph.Batch) error {
	f.mu.Lock()
	f.N++
	fail, how := f.N == f.FailAt, f.OnFail
	f.mu.Unlock()
	switch {
	case fail && how == nil:
		return ErrDisk
	case fail:
		return how(f.Store.Append(ctx, b))
	}
	return f.Store.Append(ctx, b)
}

// in makes the nth Append from now on fail.
func (f *FaultyStore) FailIn(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.FailAt = f.N + n
}
