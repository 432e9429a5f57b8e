//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/bench/internal/calls"
	"github.com/helmkernel/helm/bench/internal/cpu"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

const burns = "HELM_BENCH_TEST_BURNS"

// The processes of rows are this program.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(burns) != "":
		for cpu.Time() < 200*time.Millisecond {
		}
		os.Stdout.WriteString("burnt")
		io.Copy(io.Discard, os.Stdin)
	case isChild():
		os.Exit(child())
	default:
		os.Exit(m.Run())
	}
}

// short is a plan of a few calls.
func short() plan { return plan{turns: 1, each: time.Hour, most: 2} }

func needServer(t *testing.T) {
	t.Helper()
	if _, err := pgtest.Bin(); errors.Is(err, pgtest.ErrAbsent) {
		t.Skip(err)
	}
}

// Every row of every table, for a few calls: each is complete, and its log is what the calls were.
// No time is asserted.
func TestTables(t *testing.T) {
	needServer(t)
	t.Parallel()
	number := regexp.MustCompile(`^\d+(\.\d+)?( \(\d+–\d+\))?$`)
	for name, change := range map[string]func(*plan){
		"plain": func(*plan) {},
		"delay": func(p *plan) { p.delay = time.Millisecond },
		"disk":  func(p *plan) { p.disk = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := short()
			change(&p)
			var out bytes.Buffer
			require.NoError(t, p.run(&out))
			for _, r := range p.rows() {
				cells := cellsOf(t, out.String(), r.name)
				for i, cell := range cells[1:] {
					empty := !r.shared && (i >= 4 && i <= 6 || i >= 8)
					assert.Equal(t, empty, cell == "–", "%s: cell %d is %q", r.name, i, cell)
					assert.True(t, empty || number.MatchString(cell), "%s: cell %d is %q", r.name, i, cell)
				}
				switch {
				case r.alone:
					assert.Equal(t, "100", cells[9], "turns")
				case r.shared && !r.budget:
					assert.Equal(t, "0", cells[9], "turns of those who write to sessions of their own")
				}
				if r.name == sharedOne && p.delay > 0 {
					assert.Equal(t, "2.00", cells[10], "round trips of one caller")
				}
			}
			for _, x := range p.bounds() {
				cells := cellsOf(t, out.String(), x.what)
				assert.Regexp(t, `^\d+(\.\d+)?$`, cells[2])
				assert.Regexp(t, `^(ok|NOT MET)$`, cells[3])
			}
			if p.disk {
				assert.Regexp(t, `: [1-9]\d* writes of 1024 KB a second`, out.String())
			}
		})
	}
}

// cellsOf returns the cells of a row.
func cellsOf(t *testing.T, table, name string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+name+" |") {
			return strings.Split(strings.Trim(line, "| \n"), " | ")
		}
	}
	t.Fatalf("no row %s in %s", name, table)
	return nil
}

// A run whose log lacks a call, or one of whose processes ends, has an error and no table.
func TestWrongRuns(t *testing.T) {
	needServer(t)
	t.Parallel()
	p := short()
	b, err := newBench(p)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.close()) }()
	require.NoError(t, b.measure())
	require.NoError(t, b.check())
	for _, l := range b.logs {
		l.calls++
		assert.ErrorContains(t, b.check(), l.name)
		l.calls--
	}
	four := b.logs[len(b.logs)-1]
	require.NoError(t, b.server.Exec(t.Context(), b.database,
		"UPDATE "+four.schema+".session SET next = next + 1 WHERE name = 'bench-7'"))
	assert.ErrorContains(t, b.check(), four.name)

	lost, err := newBench(p)
	require.NoError(t, err)
	defer func() { require.NoError(t, lost.close()) }()
	require.NoError(t, lost.logs[3].run.list[0].command.Process.Kill())
	assert.ErrorContains(t, lost.measure(), lost.logs[3].name)
}

// What a plan cannot measure is refused.
func TestPlans(t *testing.T) {
	for _, p := range []plan{{each: 1}, {turns: 1}, {turns: 1, each: 1, delay: -1}} {
		require.Error(t, p.run(io.Discard))
	}
}

// The bounds are compared with medians, and say what does not hold.
func TestBounds(t *testing.T) {
	b := &bench{results: results{}}
	for _, r := range b.rows() {
		for _, ms := range []time.Duration{9, 1, 2} { // of one call of 2 ms
			took := make([]time.Duration, 100)
			for i := range took {
				took[i] = ms * time.Millisecond
			}
			x := &turn{took: took, wall: 100 * ms * time.Millisecond, kernel: ms * time.Millisecond, tables: 550_100}
			if r.name == sharedOne {
				took[50] = 5 * ms * time.Millisecond
			}
			b.results[r.name] = append(b.results[r.name], x)
		}
	}
	var s strings.Builder
	b.boundsTable(&s)
	lines := strings.Split(s.String(), "\n")
	assert.Equal(t, "| p50, one caller over filestore's | ≤ 4 | 5.00 | NOT MET |", lines[3])
	assert.Equal(t, "| calls/s, 4 × 64 over filestore's 1 × 64 | ≥ 0.45 | 1.00 | ok |", lines[4])
	assert.Equal(t, "| table bytes of a call, 4 × 64 | ≤ 5500 | 5501 | NOT MET |", lines[10])
	assert.Equal(t, "| log bytes of a call, 4 × 64 | ≤ 6500 | 0 | ok |", lines[11])
	least, greatest := b.results[four].spread(rate)
	assert.Equal(t, [3]float64{1000.0 / 9, 500, 1000}, [3]float64{least, b.results[four].median(rate), greatest})
}

// Each turn has each row once, and no row follows another one more than every second time.
func TestRowAt(t *testing.T) {
	t.Parallel()
	const rows, turns = 6, 12
	var follows [rows][rows]int
	for n := range turns {
		var seen [rows]int
		for place := range rows {
			row := rowAt(place, n, rows)
			seen[row]++
			if place > 0 {
				follows[row][rowAt(place-1, n, rows)]++
			}
		}
		assert.Equal(t, [rows]int{1, 1, 1, 1, 1, 1}, seen, n)
	}
	for row := range follows {
		assert.LessOrEqual(t, slices.Max(follows[row][:]), turns/2, row)
	}
}

// The server's time has that of children that run and of those that have ended.
func TestServerTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system has no /proc")
	}
	before, err := serverTime(os.Getpid())
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program)
	c.Env = append(os.Environ(), burns+"=1")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = io.ReadFull(out, make([]byte, len("burnt")))
	require.NoError(t, err)
	runs, err := serverTime(os.Getpid())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, runs-before, 180*time.Millisecond)
	require.NoError(t, in.Close())
	require.NoError(t, c.Wait())
	ended, err := serverTime(os.Getpid())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, ended-before, 180*time.Millisecond)
	_, err = serverTime(1 << 30)
	require.Error(t, err)
}

// A turned store is one in memory whose writers' guesses are refused.
type turned struct {
	*sharedmem.Store
	count *appends
}

func (s turned) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := s.Store.Join(ctx, origin)
	return counting{turning{w}, s.count}, err
}

// A log whose guesses are refused takes turns for its entries, and has all of them.
func TestTurning(t *testing.T) {
	ctx := t.Context()
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	host, err := calls.New(key, 1, false)
	require.NoError(t, err)
	var count appends
	s := turned{sharedmem.New(), &count}
	k, err := host.Kernel(s)
	require.NoError(t, err)
	began, err := s.Size(ctx)
	require.NoError(t, err)
	count = appends{}
	for range 100 {
		_, err := host.Guard(k, 0, "session", true)
		require.NoError(t, err)
	}
	assert.Equal(t, appends{Turns: 200, Wrong: 9, Entries: 200}, count, "after 1, 2, 4 … 64 turns, and 64 again")
	_, err = k.Checkpoint(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, count.Guesses, "a checkpoint is no entry")
	require.NoError(t, k.Close())
	size, err := s.Size(ctx)
	require.NoError(t, err)
	assert.Equal(t, began+200, size)
}
