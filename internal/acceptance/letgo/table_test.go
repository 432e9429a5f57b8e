package letgo

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table is what is printed: times by each, and as multiples of those of a signature and of a sync
// of the disk in the same run.
type table struct {
	*testing.T
	began      time.Time
	sign, sync float64 // nanoseconds
	rows       map[string]float64
	text       strings.Builder
}

func newTable(t *testing.T) *table {
	x := &table{T: t, began: time.Now(), rows: map[string]float64{}}
	x.sign, x.sync = rawSign(), rawSync(t)
	fmt.Fprintf(&x.text, "%d cores: %s; load %s\n", runtime.NumCPU(), model(), load())
	fmt.Fprintf(&x.text, "raw: a signature takes %.1f µs, a write of 4 KiB with its sync %.0f µs\n", x.sign/1e3, x.sync/1e3)
	t.Cleanup(x.print)
	return x
}

// row adds a time in nanoseconds. If disk is set, it has waits for the disk.
func (x *table) row(what string, took float64, disk bool) {
	x.rows[what] = took
	ratio := fmt.Sprintf("%.2f of a signature", took/x.sign)
	if disk {
		ratio += fmt.Sprintf(", %.2f of a sync", took/x.sync)
	}
	x.note(what, "%.2f µs, %s", took/1e3, ratio)
}

func (x *table) note(what, format string, args ...any) {
	fmt.Fprintf(&x.text, "%-45s %s\n", what, fmt.Sprintf(format, args...))
}

func (x *table) print() {
	x.Logf("\n%sload %s at the end, after %.0f s", &x.text, load(), time.Since(x.began).Seconds())
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func perEach(took time.Duration, n int) float64 { return float64(took.Nanoseconds()) / float64(n) }

// rawSign returns the median time of a signature of 256 bytes.
func rawSign() float64 {
	key, message := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
	return median(200, func() { ed25519.Sign(key, message) })
}

// rawSync returns the median time of a write of 4 KiB, in a file of zeros, with its sync.
func rawSync(t *testing.T) float64 {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	at := int64(0)
	return median(100, func() {
		_, err := f.WriteAt(make([]byte, 4<<10), at)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		at += 4 << 10
	})
}

func median(n int, f func()) float64 {
	var all []time.Duration
	for range n {
		began := time.Now()
		f()
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return float64(all[n/2].Nanoseconds())
}

// model returns the name of the processor.
func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}

// load returns the load averages of the machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
