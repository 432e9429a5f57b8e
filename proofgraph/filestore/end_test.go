package filestore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// Nothing is acknowledged that is written to a file which has lost its name: nobody would find it.
func TestLiveSegmentLosesItsName(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(name, dir string) error{
		"removed": func(name, _ string) error { return os.Remove(name) },
		"moved":   func(name, _ string) error { return os.Rename(name, name+".old") },
		"replaced by a copy": func(name, _ string) error {
			b, err := os.ReadFile(name)
			return errors.Join(err, os.Rename(name, name+".old"), os.WriteFile(name, b, 0o600))
		},
		"a link": func(name, _ string) error {
			return errors.Join(os.Rename(name, name+".old"), os.Symlink(name+".old", name))
		},
		"with its directory": func(_, dir string) error { return os.Rename(dir, dir+".old") },
		"with all of it":     func(_, dir string) error { return os.RemoveAll(dir) },
	} {
		for _, before := range []int{1, 3} { // the next batch goes into the same segment, or begins one
			dir := filepath.Join(t.TempDir(), "log")
			s := mustOpenReal(t, dir)
			grow(t, s, 0, before)
			require.NoError(t, lose(s.last().path, dir), what)
			err := s.Append(t.Context(), batch(before))
			assert.ErrorContains(t, err, "the file was removed, moved or replaced while the log was open", what)
			assert.ErrorContains(t, err, filepath.Join(dir, "00000001.log"), what)
			assert.Equal(t, err, s.Append(t.Context(), batch(before)), "%s: it is not dead", what)
			size, err := s.Size(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 2*before, size, "%s: readers see what was not acknowledged", what)
		}
	}
}

// The file end may lose its name, too. Then the next Open would take the log for one of an earlier
// version, and not see that its last frames are gone. So no checkpoint is acknowledged then, nor
// more frames than a file has zeros for, and Close says so.
func TestLiveEndLosesItsName(t *testing.T) {
	t.Parallel()
	const lost = "the file was removed, moved or replaced while the log was open"
	for what, lose := range map[string]func(name string) error{
		"removed": os.Remove,
		"moved":   func(name string) error { return os.Rename(name, name+".old") },
		"replaced by a copy": func(name string) error {
			b, err := os.ReadFile(name)
			return errors.Join(err, os.Rename(name, name+".old"), os.WriteFile(name, b, 0o600))
		},
		"a link": func(name string) error {
			return errors.Join(os.Rename(name, name+".old"), os.Symlink(name+".old", name))
		},
	} {
		live := func() (*Store, string) {
			s, err := open(disk.OS{}, filepath.Join(t.TempDir(), "log"), Options{}, sizes{ahead: 4 << 10})
			require.NoError(t, err)
			grow(t, s, 0, 2)
			require.NoError(t, lose(s.end.path), what)
			return s, s.end.path
		}
		s, path := live()
		note := proofgraph.Batch{At: 4, Checkpoint: []byte("a checkpoint")}
		err := s.Append(t.Context(), note)
		assert.ErrorContains(t, err, path+": "+lost, what)
		assert.Equal(t, err, s.Append(t.Context(), note), "%s: it is not dead", what)
		kept, err := s.Checkpoint(t.Context())
		assert.True(t, err == nil && string(kept) == "checkpoint 0", "%s: not acknowledged, and read: %s", what, kept)
		assert.NoError(t, s.Close(), "%s: a dead store said so before", what)

		s, path = live()
		for n := 2; err == nil && n < 10; n++ {
			b := batch(n)
			b.Checkpoint = nil
			err = s.Append(t.Context(), b)
		}
		assert.ErrorContains(t, err, path+": "+lost, what)

		s, path = live()
		assert.ErrorContains(t, s.Close(), path+": "+lost, what)
		assert.NoError(t, s.Close(), "%s: again", what)
		assert.Nil(t, s.file, "%s: the lock and the files are free all the same", what)
	}
}

// Which files are in their place costs a frame one question, as ever; that of the file end comes
// with a checkpoint, and with zeros that are written ahead.
func TestNamesAreAskedFor(t *testing.T) {
	t.Parallel()
	asked := map[string]int{}
	d := &disktest.Tap{Disk: disktest.NewRAM(), Hook: func(o *disktest.Op) error {
		if o.Kind == "is" {
			asked[filepath.Base(o.Path)]++
		}
		return o.Do()
	}}
	s, err := open(d, dir, Options{}, sizes{})
	require.NoError(t, err)
	for n := range 100 { // less than one piece of zeros
		b := batch(n)
		b.Checkpoint = nil
		if n == 50 {
			b.Checkpoint = []byte("a checkpoint")
		}
		require.NoError(t, s.Append(t.Context(), b))
	}
	assert.Equal(t, map[string]int{"00000001.log": 100, endName: 1}, asked)
	mustClose(t, s)
}

// Zeros over the last frames, or over all of them, do not pass for a log that never had them. What
// a crash leaves of a frame that was not acknowledged still does.
func TestZerosOverAcknowledgedFrames(t *testing.T) {
	t.Parallel()
	const n = 9
	good := logOf(t, n)
	names := good.segments()
	name := names[len(names)-1]
	require.NoError(t, good.answer(t, n), "or the refusals below would prove nothing")
	for from := headerSize; from < trimmed(good[name]); from += stride() {
		b := bytes.Clone(good[name])
		clear(b[from:])
		mustBeIn(t, good.but(name, b).answer(t, n), name)
	}
	err := good.but(name, append(good[name][:headerSize:headerSize], make([]byte, 4096)...)).answer(t, n)
	assert.ErrorContains(t, err, "they were overwritten")
	assert.ErrorContains(t, err, "offset 72")
	b := bytes.Clone(good[name])
	clear(b[headerSize:])
	s := mustOpen(t, good.but(name, b).but(endName, nil).disk()) // as an earlier version left it: that is not known
	assert.Less(t, s.entries, uint64(2*n))
}

// The file end is of this log, and not of another that was there before. Any flipped bit in it is
// harmless, because it has two records; without both of them it is refused.
func TestFileEnd(t *testing.T) {
	t.Parallel()
	const n = 5
	good, longer, fork := logOf(t, n), logOf(t, n+1), forked(t, n, n-1)
	names := good.segments()
	last := names[len(names)-1]
	require.Equal(t, names, longer.segments())
	for what, c := range map[string]struct {
		f          files
		says, name string
	}{
		"an older copy was put back": {good.but(endName, longer[endName]), "they were overwritten; if an older copy",
			last},
		"frames of another course": {fork.but(endName, good[endName]), "other frames were acknowledged", last},
		"of another log": {forked(t, n, 0).but(endName, good[endName]), "the end of another log",
			endName},
		"empty":                         {good.but(endName, []byte{}), "not the end of a log", endName},
		"zeros":                         {good.but(endName, make([]byte, endBytes)), "not the end of a log", endName},
		"all segments and indexes gone": {files{endName: good[endName]}, "00000001.log: the file is missing", ""},
	} {
		err := c.f.answer(t, n)
		assert.ErrorContains(t, err, c.says, what)
		assert.ErrorContains(t, err, filepath.Join(dir, c.name), what)
	}
	for at := range good[endName] {
		assert.NoError(
			t,
			good.but(endName, flipped(good[endName], at, at%8)).answer(t, n),
			"bit %d of byte %d",
			at%8,
			at,
		)
	}
	d := good.but(endName, nil).disk()
	s := mustOpen(t, d)
	mustClose(t, s)
	assert.Error(
		t,
		filesOf(d).but(last, append(good[last][:headerSize:headerSize], make([]byte, 4096)...)).answer(t, n),
		"a log of an earlier version has no end from now on",
	)
}

// A log inside the directory of a log would be a file there that is none of it. A log that is empty
// counts too.
func TestLogInsideALog(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	outer := filepath.Join(base, "outer")
	s, err := Open(outer, Options{})
	require.NoError(t, err)
	for _, n := range []int{0, 1} {
		grow(t, s, 0, n)
		for _, opener := range []string{outer, filepath.Join(outer, "..", "outer")} {
			_, err := Open(filepath.Join(opener, "inner"), Options{})
			assert.ErrorContains(t, err, "in the directory of another log")
		}
		other, err := Open(filepath.Join(base, "other"), Options{})
		require.NoError(t, err)
		assert.ErrorContains(
			t,
			other.Copy(t.Context(), filepath.Join(outer, "copy")),
			"in the directory of another log",
		)
		require.NoError(t, other.Close())
	}
	require.NoError(t, s.Close())
	s, err = Open(outer, Options{})
	require.NoError(t, err, "the outer log")
	require.NoError(t, s.Close())

	// Other files of these names in the directory above are nobody's log.
	require.NoError(t, os.WriteFile(filepath.Join(base, endName), []byte("of the story"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(base, "00000001.log"), 0o700))
	s, err = Open(outer, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A relative directory is that of the moment of Open.
func TestDirectoryOfTheProcessChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := Open("log", Options{})
	require.NoError(t, err)
	defer s.Close()
	t.Chdir(t.TempDir())
	grow(t, s, 0, 2)
	mustHold(t, s, 2)
}

// A store that cannot write how far it acknowledged is dead.
func TestFileEndCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	s := mustOpenReal(t, dir)
	grow(t, s, 0, 1)
	require.NoError(t, s.end.Close())
	err := s.Append(t.Context(), batch(1))
	require.ErrorIs(t, err, os.ErrClosed)
	assert.True(t, strings.Contains(err.Error(), filepath.Join(dir, endName)), "%v", err)
	assert.Equal(t, err, s.Append(t.Context(), batch(1)), "it is not dead")
}
