package guardian

import (
	"math"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
)

const badMoment = "not an RFC 3339 time with zone"

// A moment is a time to the nanosecond: seconds since 1970, and nanoseconds.
type moment struct{ sec, nano int64 }

func momentOf(t contracts.Time) moment { return moment{int64(t) / 1000, int64(t) % 1000 * 1e6} }

func (m moment) before(n moment) bool { return m.sec < n.sec || m.sec == n.sec && m.nano < n.nano }

// readMoment reads an RFC 3339 time of the years 0 to 9999 with at most nine fractional digits. Package time reads more than the RFC
// allows, and takes strings. A leap second is refused: what follows it cannot be told from it.
func readMoment(b []byte) (moment, bool) {
	const form = "dddd-dd-ddTdd:dd:dd"
	if len(b) < len(form)+1 {
		return moment{}, false
	}
	var n [19]int
	for i := range len(form) {
		switch c := b[i]; {
		case form[i] == 'd':
			if c < '0' || c > '9' {
				return moment{}, false
			}
			n[i] = int(c - '0')
		case c != form[i] && (form[i] != 'T' || c != 't'):
			return moment{}, false
		}
	}
	two := func(i int) int { return n[i]*10 + n[i+1] }
	year, month, day, hour, minute, second := two(0)*100+two(2), two(5), two(8), two(11), two(14), two(17)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return moment{}, false
	}
	d := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if d.Day() != day {
		return moment{}, false
	}
	rest, nano := b[len(form):], int64(0)
	if rest[0] == '.' {
		digits := 0
		for rest = rest[1:]; digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9'; digits++ {
			nano = nano*10 + int64(rest[digits]-'0')
			if digits == 9 {
				return moment{}, false
			}
		}
		if digits == 0 {
			return moment{}, false
		}
		for range 9 - digits {
			nano *= 10
		}
		rest = rest[digits:]
	}
	offset, ok := zone(rest)
	return moment{d.Unix() - offset, nano}, ok
}

// zone reads Z or ±hh:mm, in seconds.
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

// readDuration reads a policy's duration: a positive number of s, m, h or d, at most 100 years.
func readDuration(s string) (time.Duration, bool) {
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

// readSize reads a policy's size: a positive number of KiB or MiB.
func readSize(s string) (int, bool) {
	digits, shift := strings.CutSuffix(s, "KiB")
	bits := 10
	if !shift {
		if digits, shift = strings.CutSuffix(s, "MiB"); !shift {
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

// A week has a bit for each of its minutes in UTC, from Monday 00:00 on.
type week [weekMinutes/64 + 1]uint64

func (w *week) holds(t contracts.Time) bool {
	minute := (int64(t)/60000 + 3*dayMinutes) % weekMinutes // 1970 began on a Thursday
	return minute >= 0 && w[minute/64]>>(minute%64)&1 != 0
}

// add adds a window like "Mon-Fri 08:00-18:00": days, which may go over the end of a week, and a half-open span within each of them.
func (w *week) add(s string) bool {
	days, hours, ok := strings.Cut(s, " ")
	if !ok {
		return false
	}
	first, last, many := strings.Cut(days, "-")
	if !many {
		last = first
	}
	from, to, ok := strings.Cut(hours, "-")
	a, b, start, end := weekday(first), weekday(last), minuteOf(from), minuteOf(to)
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
func (w *week) fill(from, to int) {
	for from < to {
		n := min(64-from%64, to-from)
		w[from/64] |= (1<<n - 1) << (from % 64)
		from += n
	}
}

func weekday(s string) int {
	for i, day := range [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		if s == day {
			return i
		}
	}
	return -1
}

// minuteOf reads hh:mm up to 24:00, or gives -1.
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
