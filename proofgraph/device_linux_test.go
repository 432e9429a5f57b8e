package proofgraph

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A device blocks its thread for each Append, as a disk does. It keeps nothing that could be read.
type device struct {
	Store
	write            func(b Batch) error
	appends, entries int // one Append at a time, so they need no lock
}

func (d *device) Append(_ context.Context, b Batch) error {
	d.appends++
	d.entries += len(b.Entries)
	return d.write(b)
}

// sleeper returns a device that takes as long as a quiet disk and writes nothing, so that only the
// log's own time remains.
func sleeper(testing.TB) *device {
	return &device{Store: NewMemory(), write: func(Batch) error {
		t := syscall.NsecToTimespec(160_000)
		for { // the runtime's signals end it early
			if err := syscall.Nanosleep(&t, &t); err != syscall.EINTR {
				return err
			}
		}
	}}
}

// disk returns a device that writes each batch at once into a file that has its size already, and
// waits for the disk.
func disk(b testing.TB) *device {
	const size = 64 << 20
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err == nil {
		_, err = f.Write(make([]byte, size))
	}
	if err == nil {
		err = f.Sync()
	}
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	var frame []byte
	var at int64
	return &device{Store: NewMemory(), write: func(batch Batch) error {
		frame = frame[:0]
		for _, e := range batch.Entries {
			frame = append(frame, e...)
		}
		for _, blob := range batch.Blobs {
			frame = append(frame, blob...)
		}
		if at+int64(len(frame)) > size {
			at = 0
		}
		if _, err := f.WriteAt(frame, at); err != nil {
			return err
		}
		at += int64(len(frame))
		return syscall.Fdatasync(int(f.Fd()))
	}}
}

// BenchmarkDurable writes entries with their inputs to a device, each caller waiting for its own
// before the next. It reports them per second and as a part of the raw signatures that two cores
// make, how many share an Append, and the processor time of one in raw signatures.
func BenchmarkDurable(b *testing.B) {
	for _, on := range []struct {
		name string
		make func(testing.TB) *device
	}{{"sleeper", sleeper}, {"disk", disk}} {
		for _, x := range []struct{ callers, sessions int }{{1, 1}, {8, 8}, {64, 64}, {64, 1}} {
			b.Run(fmt.Sprintf("%s/%d callers, %d sessions", on.name, x.callers, x.sessions), func(b *testing.B) {
				w, d := newWorld(b), on.make(b)
				w.store = d
				w.open()
				sign := rawSign(b)
				d.appends, d.entries = 0, 0
				b.ReportAllocs()
				b.ResetTimer()
				used := cpu(b)
				w.write(x.callers, x.sessions, b.N)
				used = cpu(b) - used
				b.StopTimer()
				sign = (sign + rawSign(b)) / 2
				n := float64(b.N)
				b.ReportMetric(n/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(n/b.Elapsed().Seconds()*sign.Seconds(), "of-a-core's-signs")
				b.ReportMetric(float64(d.entries)/float64(d.appends), "entries/append")
				b.ReportMetric(float64(used)/n/float64(sign), "cpu-x/sign")
			})
		}
	}
}

// write has callers in sessions write n entries with a blob each, together.
func (w *world) write(callers, sessions, n int) {
	type session struct {
		sync.Mutex
		chain *Chain
	}
	list := make([]session, sessions)
	for i := range list {
		list[i].chain = w.log.Chain(fmt.Sprint("session-", i))
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			session, st, blob := &list[i%sessions], &contracts.Statement{Receipt: record()}, make([]byte, 1100)
			for k := i; k < n; k += callers {
				session.Lock()
				s, err := w.log.Place(Draft{Chain: session.chain, Time: w.options.Now, Write: says(st, blob)})
				session.Unlock()
				if err == nil {
					err = s.Wait()
				}
				if err != nil {
					w.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// rawSign is the processor time of a signature of 256 bytes.
func rawSign(b *testing.B) time.Duration {
	key, msg := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
	const n = 1000
	used := cpu(b)
	for range n {
		ed25519.Sign(key, msg)
	}
	return (cpu(b) - used) / n
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
