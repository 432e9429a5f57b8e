package filestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// BenchmarkCondense condenses half of a log of 256 MB, and reports how much of the log is written
// again in a second, and how many batches are appended in a second before that and meanwhile, each
// with its sync.
func BenchmarkCondense(b *testing.B) {
	b.Run("alone", func(b *testing.B) { benchmarkCondense(b, false) })
	b.Run("appends", func(b *testing.B) { benchmarkCondense(b, true) })
}

func benchmarkCondense(b *testing.B, appends bool) {
	const each = 64 // entries of a batch while the log is made
	ctx := context.Background()
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		s, err := Open(filepath.Join(dir, "log"), Options{})
		require.NoError(b, err)
		entry := func(i uint64) contracts.Entry { return fmt.Appendf(nil, "entry %d %01600d", i, i) }
		blob := func(i uint64) []byte { return fmt.Appendf(nil, "blob %d %0800d", i, i) }
		n := uint64(0)
		for ; n < 100_000; n += each {
			batch := proofgraph.Batch{At: n}
			for i := n; i < n+each; i++ {
				batch.Entries, batch.Blobs = append(batch.Entries, entry(i)), append(batch.Blobs, blob(i))
			}
			require.NoError(b, s.Append(ctx, batch))
		}
		var appended atomic.Int64
		end := make(chan struct{})
		ended := make(chan struct{})
		size := n
		go func() {
			defer close(ended)
			for appends {
				select {
				case <-end:
					return
				default:
				}
				e := []contracts.Entry{entry(size), entry(size + 1)}
				if err := s.Append(ctx, proofgraph.Batch{At: size, Entries: e, Blobs: [][]byte{blob(size)}}); err != nil {
					b.Error(err)
					return
				}
				size += 2
				appended.Add(1)
			}
		}()
		rate := func(during func()) (perSecond float64, took time.Duration) {
			was, began := appended.Load(), time.Now()
			during()
			took = time.Since(began)
			return float64(appended.Load()-was) / took.Seconds(), took
		}
		alone := func() {
			if appends {
				time.Sleep(2 * time.Second)
			}
		}
		before, _ := rate(alone)
		var bytes int64
		for k := 1; ; k++ {
			f, err := os.Stat(s.path(uint32(k), logKind))
			if err != nil {
				break
			}
			bytes += f.Size()
		}
		b.StartTimer()
		during, took := rate(func() {
			err := s.Condense(ctx, func(yield func(uint64, []byte) bool) {
				for i := uint64(0); i < n; i += 2 {
					if !yield(i, stubOf(entry(i))) {
						return
					}
				}
			}, func(yield func(contracts.Digest) bool) {
				for i := uint64(0); i < n; i += 2 {
					if !yield(crypto.Sum(blob(i))) {
						return
					}
				}
			})
			require.NoError(b, err)
		})
		b.StopTimer()
		after, _ := rate(alone)
		close(end)
		<-ended
		b.ReportMetric(float64(bytes)/1e6/took.Seconds(), "MB/s")
		if appends {
			b.ReportMetric(before, "appends/s-before")
			b.ReportMetric(during, "appends/s-during")
			b.ReportMetric(after, "appends/s-after")
		}
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}
