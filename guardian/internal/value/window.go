package value

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// A Window is the time that a budget's limit is for. It remembers the span that was asked for last,
// since the next call most likely falls into the same one. A span never changes and is right for
// its own times, so callers may race and clocks may go back. It is safe for concurrent use by
// multiple goroutines.
type Window struct {
	Unit string // hour, day, month, session or total
	last atomic.Pointer[span]
}

// A span is a window's time from one instant until, and not including, another.
type span struct {
	from, until contracts.Time
	starts      string
}

// Start returns the first instant in UTC of the window that contains at, or the unit if the window
// never ends.
func (w *Window) Start(at contracts.Time) string {
	x := w.last.Load()
	if x == nil || at < x.from || at >= x.until {
		x = w.spanOf(at)
		w.last.Store(x)
	}
	return x.starts
}

func (w *Window) spanOf(at contracts.Time) *span {
	var from, until time.Time
	u := at.Time()
	year, month, day := u.Date()
	switch w.Unit {
	case "hour":
		from = u.Truncate(time.Hour)
		until = from.Add(time.Hour)
	case "day":
		from, until = time.Date(year, month, day, 0, 0, 0, 0, time.UTC),
			time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	case "month":
		from, until = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		return &span{math.MinInt64, math.MaxInt64, w.Unit}
	}
	return &span{contracts.Time(from.UnixMilli()), contracts.Time(until.UnixMilli()), contracts.TimeOf(from).String()}
}
