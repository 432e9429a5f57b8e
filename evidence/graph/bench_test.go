//go:build unix

package graph

import (
	"context"
	"flag"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

var longer = flag.Int("entries", 20_000, "how long the log of the benchmarks is")

// BenchmarkGraph reads a log whose calls are after one entry each besides, asks it, and writes the
// whole of it. What it takes to read the entries from the file alone is not counted.
//
//	go test ./evidence/graph -run '^$' -bench . -benchtime 1x -entries 1000000
func BenchmarkGraph(b *testing.B) {
	l := newLong(b, *longer, 64, 1)
	n := float64(*longer)
	took := func(f func()) float64 {
		t0 := processor(b)
		f()
		return float64((processor(b) - t0).Nanoseconds())
	}
	var file, read, asked float64
	var g *Graph
	for b.Loop() {
		file = took(func() {
			for _, err := range l.Entries(b.Context(), 0, uint64(*longer)) {
				require.NoError(b, err)
			}
		})
		read = took(func() {
			var err error
			g, err = Read(b.Context(), l)
			require.NoError(b, err)
		})
		asked = took(func() {
			last := uint64(*longer) - 1
			if g.Ancestors(last, Links).Len() < *longer/4 || g.Descendants(1, Links).Len() < *longer/4 ||
				g.Path(last, 1, Causes).Len()+g.Path(last, 0, Links).Len() == 0 {
				b.Fatal("the log hangs together badly")
			}
		})
	}
	b.ReportMetric((read-file)/n, "ns/entry-read")
	b.ReportMetric(asked/4/n, "ns/entry-question")
	for name, write := range map[string]func(context.Context, io.Writer, Set) error{"dot": g.WriteDOT, "json": g.WriteJSON} {
		var out counter
		t := took(func() { require.NoError(b, write(b.Context(), &out, g.All())) })
		b.ReportMetric((t-file)/n, "ns/entry-"+name)
		b.ReportMetric(float64(out)/(t-file)*1e3, "MB/s-"+name)
	}
	b.ReportMetric(held(b, l)/n, "held-B/entry")
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// held is how many bytes a graph holds.
func held(t testing.TB, s Source) float64 {
	t.Helper()
	before := allocated()
	g, err := Read(t.Context(), s)
	require.NoError(t, err)
	after := allocated()
	runtime.KeepAlive(g)
	return after - before
}

func allocated() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func processor(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What is held of an entry and a parent, and of a session, is what the package comment says.
func TestMemory(t *testing.T) {
	race.Alone(t)
	const n = 16_000
	few, many := held(t, newLong(t, n, 64, 1)), held(t, newLong(t, n, n/2, 0))
	entry, session := (few-64<<10)/n-4, (many-55*n)/(n/2)
	t.Logf("%.1f bytes an entry, %.1f a session", entry, session)
	assert.True(t, !(entry > 60) && !(session > 256) && !(entry < 44) && !(session < 128),
		"%.1f bytes an entry, %.1f a session", entry, session)
}
