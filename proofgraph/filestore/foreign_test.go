package filestore

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// forked returns the log of n batches, the k-th of which is another.
func forked(t *testing.T, n, k int) files {
	t.Helper()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	for i := range n {
		b := batch(i)
		if i == k {
			b.Entries[0][0] = 'E'
		}
		require.NoError(t, s.Append(t.Context(), b))
	}
	mustClose(t, s)
	return filesOf(d)
}

func TestWhatIsNotTheLog(t *testing.T) {
	t.Parallel()
	const n = 12
	good, other, fork := logOf(t, n), forked(t, n, 0), forked(t, n, 2)
	names := good.segments()
	require.True(t, len(names) == 3 && slices.Equal(other.segments(), names) && slices.Equal(fork.segments(), names),
		"segments %q", names)
	if err := good.answer(t, n); err != nil { // or the refusals below would prove nothing
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		says, name string
		files      files
	}{
		"a file of somebody":       {"not a file of a log", "notes.txt", good.but("notes.txt", []byte("buy milk"))},
		"a number of another form": {"not a file of a log", "1.log", good.but("1.log", good[names[0]])},
		"number 0":                 {"not a file of a log", "00000000.log", good.but("00000000.log", good[names[0]])},
		"a kind of another case":   {"not a file of a log", "00000004.LOG", good.but("00000004.LOG", good[names[0]])},
		"a file under a log's name": {"offset 0: not a segment", names[1],
			good.but(names[1], []byte("PNG, or whatever"))},
		"an empty file": {"offset 0: not a segment", names[1], good.but(names[1], []byte{})},
		"a later format": {"offset 0: a segment of format 3", names[0],
			good.but(names[0], flipped(good[names[0]], 16, 1))},
		"the first is missing":     {"missing", names[0], good.but(names[0], nil)},
		"one in the middle":        {"missing", names[1], good.but(names[1], nil)},
		"the last":                 {"missing", names[2], good.but(names[2], nil)},
		"the last, and no index":   {"missing", names[2], good.bare().but(names[2], nil)},
		"all, but for an index":    {"missing", names[0], files{"00000001.index": good["00000001.index"]}},
		"one under another's name": {"offset 0: segment 1 of a log", names[1], good.but(names[1], good[names[0]])},
		"the first of another log": {"offset 0: a segment of another log", names[1],
			good.but(names[0], other[names[0]])},
		"one of another log": {"offset 0: a segment of another log", names[1],
			good.but(names[1], other[names[1]])},
		"the last of another log": {"offset 0: a segment of another log", names[2],
			good.but(names[2], other[names[2]])},
		"the first of another way": {"offset 0: a segment that does not follow", names[1],
			good.bare().but(names[0], fork[names[0]])},
		"the last of another way": {"offset 0: a segment that does not follow", names[2],
			good.but(names[2], fork[names[2]])},
		"frames of another segment": {"offset 72", names[2],
			good.but(names[2], slices.Concat(good[names[2]][:headerSize], good[names[0]][headerSize:]))},
		"frames of another log": {"offset 72", names[2],
			good.but(names[2], slices.Concat(good[names[2]][:headerSize], other[names[2]][headerSize:]))},
		"frames of another, indexed": {"offset", names[1], good.but(names[1],
			slices.Concat(good[names[1]][:headerSize], other[names[1]][headerSize:]))},
	} {
		err := c.files.answer(t, n)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.says) && strings.Contains(err.Error(),
			filepath.Join(dir, c.name)), "%s: %v", what, err)
	}
}

// Indexes are derived: if they are missing, damaged, or of another file, they are written again.
func TestIndexesAreRebuilt(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 12
	good := logOf(t, n)
	indexes := slices.DeleteFunc(slices.Sorted(maps.Keys(good)),
		func(n string) bool { return filepath.Ext(n) != indexKind })
	require.Len(t, indexes, 2, "indexes")
	for i, name := range indexes {
		whole := good[name]
		for what, f := range map[string]files{
			"missing":      good.but(name, nil),
			"empty":        good.but(name, []byte{}),
			"longer":       good.but(name, append(bytes.Clone(whole), 0)),
			"another's":    good.but(name, good[indexes[1-i]]),
			"a fork's":     good.but(name, forked(t, n, 2)[name]),
			"not finished": good.but(name, nil).but(name+newKind, whole[:10]),
		} {
			mustRebuild(t, f, good, what)
		}
		for at := 0; at < len(whole); at += stride() {
			mustRebuild(t, good.but(name, flipped(whole, at, at%8)), good, "flipped")
			mustRebuild(t, good.but(name, whole[:at:at]), good, "cut")
		}
	}
	mustRebuild(t, good.bare(), good, "none")
}

func mustRebuild(t *testing.T, f, good files, what string) {
	t.Helper()
	d := f.disk()
	r, err := openReadOnly(d, dir)
	require.NoError(t, err, "%s: to read", what)
	mustHold(t, r, 12)
	s := mustOpen(t, d)
	mustHold(t, s, 12)
	mustClose(t, s)
	assert.True(t, maps.EqualFunc(filesOf(d), good, bytes.Equal), "%s: the files are not as if nothing had happened",
		what)
}

// A disk without room for an index is no reason to refuse a log.
func TestIndexesAreNotNeeded(t *testing.T) {
	t.Parallel()
	d := &indexless{RAM: logOf(t, 12).bare().disk()}
	s := mustOpen(t, d)
	mustHold(t, s, 12)
	grow(t, s, 12, 24)
	mustHold(t, s, 24)
	assert.Equal(t, len(filesOf(d.RAM)), len(filesOf(d.RAM).bare()), "there is an index")
}

// An indexless disk creates no indexes.
type indexless struct{ *disktest.RAM }

func (d *indexless) Create(path string) (disk.File, error) {
	if strings.Contains(path, indexKind) {
		return nil, proofgraph.ErrConflict // any error
	}
	return d.RAM.Create(path)
}

// No log is begun in a directory with other files in it.
func TestNoLogAmongOtherFiles(t *testing.T) {
	t.Parallel()
	f := files{"thesis.tex": []byte("…")}
	d := f.disk()
	_, err := open(d, dir, Options{}, sizes{})
	assert.True(t, err != nil && strings.Contains(err.Error(), filepath.Join(dir, "thesis.tex")), "%v", err)
	assert.True(t, len(d.Names) == 1, "%d files are left", len(d.Names))
}

// If a directory is moved away while its log is open, and another log, or an older copy, is put in
// its place, nothing of that is overwritten.
func TestNoSegmentTakesAnothersPlace(t *testing.T) {
	t.Parallel()
	const n = 12
	for what, there := range map[string]files{"another log, as long": forked(t, n, 0),
		"another log, shorter": forked(t, 2, 0), "a copy": logOf(t, n), "nothing": {}} {
		d := disktest.NewRAM()
		s := mustOpen(t, d)
		grow(t, s, 0, 2)
		moved := there.disk()
		d.Names, d.Moves = moved.Names, nil
		var err error
		for i := 2; err == nil && i < n; i++ {
			err = s.Append(t.Context(), batch(i))
		}
		assert.True(t, err != nil && strings.Contains(err.Error(), "filestore: append: ") &&
			strings.Contains(err.Error(), filepath.Join(dir, "0000000")), "%s: %v", what, err)
		mustClose(t, s)
		assert.True(t, maps.EqualFunc(filesOf(d), there, bytes.Equal), "%s: it was changed", what)
	}
}
