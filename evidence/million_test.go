package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/trust/registry"
)

// BenchmarkVerifyCores is how much sooner a verification ends with a second processor, by the
// clock, so others' work shows in it; what the second one costs, by the processors' time; and by
// that time the share of the work that is not done ahead.
func BenchmarkVerifyCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("one processor")
	}
	m := forge.LongLog(b, 10_000)
	pack := m.Pack(Write)
	body := forge.Untar(b, pack)[forge.EntriesAt].Body
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	verify := func(processors int) (wall, cpu float64) {
		runtime.GOMAXPROCS(processors)
		t0, c0 := time.Now(), processor(b)
		if r, err := verifyBytes(b, pack, Options{Trust: m.Trust}); err != nil || !r.Success(Logged) {
			b.Fatal(r, err)
		}
		return time.Since(t0).Seconds(), (processor(b) - c0).Seconds()
	}
	metrics := map[string][]float64{}
	for b.Loop() {
		one, alone := verify(1)
		two, both := verify(2)
		runtime.GOMAXPROCS(1)
		var x opener
		from, index := processor(b), uint64(0)
		for line := range bytes.Lines(body) {
			if x.open(line[:len(line)-1], m.Trust, index).statement == nil {
				b.Fatal("an entry is not opened")
			}
			index++
		}
		ahead := (processor(b) - from).Seconds()
		for name, x := range map[string]float64{"x/sooner": one / two, "x/cpu": both / alone,
			"fold-share": 1 - ahead/alone} {
			metrics[name] = append(metrics[name], x)
		}
	}
	for name, list := range metrics {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
}

// BenchmarkVerifyMillion verifies a file of 10^6 entries, once, with -full. Between its entries
// bare signatures are verified, one in ten.
func BenchmarkVerifyMillion(b *testing.B) {
	if !*forge.Full {
		b.Skip("a file of 2.6 GB: with -full")
	}
	x := bench{TB: b, bare: raws(b, forge.LongLog(b, 6_000).Pack(Write)), public: forge.Public(b, forge.SeedK1)}
	f, size, trust, n := million(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for b.Loop() {
		runtime.GOMAXPROCS(1)
		v, held := holding(b, func(v *verifier) error {
			each, ratio := x.verify(n, n/10, func(progress func(done, total uint64)) error {
				v.o.Progress = progress
				return v.inPack(f, size)
			})
			b.ReportMetric(ratio, "x/verify")
			b.ReportMetric(each*1e6, "µs/entry")
			return nil
		}, Options{Trust: trust})
		if v.report.Replay.Replayed < 400_000 || v.report.Replay.NotReplayable > 0 {
			b.Fatal(v.report.Replay)
		}
		held = (held - float64(32*len(v.report.Erased))) / float64(n) // without what the report lists
		if b.ReportMetric(held, "held-B/entry"); held > 64 {
			b.Error("more is held than the formats allow")
		}
		for _, processors := range []int{1, 2} {
			runtime.GOMAXPROCS(processors)
			from := time.Now()
			if _, err := Verify(b.Context(), f, size, Options{Trust: trust}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(from).Seconds(), fmt.Sprintf("s-on-%d", processors))
		}
	}
}

// million is the pack of a log of 10^6 entries, in a file; nothing else is kept of the log.
func million(b *testing.B) (f *os.File, size int64, trust *registry.State, entries int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "million.pack"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	m := forge.LongLog(b, 1_000_000)
	w := bufio.NewWriterSize(f, 1<<20)
	n, err := m.Store.Size(b.Context())
	if err := errors.Join(err, Write(b.Context(), w, m.Store, forge.Key(b, forge.SeedK1)), w.Flush()); err != nil ||
		n < 1e6 {
		b.Fatal(n, err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return f, info.Size(), m.Trust, int(n)
}
