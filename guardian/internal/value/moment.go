package value

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// BadMoment is what is wrong with a text that is no time.
const BadMoment = "not an RFC 3339 time with zone"

// A Moment is a time to the nanosecond: seconds since 1970, and nanoseconds.
type Moment struct{ Sec, Nano int64 }

// MomentOf returns the moment of a time of the records.
func MomentOf(t contracts.Time) Moment { return Moment{int64(t) / 1000, int64(t) % 1000 * 1e6} }

// Before reports whether m is before n.
func (m Moment) Before(n Moment) bool { return m.Sec < n.Sec || m.Sec == n.Sec && m.Nano < n.Nano }

// Within reports whether m is at most age before now, and not after it.
func (m Moment) Within(age time.Duration, now contracts.Time) bool {
	latest := MomentOf(now)
	oldest := Moment{latest.Sec - int64(age/time.Second), latest.Nano}
	return !latest.Before(m) && !m.Before(oldest)
}

// ReadMoment reads an RFC 3339 time of the years 0 to 9999 with at most nine fractional digits.
// Package time reads more than the RFC allows, and takes strings. A leap second is refused, since
// it cannot be told from the second that follows.
func ReadMoment(b []byte) (Moment, bool) {
	const form = "dddd-dd-ddTdd:dd:dd"
	if len(b) < len(form)+1 {
		return Moment{}, false
	}
	var n [19]int
	for i := range len(form) {
		switch c := b[i]; {
		case form[i] == 'd':
			if c < '0' || c > '9' {
				return Moment{}, false
			}
			n[i] = int(c - '0')
		case c != form[i] && (form[i] != 'T' || c != 't'):
			return Moment{}, false
		}
	}
	two := func(i int) int { return n[i]*10 + n[i+1] }
	year, month, day, hour, minute, second := two(0)*100+two(2), two(5), two(8), two(11), two(14), two(17)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return Moment{}, false
	}
	d := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if d.Day() != day {
		return Moment{}, false
	}
	rest, nano := b[len(form):], int64(0)
	if rest[0] == '.' {
		digits := 0
		for rest = rest[1:]; digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9'; digits++ {
			nano = nano*10 + int64(rest[digits]-'0')
			if digits == 9 {
				return Moment{}, false
			}
		}
		if digits == 0 {
			return Moment{}, false
		}
		for range 9 - digits {
			nano *= 10
		}
		rest = rest[digits:]
	}
	offset, ok := zone(rest)
	return Moment{d.Unix() - offset, nano}, ok
}

// zone reads Z or ±hh:mm, and returns it in seconds.
func zone(b []byte) (int64, bool) {
	if len(b) == 1 {
		return 0, b[0] == 'Z' || b[0] == 'z'
	}
	if len(b) != 6 || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if b[i] < '0' || b[i] > '9' {
			return 0, false
		}
	}
	hours, minutes := int64(b[1]-'0')*10+int64(b[2]-'0'), int64(b[4]-'0')*10+int64(b[5]-'0')
	offset := hours*3600 + minutes*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, hours < 24 && minutes < 60
}

// ReadDuration reads a duration of a policy: a positive number of s, m, h or d, at most 100 years.
func ReadDuration(s string) (time.Duration, bool) {
	const most = 36525 * 24 * time.Hour
	if len(s) < 2 {
		return 0, false
	}
	unit := time.Duration(0)
	switch s[len(s)-1] {
	case 's':
		unit = time.Second
	case 'm':
		unit = time.Minute
	case 'h':
		unit = time.Hour
	case 'd':
		unit = 24 * time.Hour
	}
	n, ok := readCount(s[:len(s)-1])
	if !ok || unit == 0 || n > int64(most/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// ReadSize reads a size of a policy: a positive number of KiB or MiB.
func ReadSize(s string) (int, bool) {
	digits, shift := strings.CutSuffix(s, "KiB")
	bits := 10
	if !shift {
		digits, shift = strings.CutSuffix(s, "MiB")
		if !shift {
			return 0, false
		}
		bits = 20
	}
	n, ok := readCount(digits)
	if !ok || n > math.MaxInt32>>bits {
		return 0, false
	}
	return int(n) << bits, true
}

// readCount reads a positive integer without sign and leading zeros.
func readCount(s string) (int64, bool) {
	if s == "" || len(s) > 12 || s[0] == '0' {
		return 0, false
	}
	n := int64(0)
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

var weekdays = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// A Week has a bit for each of its minutes in UTC, from Monday 00:00 on.
type Week [weekMinutes/64 + 1]uint64

// Contains reports whether a time is in one of the windows that were added.
func (w *Week) Contains(t contracts.Time) bool {
	minute := (int64(t)/60000 + 3*dayMinutes) % weekMinutes // 1970 began on a Thursday
	return minute >= 0 && w[minute/64]>>(minute%64)&1 != 0
}

// Add adds a window like "Mon-Fri 08:00-18:00", and reports whether it is one: days, which may go
// over the end of a week, and a half-open span within each of them.
func (w *Week) Add(s string) bool {
	days, hours, ok := strings.Cut(s, " ")
	if !ok {
		return false
	}
	first, last, many := strings.Cut(days, "-")
	if !many {
		last = first
	}
	from, to, ok := strings.Cut(hours, "-")
	a, b, start, end := slices.Index(weekdays, first), slices.Index(weekdays, last), minuteOf(from), minuteOf(to)
	if !ok || a < 0 || b < 0 || start < 0 || end <= start {
		return false
	}
	for day := a; ; day = (day + 1) % 7 {
		w.fill(day*dayMinutes+start, day*dayMinutes+end)
		if day == b {
			return true
		}
	}
}

// fill sets the bits of a span, a word at a time: a grant may have hundreds of windows.
func (w *Week) fill(from, to int) {
	for from < to {
		n := min(64-from%64, to-from)
		w[from/64] |= (1<<n - 1) << (from % 64)
		from += n
	}
}

// minuteOf reads hh:mm up to 24:00. It returns -1 for anything else.
func minuteOf(s string) int {
	if len(s) != 5 || s[2] != ':' {
		return -1
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if minute > 59 || hour*60+minute > dayMinutes {
		return -1
	}
	return hour*60 + minute
}
