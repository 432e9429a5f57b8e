package filestore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// stateNumber returns one of several states, of more than one write.
func stateNumber(n byte) []byte { return bytes.Repeat([]byte{'a' + n}, statePiece+int(n)) }

// The power goes after each change that a SaveState makes. The state is then the one before or the
// new one, and that once it was acknowledged; the log has lost nothing.
func TestStateSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	run := func(d disk.Disk, after int) (acknowledged, changes int) {
		off := false
		tap := &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
			if off {
				return disktest.ErrPower
			}
			err := o.Do()
			off = o.Changes && o.N == after
			return err
		}}
		s, err := open(tap, dir, Options{}, small)
		require.NoError(t, err)
		defer s.Close()
		for n := range byte(3) {
			if s.SaveState(t.Context(), stateNumber(n)) != nil {
				break
			}
			acknowledged++
		}
		return acknowledged, tap.Changes
	}
	full := logOf(t, 4)
	begin := func() int { // changes of Open alone
		tap := &disktest.Tap{Disk: full.disk()}
		s, err := open(tap, dir, Options{}, small)
		require.NoError(t, err)
		n := tap.Changes
		mustClose(t, s)
		return n
	}()
	_, changes := run(full.disk(), 0)
	random := rand.New(rand.NewPCG(1, 1))
	seen := map[int]bool{}
	for after := begin + 1; after <= changes; after++ {
		for _, how := range disktest.Survivals {
			d := full.disk()
			acknowledged, _ := run(d, after)
			left := d.Cut(how, random)
			s := mustOpen(t, left)
			state, err := s.State(t.Context())
			require.NoError(t, err, "after change %d, %s is left", after, how)
			was := acknowledged > 0 && bytes.Equal(state, stateNumber(byte(acknowledged-1))) ||
				acknowledged == 0 && state == nil
			is := acknowledged < 3 && bytes.Equal(state, stateNumber(byte(acknowledged)))
			require.True(t, was || is, "after change %d, %s is left: %d states were acknowledged", after, how,
				acknowledged)
			seen[acknowledged] = seen[acknowledged] || is
			mustHold(t, s, 4)
			require.NoError(t, s.SaveState(t.Context(), stateNumber(7)))
			mustClose(t, s)
			for name := range filesOf(left) {
				require.NotEqual(t, newKind, filepath.Ext(name))
			}
		}
	}
	assert.True(t, seen[0] && seen[1] && seen[2], "no cut left a state that was not acknowledged: %v", seen)
}

// A state that is damaged is an error that names the file, and of nothing else. The next one that
// is saved is there.
func TestStateIsDamaged(t *testing.T) {
	t.Parallel()
	d := logOf(t, 4).disk()
	s := mustOpen(t, d)
	state := []byte("what a kernel remembers")
	require.NoError(t, s.SaveState(t.Context(), state))
	mustClose(t, s)
	full := filesOf(d)
	b := full[stateName]
	var bad [][]byte
	for i := range b {
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << (i % 8)
		bad = append(bad, flipped, b[:i])
	}
	bad = append(bad, append(bytes.Clone(b), 0), bytes.Repeat([]byte{0}, len(b)))
	for i, b := range bad {
		files := full.but(stateName, b)
		require.NoError(t, files.answer(t, 4), "change %d", i)
		d := files.disk()
		s := mustOpen(t, d)
		got, err := s.State(t.Context())
		require.ErrorIs(t, err, errState, "change %d", i)
		require.ErrorContains(t, err, filepath.Join(dir, stateName))
		require.Nil(t, got)
		grow(t, s, 4, 5)
		require.NoError(t, s.SaveState(t.Context(), state))
		got, err = s.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, state, got)
		mustHold(t, s, 5)
		mustClose(t, s)
	}
}

// An error of the disk is one of SaveState alone: the state is the one before, the file that was
// begun is removed, and the store goes on.
func TestStateOnADiskThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no room")
	for _, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		fails := false
		ram := disktest.NewRAM()
		s := mustOpen(t, &disktest.Tap{Disk: ram, Hook: func(o *disktest.Op) error {
			if fails && o.Kind == kind {
				return broken
			}
			return o.Do()
		}})
		grow(t, s, 0, 2)
		require.NoError(t, s.SaveState(t.Context(), stateNumber(0)))
		fails = true
		require.ErrorIs(t, s.SaveState(t.Context(), stateNumber(1)), broken, kind)
		fails = false
		state, err := s.State(t.Context())
		require.NoError(t, err)
		if kind == "syncdir" { // it has its name
			require.True(t, bytes.Equal(state, stateNumber(1)))
		} else {
			require.True(t, bytes.Equal(state, stateNumber(0)), kind)
		}
		require.NotContains(t, filesOf(ram), stateName+newKind)
		grow(t, s, 2, 4)
		require.NoError(t, s.SaveState(t.Context(), stateNumber(2)))
		mustHold(t, s, 4)
		mustClose(t, s)
	}
}

// A store that is read only has the state and saves none; nor does one whose directory was moved
// away, or a copy have it.
func TestStateIsTheWriters(t *testing.T) {
	t.Parallel()
	d := logOf(t, 4).disk()
	s := mustOpen(t, d)
	require.NoError(t, s.SaveState(t.Context(), stateNumber(0)))
	viewer, err := openReadOnly(d, dir)
	require.NoError(t, err)
	state, err := viewer.State(t.Context())
	require.NoError(t, err)
	require.True(t, bytes.Equal(state, stateNumber(0)))
	require.ErrorIs(t, viewer.SaveState(t.Context(), stateNumber(1)), errReadOnly)
	require.NoError(t, s.SaveState(t.Context(), stateNumber(1)))
	state, err = viewer.State(t.Context()) // the file is the new one
	require.NoError(t, err)
	require.True(t, bytes.Equal(state, stateNumber(1)))
	mustClose(t, viewer)

	require.NoError(t, s.Copy(t.Context(), "copy"))
	twin, err := open(d, "copy", Options{}, small)
	require.NoError(t, err)
	state, err = twin.State(t.Context())
	require.NoError(t, err)
	require.Nil(t, state)
	mustClose(t, twin)

	require.NoError(t, d.Rename(filepath.Join(dir, endName), "elsewhere"))
	require.ErrorContains(t, s.SaveState(t.Context(), stateNumber(2)), "moved or replaced")
	state, err = s.State(t.Context())
	require.NoError(t, err)
	require.True(t, bytes.Equal(state, stateNumber(1)))
}

// Close ends a SaveState that is going on, and nothing is written after it.
func TestStateWhileItIsClosed(t *testing.T) {
	t.Parallel()
	ram := disktest.NewRAM()
	closing := make(chan struct{})
	closed := make(chan error)
	writes := 0
	var s *Store
	s = mustOpen(t, &disktest.Tap{Disk: ram, Hook: func(o *disktest.Op) error {
		if o.Is("write", stateName+newKind) {
			if writes++; writes == 2 {
				go func() {
					close(closing)
					closed <- s.Close()
				}()
				<-closing
				for !s.closing.Load() {
					runtime.Gosched()
				}
			}
		}
		return o.Do()
	}})
	grow(t, s, 0, 2)
	require.ErrorIs(t, s.SaveState(t.Context(), bytes.Repeat([]byte{1}, 8*statePiece)), errClosed)
	require.NoError(t, <-closed)
	require.ErrorIs(t, s.SaveState(t.Context(), []byte("late")), errClosed)
	_, err := s.State(t.Context())
	require.ErrorIs(t, err, errClosed)
	require.LessOrEqual(t, writes, 3)
	s = mustOpen(t, ram)
	state, err := s.State(t.Context())
	require.NoError(t, err)
	require.Nil(t, state)
	mustHold(t, s, 2)
}
