//go:build linux

package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

var entries = flag.Int("entries", 10_000,
	"length of the long log of BenchmarkLong; 1000000 takes a minute to write and 2.3 GB")

// BenchmarkLong measures what depends on the length of a log, and what must not: opening it, and
// calls on a log of 1,000 entries and on a long one.
//
//	go test ./internal/acceptance/bench -run '^$' -bench Long -entries 1000000
func BenchmarkLong(b *testing.B) {
	short, long := writtenLog(b, 1_000), writtenLog(b, *entries)
	b.Run("store", func(b *testing.B) { benchOpen(b, long, false) })
	b.Run("store without indexes", func(b *testing.B) { benchOpen(b, long, true) })
	b.Run("kernel", func(b *testing.B) { benchNew(b, long) })
	for _, x := range []struct {
		name          string
		allow, parent bool
	}{{"deny", false, false}, {"allow", true, false}, {"deny with a random parent", false, true}} {
		for _, durable := range []bool{true, false} {
			b.Run(x.name+map[bool]string{true: "", false: "/not stored"}[durable], func(b *testing.B) {
				benchTwo(b, short, long, x.allow, x.parent, durable)
			})
		}
	}
}

// writtenLog is a directory with a log of at least so many entries: calls that were allowed, two
// entries and their inputs each.
func writtenLog(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	s := benchStore(b, dir)
	k, start := benchKernelOn(b, s), time.Now()
	var callers []caller
	for i := range min(n/10, 1000) {
		callers = append(callers, newCaller(b, k, i, fmt.Sprint("s-", i), true))
	}
	if err := together(callers, n/2); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(k.Close(), s.Close()); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d calls in %d sessions were written in %v", n/2, len(callers), time.Since(start).Round(time.Millisecond))
	return dir
}

func benchOpen(b *testing.B, dir string, forget bool) {
	var took []time.Duration
	var size uint64
	before := heap()
	var held uint64
	for b.Loop() {
		if forget {
			indexes, err := filepath.Glob(filepath.Join(dir, "*.index"))
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range indexes {
				if err := os.Remove(name); err != nil {
					b.Fatal(err)
				}
			}
		}
		t0 := time.Now()
		s, err := filestore.Open(dir, filestore.Options{})
		took = append(took, time.Since(t0))
		if err != nil {
			b.Fatal(err)
		}
		if size, err = s.Size(context.Background()); err != nil || size < 1_000 {
			b.Fatalf("%d entries, error %v", size, err)
		}
		if held == 0 {
			held = heap() - before
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(median(took).Microseconds())/1e3, "ms")
	b.ReportMetric(float64(median(took).Nanoseconds())/float64(size), "ns/entry")
	b.ReportMetric(float64(held)/float64(size), "B/entry")
	b.ReportMetric(float64(size), "entries")
}

func benchNew(b *testing.B, dir string) {
	s := benchStore(b, dir)
	size, err := s.Size(context.Background())
	if err != nil || size < 1_000 {
		b.Fatalf("%d entries, error %v", size, err)
	}
	var took []time.Duration
	before, held := heap(), uint64(0)
	for b.Loop() {
		t0 := time.Now()
		k := benchKernelOn(b, s)
		took = append(took, time.Since(t0))
		if held == 0 {
			held = heap() - before
		}
		if err := k.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if now, err := s.Size(context.Background()); err != nil || now != size {
		b.Fatalf("%d entries became %d: opening wrote some; error %v", size, now, err)
	}
	b.ReportMetric(float64(median(took).Microseconds())/1e3, "ms")
	b.ReportMetric(float64(median(took).Microseconds())/float64(size), "µs/entry")
	b.ReportMetric(float64(held)/float64(size), "B/entry")
}

// heap is the memory in use after two collections: the second empties pools.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// unstored is a store that keeps nothing: what is left is the cost of the kernel.
type unstored struct{ proofgraph.Store }

func (unstored) Append(context.Context, proofgraph.Batch) error { return nil }

// benchTwo makes the same call on two logs in turn, each on a kernel that was just opened.
func benchTwo(b *testing.B, short, long string, allow, parent, durable bool) {
	type side struct {
		caller
		refs  []contracts.Ref
		took  []time.Duration
		bytes uint64
	}
	var sides []*side
	for _, dir := range []string{short, long} {
		s := benchStore(b, dir)
		refs := someRefs(b, s)
		store := proofgraph.Store(s)
		if !durable {
			store = unstored{s}
		}
		k := benchKernelOn(b, store)
		defer k.Close()
		sides = append(sides, &side{caller: newCaller(b, k, 0, "bench", allow), refs: refs})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for _, x := range sides {
			if parent {
				x.in.After = []contracts.Ref{x.refs[random.IntN(len(x.refs))]}
			}
			t0 := time.Now()
			_, err := x.call()
			x.took = append(x.took, time.Since(t0))
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	const calls = 500 // whose memory is counted: more than is reused between calls
	for _, x := range sides {
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		for range calls {
			if _, err := x.call(); err != nil {
				b.Fatal(err)
			}
		}
		runtime.ReadMemStats(&m1)
		x.bytes = (m1.TotalAlloc - m0.TotalAlloc) / calls
	}
	a, z := sides[0], sides[1]
	ma, mz := median(a.took), median(z.took)
	b.ReportMetric(float64(mz)/float64(ma), "x/short")
	b.ReportMetric(float64(mz.Nanoseconds())/1e3, "µs-median")
	b.ReportMetric(float64((z.took[len(z.took)-1] - mz).Microseconds()), "µs-worst-over-median")
	b.ReportMetric(float64(a.bytes), "B/call-short")
	b.ReportMetric(float64(z.bytes), "B/call-long")
}

// someRefs are entries from all over a log.
func someRefs(b *testing.B, s proofgraph.Store) (refs []contracts.Ref) {
	b.Helper()
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		i := random.Uint64N(size)
		for e, err := range s.Entries(ctx, i, i+1) {
			if err != nil {
				b.Fatal(err)
			}
			refs = append(refs, contracts.Ref{Index: i, Hash: e.Hash()})
		}
	}
	return refs
}
