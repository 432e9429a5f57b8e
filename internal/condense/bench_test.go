package condense_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/race"
)

// BenchmarkRange is a range of a million entries of main, all of which go but the last: the lines
// of 2,000 calls, again and again.
func BenchmarkRange(b *testing.B) {
	j, s := plain(b, 2000)
	calls := j.lines[s.from : s.to-1]
	measure(b, j, s, 1_000_000, func(i int) contracts.Entry { return calls[i%len(calls)] })
}

// BenchmarkRangeStubs is the same with stubs, of 100,000 entries.
func BenchmarkRangeStubs(b *testing.B) {
	const entries = 100_000
	j, s := plain(b, 2000)
	calls := j.lines[s.from : s.to-1]
	lines := make([]contracts.Entry, entries)
	set := whole(b, j, s, entries, func(i int) contracts.Entry { return calls[i%len(calls)] })
	var r contracts.Reader
	for i := range set.Members() {
		line := calls[int(i)%len(calls)]
		sealed, err := r.Open(line)
		require.NoError(b, err)
		st, err := sealed.Statement()
		require.NoError(b, err)
		names := j.policies[0].index
		if st.Receipt != nil {
			names = i - 1
		}
		lines[i] = contracts.NewStub(st, line.Hash(), names).Append(nil)
	}
	measure(b, j, s, entries, func(i int) contracts.Entry { return lines[i] })
}

// whole returns the set of a range of so many lines and the last line of a log.
func whole(b testing.TB, j *journal, s span, entries int, line func(i int) contracts.Entry) *condense.Set {
	r := before(b, j, s, entries, line)
	require.NoError(b, r.Add(j.lines[s.to-1]))
	require.EqualValues(b, entries, r.Set().Dropped)
	return r.Set()
}

// before returns that range before the last line.
func before(b testing.TB, j *journal, s span, entries int, line func(i int) contracts.Entry) *condense.Range {
	l := j.log(s.from)
	terms, err := l.Terms(j.policies[0].index)
	require.NoError(b, err)
	l.Terms = func(uint64) (*condense.Terms, error) { return terms, nil }
	size := uint64(entries) + 1
	r := condense.NewRange(0, size, size, s.until, l)
	for i := range entries {
		if err := r.Add(line(i)); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// While it is read, a range holds few bytes for a member, and 40 more for each that comes after a
// call without a receipt, which goes or stays before them.
func TestRangeMemory(t *testing.T) {
	race.Alone(t)
	const entries = 100_000
	j, s := plain(t, 2000)
	calls := j.lines[s.from : s.to-1]
	waits, err := new(contracts.Reader).Stub(j.stub(s.from, j.policies[0].index))
	require.NoError(t, err)
	waits.Entry = crypto.Sum([]byte("of no receipt"))
	for most, first := range map[float64]contracts.Entry{10: calls[0], 60: waits.Append(nil)} {
		was := inUse()
		r := before(t, j, s, entries, func(i int) contracts.Entry {
			if i == 0 {
				return first
			}
			return calls[i%len(calls)]
		})
		each := (inUse() - was) / entries
		runtime.KeepAlive(r)
		assert.Less(t, each, most)
		t.Logf("%.1f bytes for a member", each)
	}
}

func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func measure(b *testing.B, j *journal, s span, entries int, line func(i int) contracts.Entry) {
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		set := whole(b, j, s, entries, line)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(set)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(entries), "ns/entry")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(entries), "B/member")
}
