package value

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// startsOf returns what Start must, made from the text of the time alone.
func startsOf(unit string, at contracts.Time) string {
	text := at.String()
	switch unit {
	case "hour":
		return text[:len("2006-01-02T15")] + ":00:00.000Z"
	case "day":
		return text[:len("2006-01-02")] + "T00:00:00.000Z"
	case "month":
		return text[:len("2006-01")] + "-01T00:00:00.000Z"
	}
	return unit
}

var units = []string{"hour", "day", "month", "session", "total"}

// edges are instants around which windows begin: of hours, days, months, years, leap days, and of
// all the time that records have.
func edges(t testing.TB) (all []contracts.Time) {
	for _, text := range []string{
		"1970-01-01T00:00:00.000Z", "1970-01-01T01:00:00.000Z", "1970-02-01T00:00:00.000Z", "1972-02-29T00:00:00.000Z",
		"1999-12-31T23:00:00.000Z",
		"2000-01-01T00:00:00.000Z", "2000-02-29T00:00:00.000Z", "2000-03-01T00:00:00.000Z", "2026-03-29T01:00:00.000Z",
		"2028-02-29T00:00:00.000Z",
		"2028-03-01T00:00:00.000Z", "2100-02-28T00:00:00.000Z", "2100-03-01T00:00:00.000Z", "9999-12-01T00:00:00.000Z",
		"9999-12-31T23:00:00.000Z",
	} {
		at, err := contracts.ParseTime(text)
		require.NoError(t, err)
		for d := contracts.Time(-2); d <= 2; d++ {
			all = append(all, max(at+d, 0))
		}
	}
	return append(all, contracts.TimeOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// Whatever was remembered, the window is that of the time that is asked for: at every edge, after
// every other edge, forwards and back.
func TestWindowEdges(t *testing.T) {
	t.Parallel()
	all := edges(t)
	for _, unit := range units {
		w := &Window{Unit: unit}
		for _, before := range all {
			for _, at := range all {
				w.Start(before)
				if got, want := w.Start(at), startsOf(unit, at); got != want {
					t.Fatalf("%s of %s after %s: %s, want %s", unit, at, before, got, want)
				}
			}
		}
	}
}

// Times that no record has come from nobody but who judges by hand, and are those at the edge of
// what a record has.
func TestWindowOutside(t *testing.T) {
	t.Parallel()
	const most = "9999-12-31T23:59:59.999Z"
	noon := contracts.TimeOf(time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC))
	for _, unit := range units[:3] {
		w := &Window{Unit: unit}
		for _, c := range []struct {
			at   contracts.Time
			want string
		}{{-1, "1970-01-01T00:00:00.000Z"}, {0, "1970-01-01T00:00:00.000Z"}, {-1 << 40, "1970-01-01T00:00:00.000Z"},
			{253402300800000, most}, {1 << 50, most}} {
			assert.Equal(t, c.want, w.Start(c.at), "%s of %d", unit, c.at)
		}
		w.Start(math.MinInt64) // whatever those are, what comes next is right
		w.Start(math.MaxInt64)
		assert.Equal(t, startsOf(unit, noon), w.Start(noon), "%s of noon", unit)
	}
}

// Callers on both sides of an edge, and one whose clock jumps about, share what is remembered, and
// each gets the window of its own time.
func TestWindowRace(t *testing.T) {
	t.Parallel()
	all := edges(t)
	edge := contracts.TimeOf(time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)) // of an hour, a day and a month
	for _, unit := range units {
		w := &Window{Unit: unit}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for range 2000 {
					at := edge - contracts.Time(i%2)
					if i == 3 {
						at = all[r.IntN(len(all))]
					}
					if got, want := w.Start(at), startsOf(unit, at); got != want {
						t.Errorf("%s of %s: %s, want %s", unit, at, got, want)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestScaledCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		scale int
		want  uint64
		err   bool
	}{
		{"0", 0, 0, false}, {"4.35", 2, 435, false}, {"1.1", 2, 110, false}, {"0.29", 2, 29, false},
		{"1e-7", 7, 1, false}, {"1.5e-7", 8, 15, false},
		{"7", 0, 7, false}, {"7", 2, 700, false}, {"100", 0, 100, false}, {"9007199254740991", 0, crypto.MaxInt, false},
		{"4.355", 2, 0, true}, {"0.001", 2, 0, true}, {"1e-7", 2, 0, true}, {"1.5", 0, 0, true}, {"-1", 0, 0, true},
		{"-0.5", 1, 0, true}, {"5e-324", 15, 0, true},
		{"9007199254740992", 0, Unaffordable, false}, {"9007199254740991", 1, Unaffordable, false},
		{"123456789012345680000", 0, Unaffordable, false},
		{"999999999999999900000", 15, Unaffordable, false}, {"1e+21", 0, Unaffordable, false},
		{"1.7976931348623157e+308", 15, Unaffordable, false}, {"1e+300", 0, Unaffordable, false},
		{"123456789012.34567", 5, Unaffordable, false}, // whole, and more than a record holds
	} {
		n, what := Scaled([]byte(c.text), c.scale)
		assert.True(t, n == c.want && (what != "") == c.err, "%s times 10^%d: %d, %q; want %d", c.text, c.scale, n,
			what, c.want)
	}
}
