package contracts

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParseTime changes every byte of a few moments to every other, and compares with the standard
// library's reader.
func TestParseTime(t *testing.T) {
	t.Parallel()
	good, bad := 0, 0
	for _, s := range []string{"1970-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "2026-11-21T14:08:09.120Z",
		"9999-12-31T23:59:59.999Z"} {
		for i := range len(s) {
			for c := range 256 {
				x := s[:i] + string([]byte{byte(c)}) + s[i+1:]
				got, err := ParseTime(x)
				u, stdErr := time.Parse(timeForm, x)
				want := stdErr == nil && u.Year() >= 1970 && u.Format(timeForm) == x
				require.True(t, (err == nil) == want && (!want || got.Time() == u) && (err == nil || got == 0),
					"%q: %v, %v; the standard library says %v", x, got, err, stdErr)
				if want {
					good++
				} else {
					bad++
				}
			}
		}
	}
	for _, x := range []string{"", "2026-11-21T14:08:09.12Z", "2026-11-21T14:08:09.1200Z",
		"2026-11-21T14:08:09.120+00:00", "+026-11-21T14:08:09.120Z", "10000-01-01T00:00:00.00Z"} {
		_, err := ParseTime(x)
		assert.Error(t, err, "%q is a time", x)
	}
	assert.True(t, good >= 300 && bad >= 10_000, "%d times and %d that are none were tried", good, bad)
}

// TestEveryDay reads each day of the calendar's 400 years and of the last ones, and refuses the day
// after the last one of each month.
func TestEveryDay(t *testing.T) {
	t.Parallel()
	days, ends := 0, 0
	for at := time.Date(1970, 1, 1, 23, 59, 58, 987e6, time.UTC); at.Year() < 10000; at, days = at.AddDate(0, 0, 1),
		days+1 {
		if at.Year() == 2371 {
			at = at.AddDate(9990-2371, 0, 0)
		}
		text := at.Format(timeForm)
		got, err := ParseTime(text)
		require.True(t, err == nil && got.Time() == at && got.String() == text, "%s: %s, %v", text, got, err)
		if at.AddDate(0, 0, 1).Day() == 1 {
			bad := fmt.Sprintf("%s%02d%s", text[:8], at.Day()+1, text[10:])
			_, err := ParseTime(bad)
			assert.Error(t, err, "%s is a time", bad)
			ends++
		}
	}
	assert.True(t, days >= 150_000 && ends >= 4_900, "%d days and %d ends of months were tried", days, ends)
}
