package main

import (
	"sync/atomic"
	"time"
)

// A clock is that of everyone in the story: kernel, witnesses and auditor. It stands still until it
// is set.
type clock struct{ at atomic.Int64 }

// noon sets the clock to noon of a day, counted from the first.
func (c *clock) noon(day int) {
	c.at.Store(time.Date(2030, 1, 1+day, 12, 0, 0, 0, time.UTC).UnixMilli())
}

func (c *clock) Now() time.Time { return time.UnixMilli(c.at.Load()).UTC() }
