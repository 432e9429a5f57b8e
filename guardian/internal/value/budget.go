package value

import (
	"bytes"
	"math"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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

// Fits reports whether the charge fits the limit of its budget. It is a subtraction after a
// comparison, so it cannot overflow, even if the limit was lowered below the balance or the cost is
// greater than any limit.
func Fits(c *contracts.Charge) bool { return c.Before <= c.Limit && c.Amount <= c.Limit-c.Before }

// Unaffordable is the amount of a cost that no limit can hold.
const Unaffordable = crypto.MaxInt + 1

// Scaled returns a number, given as its canonical text, times ten to a power; or what is wrong, if
// it is not whole or below zero.
func Scaled(text []byte, power int) (n uint64, what string) {
	if text[0] == '-' {
		return 0, "the cost is below zero"
	}
	mantissa, exponent, _ := bytes.Cut(text, []byte{'e'})
	for i, c := range exponent {
		if c == '+' || c == '-' {
			continue
		}
		e := int(c - '0') // at most three digits: the greatest double is 1.8e308
		for _, c := range exponent[i+1:] {
			e = e*10 + int(c-'0')
		}
		if exponent[0] == '-' {
			e = -e
		}
		power += e
		break
	}
	point := false
	for _, c := range mantissa { // at most 21 digits, of which the last ones may be zeros
		if c == '.' {
			point = true
			continue
		}
		if point {
			power--
		}
		n = n*10 + uint64(c-'0')
		if n > Unaffordable && power >= 0 && !point {
			n = Unaffordable
		}
	}
	for ; power < 0 && n > 0; power++ {
		if n%10 != 0 {
			return 0, "the cost is not a whole number of the budget's units"
		}
		n /= 10
	}
	for ; power > 0 && n > 0 && n < Unaffordable; power-- {
		n *= 10
	}
	return min(n, Unaffordable), ""
}
