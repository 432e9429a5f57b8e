package filestore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// small makes a log of few batches roll.
var small = sizes{segment: 6 << 10, ahead: 4 << 10}

// stride is 1, and more with -short: a test that tries each of many places then tries one in so
// many.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// batch returns the n-th batch of a log: two entries and a blob, sometimes a checkpoint. It begins
// at entry 2n.
func batch(n int) proofgraph.Batch {
	b := proofgraph.Batch{
		At:      uint64(2 * n),
		Entries: []contracts.Entry{fmt.Appendf(nil, "entry %d: %0400d", 2*n, n), fmt.Appendf(nil, "entry %d", 2*n+1)},
		Blobs:   [][]byte{fmt.Appendf(nil, "blob %d: %s", n, bytes.Repeat([]byte{byte(n)}, 700))},
	}
	if n%3 == 0 {
		b.Checkpoint = fmt.Appendf(nil, "checkpoint %d", n)
	}
	return b
}

// grow appends batches [from, to).
func grow(t testing.TB, s *Store, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		require.NoError(t, s.Append(context.Background(), batch(n)), "batch %d", n)
	}
}

// matches reads everything and compares it with the first n batches. It returns the first
// difference, or error.
func matches(s *Store, n int) error { return matchesBut(s, n, nil) }

// stubOf returns a stub of an entry.
func stubOf(e contracts.Entry) contracts.Entry {
	return (&contracts.Stub{
		Entry: e.Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"},
	}).Append(nil)
}

// matchesBut is matches of a log of which some batches are condensed.
func matchesBut(s *Store, n int, condensed []int) error {
	ctx := context.Background()
	if size, err := s.Size(ctx); err != nil || size != uint64(2*n) {
		return fmt.Errorf("%d entries, want %d: %w", size, 2*n, err)
	}
	i, note := 0, []byte(nil)
	for e, err := range s.Entries(ctx, 0, uint64(2*n)) {
		if err != nil {
			return err
		}
		want := batch(i / 2).Entries[i%2]
		if slices.Contains(condensed, i/2) {
			want = stubOf(want)
		}
		if !bytes.Equal(e, want) {
			return fmt.Errorf("entry %d is another", i)
		}
		i++
	}
	if i != 2*n {
		return fmt.Errorf("%d entries given, want %d", i, 2*n)
	}
	for i := range n {
		b := batch(i)
		if b.Checkpoint != nil {
			note = b.Checkpoint
		}
		if slices.Contains(condensed, i) {
			if _, err := s.Blob(ctx, crypto.Sum(b.Blobs[0])); err != proofgraph.ErrNoBlob {
				return fmt.Errorf("blob of batch %d, which is condensed: %w", i, err)
			}
		} else if blob, err := s.Blob(ctx, crypto.Sum(b.Blobs[0])); err != nil || !bytes.Equal(blob, b.Blobs[0]) {
			return fmt.Errorf("blob of batch %d: %w", i, err)
		}
	}
	if c, err := s.Checkpoint(ctx); err != nil || !bytes.Equal(c, note) {
		return fmt.Errorf("checkpoint %q, want %q: %w", c, note, err)
	}
	return nil
}

const dir = "log" // on a disk in memory

func mustOpen(t testing.TB, d disk.Disk) *Store {
	t.Helper()
	s, err := open(d, dir, Options{}, small)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func mustHold(t testing.TB, s *Store, n int) {
	t.Helper()
	require.NoError(t, matches(s, n))
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	require.NoError(t, s.Close())
}

// logOf returns the files of a log of n batches.
func logOf(t testing.TB, n int) files {
	t.Helper()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, n)
	mustClose(t, s)
	return filesOf(d)
}

// files are the contents of a directory, without the lock.
type files map[string][]byte

func filesOf(r *disktest.RAM) files {
	f := files{}
	for name, i := range r.Names {
		if filepath.Base(name) != lockName {
			f[filepath.Base(name)] = bytes.Clone(i.Data)
		}
	}
	return f
}

// disk returns a disk with these files on stable storage.
func (f files) disk() *disktest.RAM {
	d := disktest.NewRAM()
	d.Dirs[dir] = true
	for name, b := range f {
		d.Names[filepath.Join(dir, name)] = &disktest.Inode{Data: bytes.Clone(b), Disk: bytes.Clone(b)}
	}
	d.Kept = maps.Clone(d.Names)
	return d
}

// but returns f with one file changed, or without it if b is nil.
func (f files) but(name string, b []byte) files {
	f = maps.Clone(f)
	if f[name] = b; b == nil {
		delete(f, name)
	}
	return f
}

// bare returns f without indexes.
func (f files) bare() files {
	f = maps.Clone(f)
	maps.DeleteFunc(f, func(name string, _ []byte) bool { return filepath.Ext(name) == indexKind })
	return f
}

func (f files) segments() []string {
	names := slices.Sorted(maps.Keys(f))
	return slices.DeleteFunc(names, func(n string) bool { return filepath.Ext(n) != logKind })
}

// trimmed returns the length of b without the zeros at its end.
func trimmed(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }
