// Package clock reads the time for a log, and notices a clock that has failed.
//
// What is judged by a failed clock is wrong for as long as the log remembers: an age never reaches
// its limit, a window never opens. So a failed reading is an error, and nobody uses it.
package clock

import (
	"errors"
	"sync"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

const (
	// leap is how far the clock may be ahead of the last good reading and the time that has passed
	// since.
	leap = 24 * time.Hour

	// settled is how long readings that are further ahead must go on to be good: those of a machine
	// that slept do, and its monotonic clock may have stood still meanwhile.
	settled = time.Minute
)

var (
	errRange = errors.New("the clock is outside the years 1970 to 9999")
	errLeap  = errors.New("the clock is more than a day ahead of the last reading and the time since")
)

// A Clock reads the time of calls and entries. It is safe for concurrent use by multiple
// goroutines.
type Clock struct {
	read    func() time.Time
	elapsed func() time.Duration // by a clock that nobody sets; nil if there is none

	mu   sync.Mutex // protects all below
	good reading    // the last good one
	odd  reading    // the first of those that leapt, since the last good one; zero if there is none
}

// A reading is what a clock showed, and how much time had passed then.
type reading struct {
	shown  time.Time
	passed time.Duration
}

// New returns a clock that reads the function, or time.Now if it is nil. Only time.Now is compared
// with the time that has passed, because nobody knows what another clock means by it.
func New(read func() time.Time) *Clock {
	if read != nil {
		return &Clock{read: read}
	}
	start := time.Now() // has a monotonic reading, by which Since goes
	return &Clock{read: time.Now, elapsed: func() time.Duration { return time.Since(start) }}
}

// Now returns the time, or an error if the clock has failed or panics.
func (c *Clock) Now() (t contracts.Time, err error) {
	defer contain.Error(&err, "Options.Now")
	now := c.read()
	t = contracts.TimeOf(now)
	if d := now.Sub(t.Time()); d < 0 || d >= time.Millisecond {
		return 0, errRange
	}
	if c.elapsed != nil && !c.steady(reading{now.Round(0), c.elapsed()}) {
		return 0, errLeap
	}
	return t, nil
}

// steady reports whether the reading is good.
func (c *Clock) steady(r reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.good.shown.IsZero()
	if !first && r.shown.Sub(c.good.shown)-(r.passed-c.good.passed) > leap {
		if c.odd.shown.IsZero() {
			c.odd = r
		}
		if r.passed-c.odd.passed < settled {
			return false
		}
	}
	c.good, c.odd = r, reading{}
	return true
}
