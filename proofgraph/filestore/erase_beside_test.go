package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A process that reads or copies the log while a blob is erased, at any change to the disk, finds
// the blob whole or gone, and never damage.
func TestReadersAtEachChangeOfAnErasure(t *testing.T) {
	t.Parallel()
	const n = 9
	whole, gone := 0, 0
	for _, which := range []int{1, n - 1} {
		for after := 0; after < 8; after++ {
			for _, amid := range []int{0, 1, 600, 1500, 1 << 20} {
				d, erasing, looked := withSecrets(t, n, 1, n-1), 0, false
				before, err := openReadOnly(d, dir)
				require.NoError(t, err)
				var s *Store
				look := func(r *Store, what string) {
					t.Helper()
					mustHold(t, r, n)
					b, err := r.Blob(t.Context(), crypto.Sum(secret(which)))
					switch {
					case err == nil && bytes.Equal(b, secret(which)):
						whole++
					case errors.Is(err, proofgraph.ErrNoBlob):
						gone++
					default:
						t.Fatalf("secret %d, change %d, %d bytes of it: %s: %d bytes, %v", which, after, amid, what,
							len(b), err)
					}
				}
				s, err = open(&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
					if erasing == 0 || looked || !o.Changes {
						return o.Do()
					}
					if erasing++; erasing-2 < after {
						return o.Do()
					}
					looked = true
					if o.Kind == "write" {
						if err := o.Part(min(amid, len(o.Data))); err != nil {
							return err
						}
					}
					look(before, "one who opened it before")
					look(s, "the store itself")
					r, err := openReadOnly(d, dir)
					require.NoError(t, err, "secret %d, change %d, %d bytes of it", which, after, amid)
					look(r, "one who opens it now")
					before.sizes, r.sizes = small, small // of copies
					for i, from := range []*Store{before, s, r} {
						to := fmt.Sprintf("copy%d", i)
						require.NoError(t, from.Copy(t.Context(), to))
						c, err := open(d, to, Options{}, small)
						require.NoError(t, err, "secret %d, change %d, %d bytes of it: a copy", which, after, amid)
						look(c, "a copy")
						mustClose(t, c)
					}
					return o.Do()
				}}, dir, Options{}, small)
				require.NoError(t, err)
				erasing = 1
				mustErase(t, s, which)
				mustLack(t, before, which)
				mustHold(t, s, n)
				mustClose(t, s)
			}
		}
	}
	t.Logf("%d whole, %d gone", whole, gone)
	assert.True(t, whole >= 100 && gone >= 100, "too few cases")
}

// The log is copied while a blob is erased: between any two reads of the copying the blob is
// marked, overwritten, or both.
func TestErasedWhileCopied(t *testing.T) {
	t.Parallel()
	const n = 9
	whole, gone := 0, 0
	for _, which := range []int{1, n - 1} {
		for read := 1; read < 90; read += stride() {
			d := withSecrets(t, n, 1, n-1)
			s := mustOpen(t, d)
			copying, reads := false, 0
			r, err := openReadOnly(pieces{&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
				if copying && o.Kind == "read" {
					if reads++; reads == read {
						mustErase(t, s, which)
					}
				}
				return o.Do()
			}}}, dir)
			require.NoError(t, err)
			r.sizes, copying = small, true
			require.NoError(t, r.Copy(t.Context(), "copy"))
			copying = false
			c, err := open(d, "copy", Options{}, small)
			require.NoError(t, err, "secret %d, erased before read %d", which, read)
			mustHold(t, c, n)
			if b, err := c.Blob(t.Context(), crypto.Sum(secret(which))); errors.Is(err, proofgraph.ErrNoBlob) {
				gone++
			} else if whole++; err != nil || !bytes.Equal(b, secret(which)) {
				t.Fatalf("secret %d, erased before read %d: %d bytes, %v", which, read, len(b), err)
			}
			mustClose(t, c)
		}
	}
	t.Logf("%d whole, %d gone", whole, gone)
	assert.True(t, whole >= 20/stride() && gone >= 20/stride(), "too few cases")
}

// A blob is erased while it is read: between any two reads of it the record is marked, overwritten,
// or both.
func TestErasedWhileRead(t *testing.T) {
	t.Parallel()
	const n = 9
	whole, gone := 0, 0
	for _, which := range []int{1, n - 1} {
		for read := 1; read < 12; read++ {
			d := withSecrets(t, n, which)
			s := mustOpen(t, d)
			reading, reads := false, 0
			r, err := openReadOnly(pieces{&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
				if reading && o.Kind == "read" {
					if reads++; reads == read {
						mustErase(t, s, which)
					}
				}
				return o.Do()
			}}}, dir)
			require.NoError(t, err)
			reading = true
			if b, err := r.Blob(t.Context(), crypto.Sum(secret(which))); errors.Is(err, proofgraph.ErrNoBlob) {
				gone++
			} else if whole++; err != nil || !bytes.Equal(b, secret(which)) {
				t.Fatalf("secret %d, erased before read %d: %d bytes, %v", which, read, len(b), err)
			}
			mustClose(t, s)
		}
	}
	t.Logf("%d whole, %d gone", whole, gone)
	assert.True(t, whole >= 4 && gone >= 4, "too few cases")
}

// A pieces is a disk on which one read is many: they may see different states of a write.
type pieces struct{ disk.Disk }

type piecesFile struct{ disk.File }

func (p pieces) View(path string) (disk.File, error) {
	f, err := p.Disk.View(path)
	return piecesFile{f}, err
}

func (f piecesFile) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) && err == nil {
		var got int
		got, err = f.File.ReadAt(b[n:min(n+500, len(b))], at+int64(n))
		n += got
	}
	return n, err
}

// Erasures, a writer, readers and auditors run at once, on real files.
func TestEraseBesideEverybody(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	s, err := open(unsynced{}, dir, Options{}, small)
	require.NoError(t, err)
	defer s.Close()
	const n = 60
	var all sync.WaitGroup
	written := make(chan int, n)
	all.Go(func() {
		defer close(written)
		for i := range n {
			b := batch(i)
			b.Blobs = append(b.Blobs, secret(i))
			if err := s.Append(context.Background(), b); err != nil {
				t.Error(err)
				return
			}
			written <- i
		}
	})
	erased := make(chan int, n)
	all.Go(func() {
		defer close(erased)
		for i := range written {
			if i%2 == 0 {
				assert.NoError(t, s.EraseBlob(context.Background(), crypto.Sum(secret(i))))
				erased <- i
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for i := range erased {
				r, err := openReadOnly(unsynced{}, dir)
				if err != nil {
					t.Error(err)
					continue
				}
				for _, x := range []*Store{s, r} {
					b, err := x.Blob(context.Background(), crypto.Sum(secret(i)))
					assert.ErrorIs(t, err, proofgraph.ErrNoBlob, "secret %d: %d bytes", i, len(b))
					if b, err := x.Blob(context.Background(), crypto.Sum(secret(i+1))); err == nil && !bytes.Equal(b,
						secret(i+1)) || err != nil && !errors.Is(err, proofgraph.ErrNoBlob) {
						t.Errorf("secret %d: %d bytes, %v", i+1, len(b), err)
					}
				}
				assert.NoError(t, matches(r, int(r.entries/2)))
				r.Close()
			}
		})
	}
	all.Wait()
	mustHold(t, s, n)
	mustClose(t, s)
	s, err = open(unsynced{}, dir, Options{}, small)
	require.NoError(t, err)
	mustHold(t, s, n)
	for i := range n {
		b, err := s.Blob(t.Context(), crypto.Sum(secret(i)))
		assert.True(t, (i%2 != 0 || errors.Is(err, proofgraph.ErrNoBlob)) && (i%2 != 1 ||
			bytes.Equal(b, secret(i))), "secret %d: %d bytes, %v", i, len(b), err)
	}
}
