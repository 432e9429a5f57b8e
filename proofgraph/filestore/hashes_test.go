package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A reference is the hashes of a log as package tlog has them stored.
type reference []tlog.Hash

func (r reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		list[i] = r[x]
	}
	return list, nil
}

// named is an entry of a log of that name.
func named(log string, n uint64) contracts.Entry { return fmt.Appendf(nil, "%s: entry %d", log, n) }

func referenceOf(t testing.TB, log string, size uint64) reference {
	t.Helper()
	var r reference
	for n := range size {
		list, err := tlog.StoredHashes(int64(n), named(log, n), r)
		require.NoError(t, err)
		r = append(r, list...)
	}
	return r
}

// noteOf is a checkpoint of the first size entries. Nobody has signed it.
func noteOf(t testing.TB, r reference, size uint64) []byte {
	t.Helper()
	root, err := tlog.TreeHash(int64(size), r)
	require.NoError(t, err)
	line := crypto.AppendBase64(nil, make([]byte, 68))
	return fmt.Appendf(nil, "example.test/log\n%d\n%s\n\n— example.test/log %s\n", size, root, line)
}

// lengthen appends entries up to a size, in batches of up to 40, and a checkpoint of them.
func lengthen(t testing.TB, s *Store, log string, to uint64, note []byte) {
	t.Helper()
	for s.entries < to || note != nil {
		b := proofgraph.Batch{At: s.entries}
		for n := s.entries; n < min(to, s.entries+40); n++ {
			b.Entries = append(b.Entries, named(log, n))
		}
		if s.entries == to {
			b.Checkpoint, note = note, nil
		}
		require.NoError(t, s.Append(t.Context(), b))
	}
}

// allHashes returns all hashes that the store has.
func allHashes(s *Store) (reference, error) {
	indexes := make([]int64, tlog.StoredHashIndex(0, int64(s.entries)))
	for i := range indexes {
		indexes[i] = int64(i)
	}
	return s.ReadHashes(indexes)
}

func mustHash(t testing.TB, s *Store, want reference, what string) {
	t.Helper()
	got, err := allHashes(s)
	require.NoError(t, err, what)
	require.Equal(t, want[:len(got)], got, what)
}

// Of random logs, at random moments, every hash is right: to the process that writes, to one that
// only reads, and after the log is opened again. No hash takes more than 40 bytes an entry.
func TestHashesOfRandomLogs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	random := rand.New(rand.NewPCG(7, 8))
	const most = 5000
	want := referenceOf(t, "a", most)
	for range 30 / stride() {
		d := disktest.NewRAM()
		s := mustOpen(t, d)
		for s.entries < most {
			to := min(most, s.entries+1+random.Uint64N(1<<random.IntN(12)))
			var note []byte
			if random.IntN(2) == 0 {
				note = noteOf(t, want, to)
			}
			lengthen(t, s, "a", to, note)
			switch random.IntN(5) {
			case 0:
				mustHash(t, s, want, "while it is written")
			case 1:
				r, err := openReadOnly(d, dir)
				require.NoError(t, err)
				mustHash(t, r, want, "to read")
				mustClose(t, r)
			case 2:
				mustClose(t, s)
				s = mustOpen(t, d)
			}
		}
		mustHash(t, s, want, "in the end")
		mustClose(t, s)
		size := len(filesOf(d)[hashesName])
		assert.True(t, size > 32*most && size <= 40*most, "%d bytes for %d entries", size, most)
	}
}

// A tile is written when it is complete, at its place, and no reading changes it.
func TestTilesAreInPlace(t *testing.T) {
	t.Parallel()
	for tiles := range uint64(5000) {
		require.Equal(t, tiles, leafTilesOf(tilesOf(tiles)))
		if tiles > 0 {
			require.Equal(t, tiles-1, leafTilesOf(tilesOf(tiles)-1))
		}
	}
	want := referenceOf(t, "a", 300)
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	lengthen(t, s, "a", 300, nil)
	b := filesOf(d)[hashesName]
	require.Len(t, b, (300/16+300/256)*tileBytes)
	for i, x := range []tlog.Tile{{H: 4, L: 0, N: 0, W: 16}, {H: 4, L: 0, N: 15, W: 16}, {H: 4, L: 1, N: 0, W: 16},
		{H: 4, L: 0, N: 16, W: 16}} {
		tile, err := tlog.ReadTileData(x, want)
		require.NoError(t, err)
		at := []int{0, 15, 16, 17}[i] * tileBytes
		assert.Equal(t, tile, b[at:at+tileBytes], "%s", x.Path())
	}
	_, err := s.ReadHashes([]int64{tlog.StoredHashIndex(0, 300)})
	assert.ErrorContains(t, err, "of a log of 300 entries")
	_, err = s.ReadHashes([]int64{-1})
	assert.ErrorContains(t, err, "hash -1")
	mustClose(t, s)
	_, err = s.ReadHashes([]int64{0})
	assert.ErrorIs(t, err, errClosed)
}

// hashed returns the files of a log of so many entries, and of a checkpoint.
func hashed(t *testing.T, log string, size, mark uint64) files {
	t.Helper()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	lengthen(t, s, log, mark, noteOf(t, referenceOf(t, log, mark), mark))
	lengthen(t, s, log, size, nil)
	mustClose(t, s)
	return filesOf(d)
}

// Whatever is in the file, no hash that is read is wrong, and the file is right after that.
func TestHashesAreMadeAgain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const size, mark = 1000, 700
	want := referenceOf(t, "a", size)
	good := hashed(t, "a", size, mark)
	whole := good[hashesName]
	require.Equal(t, good[hashesName], hashed(t, "a", size, mark-100)[hashesName])
	try := func(b []byte, what string) {
		t.Helper()
		d := good.but(hashesName, b).disk()
		r, err := openReadOnly(d, dir)
		require.NoError(t, err, what)
		mustHash(t, r, want, what+": to read")
		mustClose(t, r)
		require.Equal(t, b, filesOf(d)[hashesName], what+": reading changed it")
		s := mustOpen(t, d)
		mustHash(t, s, want, what)
		lengthen(t, s, "a", size+100, nil)
		mustClose(t, s)
		got := filesOf(d)[hashesName]
		require.True(t, bytes.HasPrefix(got, whole), "%s: the file is not right", what)
	}
	try(nil, "missing")
	try([]byte{}, "empty")
	try(hashed(t, "b", size, mark)[hashesName], "of another log")
	try(make([]byte, len(whole)), "zeros")
	for at := 0; at < len(whole); at += 127 * stride() {
		try(flipped(whole, at, at%8), fmt.Sprintf("byte %d flipped", at))
		try(whole[:at:at], fmt.Sprintf("cut at %d", at))
		lost := bytes.Clone(whole)
		clear(lost[at : at+min(512, len(lost)-at)])
		try(lost, fmt.Sprintf("zeros at %d", at))
	}
}

// Tiles that change while the log is open are found when they are read, and written again. They are
// found by their parents alone, so each byte is tried that a read needs.
func TestTilesThatChangeAreNotReturned(t *testing.T) {
	t.Parallel()
	const size = 1000
	want := referenceOf(t, "a", size)
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	lengthen(t, s, "a", size, nil)
	whole := bytes.Clone(filesOf(d)[hashesName])
	b := d.Names[filepath.Join(dir, hashesName)].Data
	for at := 0; at < len(b); at += 181 {
		b[at] ^= 1
		mustHash(t, s, want, "flipped")
		b = d.Names[filepath.Join(dir, hashesName)].Data
		require.Equal(t, whole, b, "byte %d was not mended", at)
	}
}

// A checkpoint whose root is another than that of the entries is not for the store to judge: the
// hashes are those of the entries.
func TestHashesOfAWrongCheckpoint(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	lengthen(t, s, "a", 100, noteOf(t, referenceOf(t, "b", 100), 100))
	mustClose(t, s)
	s = mustOpen(t, d)
	mustHash(t, s, referenceOf(t, "a", 100), "")
}

// An old log, whose hashes nobody has made, costs an Append nothing. They are made when they are
// asked for, or are few.
func TestHashesThatNobodyMade(t *testing.T) {
	t.Parallel()
	const size = 3 * maxLag
	want := referenceOf(t, "a", size+100)
	f := hashed(t, "a", size, size)
	d := f.but(hashesName, nil).disk()
	s := mustOpen(t, d)
	lengthen(t, s, "a", size+50, noteOf(t, want, size+50))
	require.Empty(t, filesOf(d)[hashesName])
	mustHash(t, s, want, "asked for")
	mustClose(t, s)
	whole := filesOf(d)[hashesName]
	require.Len(t, whole, int(tilesOf((size+50)/16))*tileBytes)

	d = f.but(hashesName, f[hashesName][:len(f[hashesName])/4*3]).disk() // as if a crash had lost the end
	s = mustOpen(t, d)
	lengthen(t, s, "a", size+50, nil)
	mustClose(t, s)
	require.Equal(t, whole, filesOf(d)[hashesName], "what is missing is not much")
}

// A hashless disk has no room for hashes.
type hashless struct {
	*disktest.RAM
	creates bool
}

func (d *hashless) Create(path string) (disk.File, error) {
	if !strings.HasSuffix(path, hashesName) {
		return d.RAM.Create(path)
	}
	if !d.creates {
		return nil, errors.New("the disk is full")
	}
	f, err := d.RAM.Create(path)
	return fullFile{f}, err
}

type fullFile struct{ disk.File }

func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	n, _ := f.File.WriteAt(b[:len(b)/2], at)
	return n, errors.New("the disk is full")
}

func TestHashesOfAFullDisk(t *testing.T) {
	t.Parallel()
	want := referenceOf(t, "a", 2000)
	for _, creates := range []bool{false, true} {
		d := &hashless{disktest.NewRAM(), creates}
		s := mustOpen(t, d)
		lengthen(t, s, "a", 1000, noteOf(t, want, 1000))
		mustHash(t, s, want, "full")
		lengthen(t, s, "a", 2000, nil)
		mustHash(t, s, want, "full")
		mustClose(t, s)
		s = mustOpen(t, d.RAM)
		mustHash(t, s, want, "there is room again")
		mustClose(t, s)
		require.Len(t, filesOf(d.RAM)[hashesName], int(tilesOf(2000/16))*tileBytes)
	}
}

// What cannot be written is held in memory only as far as it is not much.
func TestHashesThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("600,000 entries")
	}
	d := disktest.NewRAM()
	s, err := open(d, dir, Options{}, sizes{})
	require.NoError(t, err)
	b := proofgraph.Batch{Entries: make([]contracts.Entry, 100_000)}
	for i := range b.Entries {
		b.Entries[i] = []byte{'e'}
	}
	for range 6 {
		require.NoError(t, s.Append(t.Context(), b))
		b.At += 100_000
	}
	mustClose(t, s)
	delete(d.Names, filepath.Join(dir, hashesName))
	r, err := openReadOnly(d, dir)
	require.NoError(t, err)
	_, err = r.ReadHashes([]int64{0})
	require.ErrorIs(t, err, errLag)
	mustClose(t, r)
	s = mustOpen(t, &hashless{d, false})
	_, err = s.ReadHashes([]int64{0})
	require.NoError(t, err)
	for range 6 {
		require.NoError(t, s.Append(t.Context(), b))
		b.At += 100_000
	}
	require.False(t, s.hashes.known)
	require.Empty(t, s.hashes.tail)
	_, err = s.ReadHashes([]int64{0})
	require.ErrorIs(t, err, errUnkept)
}

// Hashes are read while entries are appended.
func TestHashesWhileItIsWritten(t *testing.T) {
	t.Parallel()
	const size = 3000
	want := referenceOf(t, "a", size)
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	var readers sync.WaitGroup
	ended := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for n := int64(1); ; n = n*7%1000 + 1 {
				select {
				case <-ended:
					return
				default:
				}
				size, err := s.Size(t.Context())
				if err != nil || size == 0 {
					continue
				}
				x := n % tlog.StoredHashIndex(0, int64(size))
				if got, err := s.ReadHashes([]int64{x}); err != nil || got[0] != want[x] {
					t.Errorf("hash %d of %d entries: %v", x, size, err)
					return
				}
			}
		})
	}
	for n := uint64(0); n < size; n += 100 {
		lengthen(t, s, "a", n+100, noteOf(t, want, n+100))
	}
	close(ended)
	readers.Wait()
	mustHash(t, s, want, "in the end")
	mustClose(t, s)
}

// A backup has no hashes; they are made when it is opened.
func TestHashesOfACopy(t *testing.T) {
	t.Parallel()
	want := referenceOf(t, "a", 1000)
	d := hashed(t, "a", 1000, 900).disk()
	r, err := openReadOnly(d, dir)
	require.NoError(t, err)
	require.NoError(t, r.Copy(t.Context(), "copy"))
	require.NoError(t, r.Check(t.Context()))
	s, err := open(d, "copy", Options{}, small)
	require.NoError(t, err)
	mustHash(t, s, want, "a copy")
	mustClose(t, s)
	require.NotNil(t, d.Names[filepath.Join("copy", hashesName)])
}
