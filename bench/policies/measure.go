package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A figure is what one row costs with one set of questions.
type figure struct {
	asked  []question
	times  []float64 // nanoseconds a decision, of each slice
	n      uint64    // decisions that were counted
	allocs uint64
	bytes  uint64
}

// slice asks in turn for so long, and checks every answer.
func (f *figure) slice(length time.Duration, count bool) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i, n, stretch := 0, uint64(0), 1
	var took time.Duration
	for start := time.Now(); took < length; took = time.Since(start) {
		for range stretch {
			q := &f.asked[i]
			if got, err := q.decide(); err != nil || got != q.want {
				return q.ask()
			}
			if i++; i == len(f.asked) {
				i = 0
			}
		}
		if n += uint64(stretch); took < length/100 && stretch < 64 { // the clock is read seldom
			stretch *= 2
		}
	}
	runtime.ReadMemStats(&after)
	if count {
		f.times = append(f.times, float64(took)/float64(n))
		f.n, f.allocs, f.bytes = f.n+n, f.allocs+after.Mallocs-before.Mallocs, f.bytes+after.TotalAlloc-before.TotalAlloc
	}
	return nil
}

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

// A plan says how long a figure is measured: in so many slices, by turns with all others, each so long.
type plan struct {
	slices int
	slice  time.Duration
}

// forms are the two ways that arguments come to an engine.
var forms = []struct {
	name string
	of   func(engine, *call) (decide, error)
}{
	{"arguments parsed before", engine.ready},
	{"from the JSON text of the arguments", engine.fromText},
}

// A loaded is a row's engine, and how long it took to make.
type loaded struct {
	row
	engine
	took time.Duration
}

// load makes each row's engine three times, and takes the time in the middle.
func load(copies int) ([]loaded, error) {
	var all []loaded
	for _, r := range rows {
		l, took := loaded{row: r}, make([]time.Duration, 3)
		make := r.written(copies)
		for i := range took {
			runtime.GC()
			start := time.Now()
			var err error
			if l.engine, err = make(); err != nil {
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
	for n := range p.slices + 1 {
		for i := range results {
			r := results[(i+n)%len(results)] // nobody is always behind the same one
			for _, f := range []*figure{&r.hot, &r.mix} {
				runtime.GC() // of what others left
				if err := f.slice(p.slice, n > 0); err != nil {
					return nil, fmt.Errorf("%s: %w", r.name, err)
				}
			}
		}
	}
	return results, nil
}
