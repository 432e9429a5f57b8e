package value

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// A Window is the time that a budget's limit is for. The stretch that was asked for last is remembered, for the next call is most likely of
// the same one: what is remembered is right for the times it says, whoever puts it there, so callers may race and clocks go back.
type Window struct {
	Unit string // hour, day, month, session or total
	last atomic.Pointer[span]
}

// A span is a window's time from one instant to another, which is not of it any more. It never changes.
type span struct {
	from, until contracts.Time
	starts      string
}

// Start gives the window's first instant, in UTC, or the word for what has none.
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
		from, until = time.Date(year, month, day, 0, 0, 0, 0, time.UTC), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	case "month":
		from, until = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		return &span{math.MinInt64, math.MaxInt64, w.Unit}
	}
	return &span{contracts.Time(from.UnixMilli()), contracts.Time(until.UnixMilli()), contracts.TimeOf(from).String()}
}
