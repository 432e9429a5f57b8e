package filestore

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 4, 12} {
		d := logOf(t, n).disk()
		d.Dirs[dir] = true
		for _, opener := range []func() (*Store, error){
			func() (*Store, error) { return openReadOnly(d, dir) },
			func() (*Store, error) { return open(d, dir, Options{}, small) },
		} {
			s, err := opener()
			require.NoError(t, err)
			require.NoError(t, s.Copy(t.Context(), "copy"))
			if err := s.Copy(t.Context(), "copy"); n > 0 && (err == nil ||
				!strings.Contains(err.Error(), "copy: there are files in it already")) {
				t.Error("over another copy:", err)
			}
			mustClose(t, s)
			err = s.Copy(t.Context(), "other")
			assert.False(t, n > 0 && !errors.Is(err, errClosed), "%v", err)
			c, err := open(d, "copy", Options{}, small)
			require.NoError(t, err)
			mustHold(t, c, n)
			grow(t, c, n, n+5)
			mustHold(t, c, n+5)
			mustClose(t, c)
			for name := range d.Names {
				if filepath.Dir(name) == "copy" {
					delete(d.Names, name)
				}
			}
		}
	}
}

// A copy of a log that grows meanwhile is the log as it was at some moment in between.
func TestCopyWhileAWriterRuns(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	s, err := open(unsynced{}, filepath.Join(base, "log"), Options{}, small)
	require.NoError(t, err)
	defer s.Close()
	var writer sync.WaitGroup
	written := make(chan struct{})
	const copies, each = 10, 10
	grow(t, s, 0, each)
	writer.Go(func() {
		for i := 1; i <= copies; i++ {
			written <- struct{}{} // and goes on while it is copied
			grow(t, s, i*each, (i+1)*each)
		}
	})
	for i := range copies {
		<-written
		r, err := openReadOnly(unsynced{}, filepath.Join(base, "log"))
		require.NoError(t, err)
		from, least := r, int(r.entries/2)
		if i%2 == 0 { // a reader sees a batch before the writer acknowledges it
			from, least = s, (i+1)*each
		}
		to := filepath.Join(base, "copy", string(rune('a'+i)))
		err = (unsynced{}).Mkdir(filepath.Dir(to))
		require.False(t, err != nil && i == 0, "%v", err)
		require.NoError(t, from.Copy(t.Context(), to))
		c, err := open(unsynced{}, to, Options{}, small)
		require.NoError(t, err)
		if n := int(c.entries / 2); n < least {
			t.Errorf("%d batches, there were %d", n, least)
		} else {
			mustHold(t, c, n)
		}
		mustClose(t, c)
	}
	writer.Wait()
}

// A copy within the log's own directory would be a foreign file in it: the log could not be opened
// any more.
func TestCopyIntoTheLog(t *testing.T) {
	t.Parallel()
	d := logOf(t, 3).disk()
	s := mustOpen(t, d)
	for _, to := range []string{dir + "/copy", dir + "/../" + dir + "/copy/", dir} {
		err := s.Copy(t.Context(), to)
		assert.True(t, err != nil && strings.Contains(err.Error(), "name another"), "%s: %v", to, err)
	}
	assert.True(t, len(d.Dirs) == 1, "%d directories", len(d.Dirs))
}

// A copy that was not finished does not pass for the log.
func TestHalfACopy(t *testing.T) {
	t.Parallel()
	d := logOf(t, 12).disk()
	s, err := openReadOnly(d, dir)
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Copy(over, "copy"), context.Canceled)
	require.NoError(t, s.Copy(t.Context(), "whole"))
	part := d.Names["whole/00000001.log"]
	half := disktest.NewRAM()
	half.Dirs[dir] = true
	half.Names[dir+"/00000001.log"] = &disktest.Inode{Data: bytes.Clone(part.Data), Disk: bytes.Clone(part.Data)}
	_, err = open(half, dir, Options{}, small)
	assert.True(t, err != nil && strings.Contains(err.Error(), "00000002.log: the file is missing"), "%v", err)
}
