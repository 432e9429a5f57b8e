package letgo

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

var entries = flag.Int("letgo.entries", 100_000, "entries of the log that is let go of")

// busy makes a log of about n entries: 16 callers in sessions of some calls each, arguments of 900
// bytes, a budget, one call of 20 denied and 3 % of high risk. All sessions are closed, and a day
// is over.
func busy(b testing.TB, store proofgraph.Store, n, each int) *world {
	w := newWorld(b, store, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(b, floor, `
helm: policy/v1
layer: P1
bundle: {name: busy, version: 1}
tools:
  save: {effect: write, input: {type: object, required: [text], properties: {text: {type: string}}}}
  wipe: {effect: destructive, input: {type: object, required: [text], properties: {text: {type: string}}}}
  never: {effect: read, input: {type: object, required: [text], properties: {text: {type: string}}}}
rules: [{id: all, allow: [save, wipe]}]
budgets: [{id: day, tools: [save], limit: 1000000000, cost: 1, per: tenant, window: day}]
`)
		save := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"saved"`), nil
		})
		o.Drivers = map[string]executor.Driver{"save": save, "wipe": save}
	})
	var wait sync.WaitGroup
	for g := range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i*16*2 < n; i++ {
				session := fmt.Sprintf("caller-%d/%d", g, i/each)
				tool := "save"
				switch {
				case i%20 == 7:
					tool = "never"
				case i%33 == 5:
					tool = "wipe"
				}
				args := fmt.Appendf(nil, `{"text":"%0900d"}`, i)
				_, r := w.kernel.Guard(context.Background(), helm.Intent{Tool: tool, Args: args, Session: session,
					Caller: helm.Caller{ID: fmt.Sprint("caller-", g), Tenant: "acme"}})
				if r.Entry == nil {
					panic("not recorded")
				}
				if i%each == each-1 || (i+1)*16*2 >= n {
					if err := w.kernel.CloseSession(context.Background(), session); err != nil {
						panic(err)
					}
				}
			}
		}()
	}
	wait.Wait()
	w.later(25 * time.Hour)
	return w
}

// A stateless is a store that keeps no state.
type stateless struct{ *proofgraph.Memory }

func (stateless) SaveState(context.Context, []byte) error { return nil }

func (stateless) State(context.Context) ([]byte, error) { return nil, nil }

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// inUse returns what a kernel over a store takes, and how long New took.
func (w *world) inUse() (bytes float64, took time.Duration) {
	w.Helper()
	require.NoError(w, w.kernel.Close())
	w.kernel = nil
	before, began := heap(), time.Now()
	k, err := helm.New(w.options)
	require.NoError(w, err)
	took = time.Since(began)
	bytes = heap() - before
	w.kernel = k
	return bytes, took
}

// BenchmarkLettingGo reports what New takes for a line of a whole log and of one that was let go
// of, and what a kernel holds in memory for an entry that was let go of: two logs of as many
// sessions, one with twice the calls, differ by that, and by 48 bytes for each entry that stays.
func BenchmarkLettingGo(b *testing.B) {
	for range b.N {
		var gone, kept, held [2]float64
		for i, n := range []int{*entries / 2, *entries} {
			w := busy(b, stateless{proofgraph.NewMemory()}, n, 20*(i+1)) // which holds no log
			_, whole := w.inUse()
			size := float64(len(lines(b, w.store)))
			began := time.Now()
			c := w.condense()
			condensed := time.Since(began)
			began = time.Now()
			d := w.drop()
			dropped := time.Since(began)
			require.Equal(b, c.Members, d.Entries)
			bytes, took := w.inUse()
			gone[i], kept[i], held[i] = float64(d.Entries), size-float64(d.Entries), bytes
			if i == 1 {
				b.ReportMetric(gone[i]/size, "share")
				for unit, took := range map[string]time.Duration{"ns/line-New-whole": whole, "ns/line-New": took,
					"ns/entry-Condense": condensed, "ns/entry-Drop": dropped} {
					b.ReportMetric(float64(took.Nanoseconds())/size, unit)
				}
				stubs := float64(took.Nanoseconds()) - float64(whole.Nanoseconds())*kept[i]/size
				b.ReportMetric(stubs/gone[i], "ns/stub-New")
			}
			require.NoError(b, w.kernel.Close())
		}
		b.ReportMetric((held[1]-held[0]-48*(kept[1]-kept[0]))/(gone[1]-gone[0]), "B/gone")
		b.ReportMetric(held[0]/float64(*entries/2/40), "B/session-with-its-entries")
	}
}

// BenchmarkRemembering reports what New takes and holds with a state and without one, and the first
// New after so many entries, which makes one.
func BenchmarkRemembering(b *testing.B) {
	ctx := context.Background()
	for range b.N {
		w := busy(b, proofgraph.NewMemory(), *entries, 20)
		m := w.store.(*proofgraph.Memory)
		size := float64(len(lines(b, m)))
		for _, way := range []string{"whole", "makes-one", "state", "state"} {
			w.store = m
			switch way {
			case "whole":
				w.store = stateless{m}
			case "makes-one":
				require.NoError(b, m.SaveState(ctx, nil))
			}
			w.options.Store = w.store
			bytes, took := w.inUse()
			b.ReportMetric(took.Seconds()*1000, "ms-New-"+way)
			b.ReportMetric(bytes/size, "B/entry-"+way)
			began := time.Now()
			require.NoError(b, w.kernel.Close())
			b.ReportMetric(time.Since(began).Seconds()*1000, "ms-Close-"+way)
		}
		saved, err := m.State(ctx)
		require.NoError(b, err)
		b.ReportMetric(float64(len(saved))/size, "B/entry-of-the-state")
		b.ReportMetric(size, "entries")
	}
}
