//go:build linux

package bench

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// These benchmarks write to b.TempDir: TMPDIR=/some/dir chooses the disk.

func benchStore(b *testing.B, dir string) *filestore.Store {
	b.Helper()
	s, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// A rawFile has the layout of the store's own file: zeros written a mebibyte ahead, then one write
// and one fdatasync at a time.
type rawFile struct {
	f           *os.File
	end, filled int64
}

func newRawFile(b *testing.B) *rawFile {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &rawFile{f: f}
}

func (r *rawFile) write(data []byte) error {
	for ; r.end+int64(len(data)) > r.filled; r.filled += 1 << 20 {
		if _, err := r.f.WriteAt(make([]byte, 1<<20), r.filled); err != nil {
			return err
		}
	}
	if _, err := r.f.WriteAt(data, r.end); err != nil {
		return err
	}
	r.end += int64(len(data))
	return syscall.Fdatasync(int(r.f.Fd()))
}

// A tap is a store that remembers the bytes of each Append.
type tap struct {
	proofgraph.Store
	appends [][]byte
}

func (t *tap) Append(ctx context.Context, batch proofgraph.Batch) error {
	var data []byte
	for _, blob := range batch.Blobs {
		data = append(data, blob...)
	}
	for _, e := range batch.Entries {
		data = append(data, e...)
	}
	t.appends = append(t.appends, data)
	return t.Store.Append(ctx, batch)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkDurable is one caller on the file store. After each call, in the same loop, the bytes
// that it stored are written and synced to a plain file of the same layout, append by append, and
// as many messages of 256 bytes are signed: "raw" is the sum.
func BenchmarkDurable(b *testing.B) {
	for _, allow := range []bool{false, true} {
		b.Run(map[bool]string{false: "deny", true: "allow"}[allow], func(b *testing.B) {
			t := &tap{Store: benchStore(b, b.TempDir())}
			c, raw := newCaller(b, benchKernelOn(b, t), 0, "bench", allow), newRawFile(b)
			key, msg := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
			var calls, writes, signs []time.Duration
			var used time.Duration
			appends := map[bool]int{false: 1, true: 2}[allow]
			for b.Loop() {
				t.appends = t.appends[:0]
				before, t0 := cpu(b), time.Now()
				_, err := c.call()
				t1 := time.Now()
				used += cpu(b) - before
				if err != nil || len(t.appends) != appends {
					b.Fatalf("%d appends, error %v", len(t.appends), err)
				}
				var write, sign time.Duration
				for _, data := range t.appends {
					t2 := time.Now()
					if err := raw.write(data); err != nil {
						b.Fatal(err)
					}
					t3 := time.Now()
					ed25519.Sign(key, msg)
					write, sign = write+t3.Sub(t2), sign+time.Since(t3)
				}
				calls, writes, signs = append(calls, t1.Sub(t0)), append(writes, write), append(signs, sign)
			}
			cost := float64(used) / float64(len(calls))
			call, write, sign := median(calls), median(writes), median(signs)
			b.ReportMetric(float64(call)/float64(write+sign), "x/raw")
			b.ReportMetric(float64(write.Microseconds())/float64(appends), "µs/fsync")
			b.ReportMetric(float64(sign.Nanoseconds())/float64(appends), "ns/sign")
			b.ReportMetric(cost/float64(sign)*float64(appends), "cpu-x/sign")
			b.ReportMetric(float64(calls[len(calls)*99/100].Microseconds()), "µs-p99")
			b.ReportMetric(float64(call.Microseconds()), "µs-median")
		})
	}
}

// BenchmarkDurable64 has 64 callers on the file store. Between batches of calls all cores sign, and
// a lone caller syncs: both rates are of the same minutes on the same machine.
func BenchmarkDurable64(b *testing.B) {
	for _, x := range []struct {
		name     string
		allow    bool
		sessions int
	}{{"deny/64 sessions", false, 64}, {"allow/64 sessions", true, 64}, {"deny/one session", false, 1},
		{"allow/one session", true, 1}} {
		b.Run(x.name, func(b *testing.B) {
			k, raw := benchKernelOn(b, benchStore(b, b.TempDir())), newRawFile(b)
			var callers []caller
			for i := range 64 {
				callers = append(callers, newCaller(b, k, i, fmt.Sprint("bench-", i%x.sessions), x.allow))
			}
			var wall, used, signing, signUsed time.Duration
			var syncs []time.Duration
			signed := 0
			for done := 0; done < b.N; {
				const stretch = 64 * 64
				n := min(stretch, b.N-done)
				before, t0 := cpu(b), time.Now()
				if err := together(callers, n); err != nil {
					b.Fatal(err)
				}
				wall, used, done = wall+time.Since(t0), used+cpu(b)-before, done+n
				before, t0 = cpu(b), time.Now()
				signed += signAll(1000)
				signing, signUsed = signing+time.Since(t0), signUsed+cpu(b)-before
				for range 10 {
					t0 = time.Now()
					if err := raw.write(make([]byte, 3000)); err != nil {
						b.Fatal(err)
					}
					syncs = append(syncs, time.Since(t0))
				}
			}
			rate, sign := float64(b.N)/wall.Seconds(), float64(signUsed)/float64(signed)
			b.ReportMetric(rate, "calls/s")
			b.ReportMetric(rate/(float64(signed)/signing.Seconds()), "x/cores'-signs")
			b.ReportMetric(float64(used)/float64(b.N)/sign, "cpu-x/sign")
			b.ReportMetric(sign, "ns-cpu/sign")
			b.ReportMetric(float64(median(syncs).Microseconds()), "µs/fsync")
		})
	}
}

// budgetOf is one budget for all calls, or one each for something of theirs, which is never spent.
func budgetOf(per string) string {
	return `budgets:
  - {id: calls, tools: [code.run], limit: 1000000000, per: ` + per + `, window: total, cost: 1}
`
}

// BenchmarkDurableBudget has 64 callers in 64 sessions, on kernels without a budget, with one for
// each session, and with one that all of them share, in turn. Rates are medians of batches, and so
// is the ratio of shared to unshared, of consecutive batches.
func BenchmarkDurableBudget(b *testing.B) {
	for _, x := range []struct {
		name  string
		store func() proofgraph.Store
	}{{"file", func() proofgraph.Store { return benchStore(b, b.TempDir()) }},
		{"memory", func() proofgraph.Store { return proofgraph.NewMemory() }}} {
		b.Run(x.name, func(b *testing.B) {
			kinds := []string{"", budgetOf("session"), budgetOf("all")}
			callers := make([][]caller, len(kinds))
			for i, budgets := range kinds {
				k := benchKernelOn(b, x.store(), budgets)
				for n := range 64 {
					callers[i] = append(callers[i], newCaller(b, k, n, fmt.Sprint("bench-", n), true))
				}
			}
			const stretch = 64 * 16
			rates, costs := make([][]float64, len(kinds)), make([][]float64, len(kinds))
			var ratios, signs []float64
			for b.Loop() {
				before := cpu(b)
				signed := signAll(250)
				signs = append(signs, float64(cpu(b)-before)/float64(signed))
				for i := range kinds {
					i = (i + len(ratios)) % len(kinds) // each is first in its turn
					before, t0 := cpu(b), time.Now()
					if err := together(callers[i], stretch); err != nil {
						b.Fatal(err)
					}
					rates[i] = append(rates[i], stretch/time.Since(t0).Seconds())
					costs[i] = append(costs[i], float64(cpu(b)-before)/stretch)
				}
				n := len(ratios)
				ratios = append(ratios, rates[2][n]/rates[1][n])
			}
			sign := middle(signs)
			for i, name := range []string{"none", "distinct", "shared"} {
				b.ReportMetric(middle(rates[i]), name+"/s")
				b.ReportMetric(middle(costs[i])/sign, name+"-cpu-x/sign")
			}
			b.ReportMetric(middle(ratios), "shared/distinct")
		})
	}
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
