package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/helmkernel/helm/bench/internal/cpu"
)

// A subject is the store or kernel that a row measures.
type subject interface {
	do(caller int) error // one call; safe for concurrent use
	check() error        // opens its files again, and compares them with everything that was acknowledged
}

// A row is one line of a table.
type row struct {
	name    string
	callers int
	open    func(path string) (subject, error) // path is the row's own, in a directory of its own, and does not exist
}

// A result holds the measurements of a row.
type result struct {
	row
	latencies []time.Duration // of each call, sorted
	wall, cpu time.Duration
	disk      int64 // bytes taken on disk, at the end
	all       int   // calls, including those before the measuring began
}

func (r *result) median() time.Duration { return r.latencies[len(r.latencies)/2] }

// rate is calls per second.
func (r *result) rate() float64 { return float64(len(r.latencies)) / r.wall.Seconds() }

// A plan is how long a row is measured: in how many slices, which take turns with those of all
// other rows, how long each is, and of at most how many calls a caller.
type plan struct {
	slices int
	slice  time.Duration
	most   int
}

// measure runs rows by turns, so that other uses of the disk and the processor meet them all, then
// checks everything that each wrote.
func measure(dir string, rows []row, p plan) ([]*result, error) {
	var results []*result
	var subjects []subject
	for i, r := range rows {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		s, err := r.open(filepath.Join(own, "log"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		results, subjects = append(results, &result{row: r}), append(subjects, s)
	}
	for n := range p.slices + 1 {
		for i := range rows {
			i = (i + n) % len(rows) // no row always follows the same other row
			if err := results[i].run(subjects[i], p, n > 0); err != nil {
				return nil, fmt.Errorf("%s, %d callers: %w", rows[i].name, rows[i].callers, err)
			}
		}
	}
	for i, r := range results {
		if err := subjects[i].check(); err != nil {
			return nil, fmt.Errorf("%s, %d callers: %w", r.name, r.callers, err)
		}
		var err error
		if r.disk, err = usage(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return nil, err
		}
		slices.Sort(r.latencies)
	}
	return results, nil
}

// run is one slice. The first of a row warms it and is not counted.
func (r *result) run(s subject, p plan, count bool) error {
	runtime.GC() // left by other rows
	took := make([][]time.Duration, r.callers)
	failed := make([]error, r.callers)
	used, start := cpu.Time(), time.Now()
	var all sync.WaitGroup
	for c := range r.callers {
		all.Go(func() {
			for n, t0 := 0, time.Now(); n < p.most && (n == 0 || t0.Sub(start) < p.slice); n++ {
				if failed[c] = s.do(c); failed[c] != nil {
					return
				}
				t1 := time.Now()
				took[c] = append(took[c], t1.Sub(t0))
				t0 = t1
			}
		})
	}
	all.Wait()
	wall := time.Since(start)
	used = cpu.Time() - used
	for c := range r.callers {
		if failed[c] != nil {
			return failed[c]
		}
		r.all += len(took[c])
		if count {
			r.latencies = append(r.latencies, took[c]...)
		}
	}
	if count {
		r.wall, r.cpu = r.wall+wall, r.cpu+used
	}
	return nil
}

// usage returns the bytes that the files of a directory take.
func usage(dir string) (n int64, err error) {
	return n, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += blocks(info)
		}
		return err
	})
}
