package contracts

import (
	"testing"
	"time"
)

// TestParseTime changes every byte of a few moments to every other, and compares with the standard library's reader.
func TestParseTime(t *testing.T) {
	good, bad := 0, 0
	for _, s := range []string{"1970-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "2026-11-21T14:08:09.120Z", "9999-12-31T23:59:59.999Z"} {
		for i := range len(s) {
			for c := range 256 {
				x := s[:i] + string([]byte{byte(c)}) + s[i+1:]
				got, err := ParseTime(x)
				u, stdErr := time.Parse(timeForm, x)
				want := stdErr == nil && u.Year() >= 1970 && u.Format(timeForm) == x
				if (err == nil) != want || want && got.Time() != u || err != nil && got != 0 {
					t.Fatalf("%q: %v, %v; the standard library says %v", x, got, err, stdErr)
				}
				if want {
					good++
				} else {
					bad++
				}
			}
		}
	}
	for _, x := range []string{"", "2026-11-21T14:08:09.12Z", "2026-11-21T14:08:09.1200Z", "2026-11-21T14:08:09.120+00:00", "+026-11-21T14:08:09.120Z", "10000-01-01T00:00:00.00Z"} {
		if _, err := ParseTime(x); err == nil {
			t.Errorf("%q is a time", x)
		}
	}
	if good < 300 || bad < 10_000 {
		t.Errorf("%d times and %d that are none were tried", good, bad)
	}
}
