//go:build unix

package kept

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

var errDisk = errors.New("the disk is gone")

// steps are those of write, as it goes through them.
func steps(t *testing.T) []string {
	t.Helper()
	a, b, _, _, _ := histories(t)
	f := begun(t, a)
	var names []string
	f.step = func(name string, _ *os.File) error { names = append(names, name); return nil }
	r, err := b.verify(t.Context(), f)
	require.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
	require.True(t, len(names) >= 7 && names[0] == "lock" && slices.Contains(names, "place"), "only %q", names)
	return names
}

// TestFailingSteps: whichever step fails, the note is the old one or the new one, whole; nothing is
// left next to it; and no success is reported.
func TestFailingSteps(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	names := steps(t)
	for i, name := range names {
		half := func(step string, h *os.File) error {
			if step != name {
				return nil
			}
			if step == "write" {
				h.Write(b.note[:len(b.note)/2])
			}
			return errDisk
		}
		f := begun(t, a)
		was := f.print(t)
		f.step = half
		r, err := b.verify(t.Context(), f)
		assert.True(t, errors.Is(err, errDisk) && r.Level == evidence.Invalid && !r.Success(evidence.Intact),
			"%s: %v, %v", name, r, err)
		if i <= slices.Index(names, "place") {
			assert.Equal(t, was, f.print(t), "%s: was %s\nis", name, was)
		} else {
			f.mustHold(t, b, 0o600)
		}
		f.mustBeAlone(t, 1)
		f.step = nil
		r, err = b.verify(t.Context(), f)
		assert.True(t, err == nil && r.Success(evidence.Logged), "%s: and then %v, %v", name, r, err)
		f.mustHold(t, b, 0o600)

		if name == "lock" { // nothing is there to be locked when it begins
			continue
		}
		f = file{path: filepath.Join(t.TempDir(), "log.checkpoint"), step: half}
		n := 0
		if i > slices.Index(names, "place") {
			n = 1
		}
		assert.ErrorIs(t, f.begin(verified(t, a)), errDisk, "%s: begun", name)
		f.mustBeAlone(t, n)
	}
}

// orders are for another process that is an auditor as well.
type orders struct {
	Path  string
	Packs []string // files, with the trust state and the origin of all tests
	Seed  uint64
	Turns int
	Die   string // the step before which it is killed
	Begin bool
}

const ordersVariable = "HELM_KEPT_ORDERS"

func (o orders) command(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	c := exec.Command(self, "-test.run=^TestAuditorChild$", "-test.count=1", "-test.timeout=2m")
	c.Env = append(os.Environ(), ordersVariable+"="+string(text))
	return c
}

// TestAuditorChild is that process, which TestKilled and TestTwoAuditors start.
func TestAuditorChild(t *testing.T) {
	text, ok := os.LookupEnv(ordersVariable)
	if !ok {
		t.Skip("this is the process that TestKilled and TestTwoAuditors start")
	}
	var o orders
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	var known []pack
	known = append(known, packs(t, origin, "none", 0)...)
	f := file{path: o.Path, step: func(name string, h *os.File) error {
		if name != o.Die {
			return nil
		}
		if name == "write" {
			h.Write([]byte("half a n"))
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		t.Fatal("still alive", err)
		return nil
	}}
	var ps []pack
	for _, name := range o.Packs {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		ps = append(ps, pack{bytes: b, o: known[0].o})
	}
	if o.Begin {
		r, err := evidence.Verify(t.Context(), bytes.NewReader(ps[0].bytes), int64(len(ps[0].bytes)), ps[0].o)
		t.Fatal(err, f.begin(r))
	}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	for range o.Turns {
		p := ps[random.IntN(len(ps))]
		r, err := p.verify(t.Context(), f)
		require.True(t, err == nil && (r.History == evidence.Fresh || r.History == evidence.Stale), "%v, %v", r, err)
	}
}

func saved(t *testing.T, ps ...pack) (names []string) {
	t.Helper()
	for i, p := range ps {
		names = append(names, filepath.Join(t.TempDir(), "pack"+string(rune('0'+i))))
		require.NoError(t, os.WriteFile(names[i], p.bytes, 0o600))
	}
	return names
}

// TestKilled: an auditor is killed before each step. The note is the old one or the new one, whole,
// and the next auditor goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	a, b, c, _, _ := histories(t)
	files := saved(t, b)
	killed := 0
	names := steps(t)
	for i, step := range names {
		f := begun(t, a)
		out, err := orders{Path: f.path, Packs: files, Turns: 1, Die: step}.command(t).CombinedOutput()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit) && !exit.Exited(), "%s: not killed: %v\n%s", step, err, out)
		killed++
		now, err := os.ReadFile(f.path)
		want := a.note
		if i > slices.Index(names, "place") {
			want = b.note
		}
		assert.True(t, err == nil && bytes.Equal(now, want), "%s: %q, %v", step, now, err)
		r, err := c.verify(t.Context(), f)
		assert.True(t, err == nil && r.Success(evidence.Logged), "%s: and then %v, %v", step, r, err)

		if step == "lock" {
			continue
		}
		path := filepath.Join(t.TempDir(), "log.checkpoint")
		out, err = (orders{Path: path, Packs: files, Die: step,
			Begin: true}).command(t).CombinedOutput()
		require.True(t, errors.As(err, &exit) && !exit.Exited(), "%s: not killed: %v\n%s", step, err, out)
		now, err = os.ReadFile(path)
		there := i > slices.Index(names, "place")
		assert.True(t, there == (err == nil) && (!there || bytes.Equal(now, b.note)), "%s: begun: %q, %v", step, now,
			err)
	}
	assert.True(t, killed >= 7, "only %d were killed", killed)
}

// TestTwoAuditors: processes, and goroutines in each of them, verify larger and smaller packs
// against one file at once. A reader in between sees a whole note, and never a smaller
// one than before.
func TestTwoAuditors(t *testing.T) {
	t.Parallel()
	a, b, c, _, _ := histories(t)
	ps := append([]pack{a, b, c}, packs(t, origin, "no.tool", 2, 3, 4, 1, 1, 1, 2, 2, 5)[3:]...)
	files := saved(t, ps...)
	rounds := 6
	if race.Enabled || testing.Short() {
		rounds = 2
	}
	moves := 0
	for round := range rounds {
		f := begun(t, a)
		var children sync.WaitGroup
		for i := range 2 {
			cmd := orders{Path: f.path, Packs: files, Seed: uint64(2*round + i), Turns: 12}.command(t)
			children.Go(func() {
				out, err := cmd.CombinedOutput()
				assert.NoError(t, err, "%v\n%s", err, out)
			})
		}
		for i := range 2 {
			children.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				for range 12 {
					r, err := ps[random.IntN(len(ps))].verify(t.Context(), f)
					assert.True(t, err == nil && (r.History == evidence.Fresh || r.History == evidence.Stale), "%v, %v",
						r, err)
				}
			})
		}
		done := make(chan struct{})
		go func() { children.Wait(); close(done) }()
		for at, over := uint64(0), false; !over; {
			select {
			case <-done:
				over = true // and look once more
			default:
			}
			_, size, err := f.read()
			require.True(t, err == nil && size >= at, "%d after %d, %v", size, at, err)
			if size > at {
				at, moves = size, moves+1
			}
		}
		r, err := ps[len(ps)-1].verify(t.Context(), f)
		assert.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
		f.mustHold(t, ps[len(ps)-1], 0o600)
	}
	assert.True(t, moves > rounds, "only %d moves were seen", moves) // how many depends on the scheduler
}
