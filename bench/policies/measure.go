package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/helmkernel/helm/bench/internal/cpu"
)

// A figure is what one row costs with one set of questions.
type figure struct {
	asked  []question
	times  []float64 // nanoseconds a decision, of each slice
	took   time.Duration
	n      uint64 // decisions in all slices
	allocs uint64
	bytes  uint64
}

// slice asks all questions for about that long, and checks every answer. It measures the
// processor's time, if it is known, so that other processes are not measured.
func (f *figure) slice(length time.Duration, count bool) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, passes := uint64(0), 1
	var took time.Duration
	used, start := cpu.Time(), time.Now()
	for ; took < length; took = time.Since(start) {
		if n > 0 && took < length/100 {
			passes *= 2 // the clock is read seldom
		}
		for range passes {
			for i := range f.asked {
				q := &f.asked[i]
				if got, err := q.decide(); err != nil || got != q.want {
					return q.fault(got, err)
				}
			}
		}
		n += uint64(passes * len(f.asked))
	}
	if used = cpu.Time() - used; used == 0 {
		used = took
	}
	runtime.ReadMemStats(&after)
	if count {
		f.times = append(f.times, float64(used)/float64(n))
		f.took += took
		f.n, f.allocs, f.bytes = f.n+n, f.allocs+after.Mallocs-before.Mallocs,
			f.bytes+after.TotalAlloc-before.TotalAlloc
	}
	return nil
}

// least is the fewest slices of a figure, however long they take.
const least = 3

func (f *figure) done(p plan) bool { return f.took >= p.each && len(f.times) >= least }

// each is the median time of a decision in nanoseconds, and what it allocates.
func (f *figure) each() (ns, allocs, bytes float64) {
	slices.Sort(f.times)
	return f.times[len(f.times)/2], float64(f.allocs) / float64(f.n), float64(f.bytes) / float64(f.n)
}

// A result is one row's.
type result struct {
	name     string
	load     time.Duration
	hot, mix figure
}

// A plan is how long a figure is measured, and how long each of its slices is, unless one pass of
// all questions takes longer.
type plan struct{ each, slice time.Duration }

// forms are the two forms in which an engine gets arguments.
var forms = []struct {
	name string
	of   func(engine, *call) (decide, error)
}{
	{"parsed before", engine.ready},
	{"from JSON text", engine.fromText},
}

// A loaded is a row's engine, and how long it took to make.
type loaded struct {
	row
	engine
	took time.Duration
}

// load makes each row's engine three times, and takes the median time.
func load(copies int) ([]loaded, error) {
	var all []loaded
	for _, r := range rows {
		l, took := loaded{row: r}, make([]time.Duration, 3)
		build := r.written(copies)
		for i := range took {
			runtime.GC()
			start := time.Now()
			var err error
			if l.engine, err = build(); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		l.took = took[1]
		all = append(all, l)
	}
	return all, nil
}

// measure asks every engine every question once, then by turns for as long as the plan says.
func measure(engines []loaded, copies int, of func(engine, *call) (decide, error), p plan) ([]*result, error) {
	calls := generate(copies, min(20*copies, 80))
	hot := []call{hottest(copies)}
	var results []*result
	for _, e := range engines {
		r := &result{name: e.name, load: e.took}
		var err error
		if r.mix.asked, err = questions(calls, copies, of, e.engine); err == nil {
			r.hot.asked, err = questions(hot, copies, of, e.engine)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		results = append(results, r)
	}
	for n, going := 0, true; going; n++ {
		going = false
		for i := range results {
			r := results[(i+n)%len(results)] // no engine always follows the same other engine
			for _, f := range []*figure{&r.hot, &r.mix} {
				if f.done(p) {
					continue
				}
				going = true
				if err := f.slice(p.slice, n > 0); err != nil {
					return nil, fmt.Errorf("%s: %w", r.name, err)
				}
			}
		}
	}
	return results, nil
}
