//go:build unix

package witness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

func openDir(t testing.TB, path string) *dir {
	t.Helper()
	s, err := DirState(path)
	require.NoError(t, err)
	return s.(*dir)
}

func numbered(t testing.TB, n int) []byte {
	t.Helper()
	return []byte(logOfSize(t, n, never).note(t, seedKey(t, 1)))
}

func TestDirState(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	_, err := DirState(filepath.Join(parent, "mistyped"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	file := filepath.Join(parent, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = DirState(file)
	require.Error(t, err)

	d := openDir(t, parent)
	note, err := d.Latest(t.Context(), origin)
	require.True(t, note == nil && err == nil)
	require.ErrorIs(t, d.Swap(t.Context(), origin, numbered(t, 1), numbered(t, 2)), fs.ErrNotExist)
	require.NoError(t, d.Swap(t.Context(), origin, nil, numbered(t, 1)))
	require.ErrorIs(t, d.Swap(t.Context(), origin, nil, numbered(t, 2)), witness.ErrChanged)
	require.ErrorIs(t, d.Swap(t.Context(), origin, numbered(t, 3), numbered(t, 2)), witness.ErrChanged)
	require.ErrorIs(t, d.Swap(t.Context(), origin, []byte{}, numbered(t, 2)), witness.ErrChanged)
	require.Error(t, d.Swap(t.Context(), origin, numbered(t, 1), []byte("no checkpoint")))
	require.Error(t, d.Swap(t.Context(), "another", nil, numbered(t, 1)))
	require.NoError(t, d.Swap(t.Context(), origin, numbered(t, 1), numbered(t, 2)))
	note, err = openDir(t, parent).Latest(t.Context(), origin)
	require.NoError(t, err)
	require.Equal(t, string(numbered(t, 2)), string(note))
	info, err := os.Stat(d.file(logOf(origin)))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Latest(ended, origin)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, d.Swap(ended, origin, numbered(t, 2), numbered(t, 3)), context.Canceled)

	// What is no regular file is refused, and stays.
	for name, spoil := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink(file, path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		d := openDir(t, t.TempDir())
		require.NoError(t, spoil(d.file(logOf(origin))), name)
		_, err := d.Latest(t.Context(), origin)
		require.ErrorContains(t, err, "not a regular file", name)
		require.Error(t, d.Swap(t.Context(), origin, numbered(t, 1), numbered(t, 2)), name)
		require.ErrorIs(t, d.Swap(t.Context(), origin, nil, numbered(t, 2)), witness.ErrChanged, name)
	}
}

// TestDirModel: random swaps over several logs, by two states over one directory, are those of a
// map.
func TestDirModel(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	states := []*dir{openDir(t, path), openDir(t, path)}
	var notes [4][]byte
	for i := range notes {
		notes[i] = numbered(t, i+1)
	}
	r := rand.New(rand.NewPCG(1, 18))
	model := map[string][]byte{}
	swaps := 0
	for range 400 {
		d := states[r.IntN(2)]
		name := fmt.Sprint("log", r.IntN(3))
		of := func(note []byte) []byte { return bytes.Replace(note, []byte(origin), []byte(name), 1) }
		was, now := of(notes[r.IntN(4)]), of(notes[r.IntN(4)])
		if r.IntN(2) == 0 {
			was = model[name]
		}
		err := d.Swap(t.Context(), name, was, now)
		switch there, ok := model[name]; {
		case ok && bytes.Equal(there, was) || !ok && was == nil:
			require.NoError(t, err)
			model[name] = now
			swaps++
		case ok:
			require.ErrorIs(t, err, witness.ErrChanged)
		default:
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		note, err := states[r.IntN(2)].Latest(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, string(model[name]), string(note))
	}
	require.Greater(t, swaps, 50)
	mustBeAlone(t, path, 3)
}

// mustBeAlone requires that the directory holds so many notes and nothing else.
func mustBeAlone(t testing.TB, path string, n int) {
	t.Helper()
	files, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Len(t, files, n)
	for _, f := range files {
		require.True(t, strings.HasSuffix(f.Name(), ".checkpoint"), f.Name())
	}
}

// steps are those of a swap, as it goes through them.
func steps(t testing.TB, was []byte) []string {
	t.Helper()
	d := openDir(t, t.TempDir())
	if was != nil {
		require.NoError(t, d.Swap(context.Background(), origin, nil, was))
	}
	var names []string
	d.step = func(name string, _ *os.File) error { names = append(names, name); return nil }
	require.NoError(t, d.Swap(context.Background(), origin, was, numbered(t, 9)))
	want := []string{"write", "sync", "close", "place", "sync of the directory"}
	if was != nil {
		want = append([]string{"lock"}, want...)
	}
	require.Equal(t, want, names)
	return names
}

// TestFailingSteps: whichever step of a swap fails, the note is the old one or the new one, whole;
// nothing is left next to it; no line is returned; and the witness goes on.
func TestFailingSteps(t *testing.T) {
	t.Parallel()
	for _, from := range []int{0, 3} {
		var was []byte
		if from > 0 {
			was = numbered(t, from)
		}
		for _, name := range steps(t, was) {
			w := newWorld(t)
			d := w.witness.State.(*dir)
			if from > 0 {
				w.mustCosign(0, logOfSize(t, from, never))
			}
			d.step = func(step string, h *os.File) error {
				if step != name {
					return nil
				}
				if step == "write" {
					_, err := h.Write([]byte("half a n"))
					require.NoError(t, err)
				}
				return errDisk
			}
			a := w.post(logOfSize(t, 9, never).request(t, from, w.logKey))
			require.Equal(t, 500, a.status, name)
			d.step = nil
			note, err := d.Latest(t.Context(), origin)
			require.NoError(t, err)
			size := uint64(0)
			if note != nil {
				c, _, err := proofgraph.ParseCheckpoint(note)
				require.NoError(t, err)
				size = c.Size
			}
			placed := name == "sync of the directory"
			require.Equal(t, map[bool]uint64{false: uint64(from), true: 9}[placed], size, name)
			n := 1
			if size == 0 {
				n = 0
			}
			mustBeAlone(t, w.path, n)
			fork := logOfSize(t, 9, from)
			if placed {
				require.Equal(t, 422, w.post(fork.request(t, 9, w.logKey)).status, "two roots of one size")
			}
			w.mustCosign(int(size), logOfSize(t, 9, never))
		}
	}
}

// TestPublishedIsDurable: a note that was renamed into place, and of which the directory is not
// synced, is not published before it is.
func TestPublishedIsDurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.witness.State.(*dir)
	synced := 0
	d.step = func(step string, _ *os.File) error {
		if step == "sync of the directory" || step == "settle" {
			if synced++; synced <= 2 {
				return errDisk
			}
		}
		return nil
	}
	path := "/" + logOf(origin).String() + "/checkpoint"
	require.Equal(t, 500, w.post(logOfSize(t, 3, never).request(t, 0, w.logKey)).status)
	require.Equal(t, 500, w.get(path).status)
	require.Equal(t, 200, w.get(path).status)
	require.Equal(t, 3, synced)
	require.Equal(t, 200, w.get(path).status)
	require.Equal(t, 3, synced, "synced once")
}

// TestReplacedMeanwhile: a file that another process replaces after it was opened, and before it is
// locked, is not the file of the log any more.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d, other := openDir(t, path), openDir(t, path)
	require.NoError(t, d.Swap(t.Context(), origin, nil, numbered(t, 1)))
	locks := 0
	d.step = func(name string, _ *os.File) error {
		if name != "lock" {
			return nil
		}
		if locks++; locks > 1 {
			return nil
		}
		return other.Swap(t.Context(), origin, numbered(t, 1), numbered(t, 2))
	}
	require.ErrorIs(t, d.Swap(t.Context(), origin, numbered(t, 1), numbered(t, 3)), witness.ErrChanged)
	require.Equal(t, 2, locks)
	note, err := d.Latest(t.Context(), origin)
	require.NoError(t, err)
	require.Equal(t, string(numbered(t, 2)), string(note))
}

// orders are for another process that is a witness as well.
type orders struct {
	Path  string
	Die   string // the step before which it is killed
	Old   int
	Size  int
	Fork  int
	Turns int // how often it asks for whatever extends the latest
}

// stepAnswer is the step after those of a swap: the line is returned.
const stepAnswer = "answer"

// A swapped is a state that calls a function when a note is swapped in.
type swapped struct {
	*dir
	then func()
}

func (s swapped) Swap(ctx context.Context, origin string, was, now []byte) error {
	err := s.dir.Swap(ctx, origin, was, now)
	if err == nil {
		s.then()
	}
	return err
}

const ordersVariable = "HELM_WITNESS_ORDERS"

func (o orders) command(t testing.TB) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	c := exec.Command(self, "-test.run=^TestWitnessChild$", "-test.count=1", "-test.timeout=2m", "-test.v")
	c.Env = append(os.Environ(), ordersVariable+"="+string(text))
	return c
}

// TestWitnessChild is that process, which TestKilled and TestTwoProcesses start.
func TestWitnessChild(t *testing.T) {
	text, ok := os.LookupEnv(ordersVariable)
	if !ok {
		t.Skip("this is the process that TestKilled and TestTwoProcesses start")
	}
	var o orders
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	d := openDir(t, o.Path)
	key := seedKey(t, 1)
	w := newWitness(t, key, d)
	add := func(old int, l treeLog) error {
		q, err := parseRequest([]byte(l.request(t, old, key)))
		require.NoError(t, err)
		lines, err := w.Add(t.Context(), q.old, q.proof, q.note)
		if err == nil {
			fmt.Printf("given %d %s", l.size, lines)
		}
		return err
	}
	if o.Turns == 0 {
		die := func() {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			t.Fatal("still alive", err)
		}
		d.step = func(name string, h *os.File) error {
			if name != o.Die {
				return nil
			}
			if name == "write" {
				h.Write([]byte("half a n"))
			}
			die()
			return nil
		}
		if o.Die == stepAnswer {
			w.State = swapped{d, die}
		}
		t.Fatal(add(o.Old, logOfSize(t, o.Size, o.Fork)))
	}
	old := 0
	for range o.Turns {
		err := add(old, logOfSize(t, old+1, never))
		var conflict *witness.Conflict
		if errors.As(err, &conflict) {
			old = int(conflict.Size)
			continue
		}
		require.NoError(t, err)
		old++
	}
}

// TestKilled: a witness is killed before each step of a swap, and between the swap and its answer.
// The note is the old one or the new one, whole; the line was not made known; and the next witness
// goes on, and refuses another history of what is there.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, from := range []int{0, 3} {
		var was []byte
		if from > 0 {
			was = numbered(t, from)
		}
		for _, name := range append(steps(t, was), stepAnswer) {
			w := newWorld(t)
			if from > 0 {
				w.mustCosign(0, logOfSize(t, from, never))
			}
			out, err := orders{Path: w.path, Die: name, Old: from, Size: 9, Fork: never}.command(t).CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit) && !exit.Exited(), "%s: not killed: %v\n%s", name, err, out)
			require.NotContains(t, string(out), "given", name)
			w.open()
			a := w.post(logOfSize(t, 9, never).request(t, from, w.logKey))
			if name == "sync of the directory" || name == stepAnswer {
				require.Equal(t, answer{409, "text/x.tlog.size", "9\n"}, a, name)
				require.Equal(t, 422, w.post(logOfSize(t, 9, from).request(t, 9, w.logKey)).status, name)
				w.mustCosign(9, logOfSize(t, 9, never))
			} else {
				require.Equal(t, 200, a.status, "%s: %s", name, a.body)
			}
			w.mustCosign(9, logOfSize(t, 11, never))
		}
	}
}

// TestTwoProcesses: processes that are one witness over one directory give one line for a size.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var all sync.WaitGroup
	outs := make([]string, 3)
	for i := range outs {
		c := orders{Path: path, Turns: 15}.command(t)
		all.Go(func() {
			out, err := c.CombinedOutput()
			assert.NoError(t, err, "%s", out)
			outs[i] = string(out)
		})
	}
	all.Wait()
	given := map[string]int{}
	for _, out := range outs {
		for _, line := range strings.Split(out, "\n") {
			if rest, ok := strings.CutPrefix(line, "given "); ok {
				size, _, _ := strings.Cut(rest, " ")
				given[size]++
			}
		}
	}
	note, err := openDir(t, path).Latest(t.Context(), origin)
	require.NoError(t, err)
	c, _, err := proofgraph.ParseCheckpoint(note)
	require.NoError(t, err)
	require.Len(t, given, int(c.Size))
	for size, n := range given {
		require.Equal(t, 1, n, size)
	}
	mustBeAlone(t, path, 1)
}
