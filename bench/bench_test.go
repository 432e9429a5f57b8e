package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/bench/peers"
)

// Every row of every table, for a few calls: each is complete, and what it stored was found again.
// No time is asserted.
func TestTables(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, t.TempDir(), plan{slices: 1, slice: time.Hour, most: 2}))
	h := newTestHost(t)
	works, err := h.works()
	require.NoError(t, err)
	lines := strings.Split(out.String(), "\n")
	for _, w := range works {
		rows := rowsOf(h, w)
		if len(rows) < 14 {
			t.Errorf("%s has %d rows", w.name, len(rows))
		}
		i := 0
		for i < len(lines) && !strings.HasPrefix(lines[i], "### "+w.name+":") {
			i++
		}
		for lines = lines[min(i, len(lines)):]; len(lines) > 0 && !strings.HasPrefix(lines[0],
			"|--"); lines = lines[1:] {
		}
		for _, r := range rows[2:] {
			lines = lines[min(1, len(lines)):]
			require.NotEqual(t, 0, len(lines), "%s: no row %s", w.name, r.name)
			cells := strings.Split(strings.Trim(lines[0], "| "), " | ")
			if len(cells) != 11 || cells[0] != r.name {
				t.Fatalf("%s: %q is not the row %s", w.name, lines[0], r.name)
			}
			for n, cell := range cells[1:] {
				optional := n >= 6 // may be unknown on this system, or in so short a time
				if cell == "" || strings.ContainsAny(cell, "NI") ||
					cell == "–" && (runtime.GOOS == "linux" && !optional) {
					t.Errorf("%s: %s: cell %d is %q", w.name, r.name, n+1, cell)
				}
			}
		}
	}
}

func newTestHost(t *testing.T) *host {
	t.Helper()
	h, err := newHost()
	require.NoError(t, err)
	return h
}

// liar reports that it stored everything, and did not.
type liar struct {
	peers.Store
	how func(it *peers.Item) (put bool)
}

func (l *liar) Put(items ...peers.Item) error {
	for _, it := range items {
		if l.how(&it) {
			if err := l.Store.Put(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// A row counts only if everything is there: stores that lose, change or repeat are found out.
func TestLiars(t *testing.T) {
	h := newTestHost(t)
	works, err := h.works()
	require.NoError(t, err)
	tests := map[string]struct {
		how  func(it *peers.Item) bool
		want string // "": nothing is wrong
	}{
		"honest":  {func(it *peers.Item) bool { return true }, ""},
		"loses":   {func(it *peers.Item) bool { return it.Key != 3 }, "acknowledged"},
		"nothing": {func(it *peers.Item) bool { return false }, "acknowledged"},
		"changes": {func(it *peers.Item) bool { it.Entry = append([]byte("x"), it.Entry[1:]...); return true },
			"other bytes"},
		"no input": {func(it *peers.Item) bool { it.Inputs = nil; return true }, "other bytes"},
		"repeats":  {func(it *peers.Item) bool { it.Key = 0; return true }, "twice"},
		"invents":  {func(it *peers.Item) bool { it.Key += 1000; return true }, "not written"},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			results, err := measure(t.TempDir(), []row{{name, 1, func(path string) (subject, error) {
				s, err := peers.Zeroed(path)
				return &peer{work: works[2], host: h, store: &liar{s, x.how}}, err
			}}}, plan{slices: 1, slice: time.Hour, most: 4})
			switch {
			case x.want == "" && (err != nil || len(results) != 1 || results[0].all != 8):
				t.Errorf("%v, %v", results, err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) || results != nil):
				t.Errorf("%v, want a word of %q", err, x.want)
			}
		})
	}
}

// A failing put fails the run, also if another caller wrote it.
func TestFailures(t *testing.T) {
	h := newTestHost(t)
	works, err := h.works()
	require.NoError(t, err)
	full := errors.New("no space left on device")
	s, err := peers.Zeroed(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	puts := 0
	failing := &peers.Group{Store: failer{s, func() error {
		if puts++; puts > 3 {
			return full
		}
		return nil
	}}}
	_, err = measure(t.TempDir(),
		[]row{{"full", many,
			func(string) (subject, error) { return &peer{work: works[0], host: h, store: failing}, nil }}},
		plan{slices: 1, slice: time.Hour, most: 100})
	assert.ErrorIs(t, err, full)
}

type failer struct {
	peers.Store
	fail func() error
}

func (f failer) Put(items ...peers.Item) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Put(items...)
}
