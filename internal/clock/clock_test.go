package clock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

var noon = time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)

// A clock that reads what no record can hold has failed, whatever it is.
func TestRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown time.Time
		good  bool
	}{
		{time.Unix(0, 0), true},
		{time.Unix(0, -1), false},
		{time.Time{}, false},
		{noon, true},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), true},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{time.Unix(math.MaxInt64, 0), false},
		{time.Unix(math.MinInt64, 0), false},
		{time.Unix(math.MaxInt64/1000+1, 0), false}, // its milliseconds do not fit
	} {
		at, err := New(func() time.Time { return c.shown }).Now()
		if c.good {
			require.NoError(t, err)
			assert.Equal(t, contracts.TimeOf(c.shown), at)
			continue
		}
		assert.ErrorIs(t, err, errRange, "%v", c.shown)
		assert.Zero(t, at)
	}
	_, err := New(func() time.Time { panic("secret") }).Now()
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

// A clock that leaps by more than a day has failed, until it has gone on from there for a minute.
func TestLeap(t *testing.T) {
	t.Parallel()
	type step struct {
		passed, shown time.Duration // since the start, and since noon
		good          bool
	}
	const day = 24 * time.Hour
	for name, steps := range map[string][]step{
		"as time passes":      {{0, 0, true}, {400 * day, 400 * day, true}},
		"a day, not more":     {{0, 0, true}, {time.Second, day + time.Second, true}},
		"more than a day":     {{0, 0, true}, {time.Second, day + time.Second + 1, false}},
		"from the last good":  {{0, 0, true}, {1, day, true}, {2, 2 * day, true}, {3, 3*day + 2, false}},
		"once, then as it is": {{0, 0, true}, {1, 400 * day, false}, {2, 2, true}, {3, day, true}},
		"back is good, and from there": {{0, 0, true}, {1, -400 * day, true}, {2, 2, false},
			{time.Minute, time.Minute, false}, {time.Minute + 2, time.Minute, true}},
		"a machine that slept": {{0, 0, true}, {1, 3 * day, false}, {time.Minute, 3*day + time.Minute, false},
			{time.Minute + 1, 3*day + time.Minute, true}, {time.Minute + 2, 3*day + time.Minute, true}},
		"a minute with a good one in it": {{0, 0, true}, {1, 3 * day, false}, {2, 2, true},
			{time.Minute + 1, 3 * day, false}, {2*time.Minute + 1, 3 * day, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now step
			c := &Clock{
				read:    func() time.Time { return noon.Add(now.shown) },
				elapsed: func() time.Duration { return now.passed },
			}
			for i, s := range steps {
				now = s
				at, err := c.Now()
				if !s.good {
					require.ErrorIs(t, err, errLeap, "step %d", i)
					require.Zero(t, at)
					continue
				}
				require.NoError(t, err, "step %d", i)
				require.Equal(t, contracts.TimeOf(noon.Add(s.shown)), at)
			}
		})
	}
}

// Only the default clock is compared with the time that has passed.
func TestOwnClockMayLeap(t *testing.T) {
	t.Parallel()
	now := noon
	c := New(func() time.Time { return now })
	for range 3 {
		_, err := c.Now()
		require.NoError(t, err)
		now = now.AddDate(1, 0, 0)
	}
	require.NotNil(t, New(nil).elapsed)
	at, err := New(nil).Now()
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), at.Time(), time.Minute)
}
