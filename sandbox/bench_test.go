//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// taken returns the time of a processor that f takes: of its thread or, if all is set, of the
// process, with its collector.
func taken(b *testing.B, all bool, f func()) time.Duration {
	b.Helper()
	who := 1 // RUSAGE_THREAD, which package syscall lacks
	if all {
		who = syscall.RUSAGE_SELF
	}
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(who, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := used()
	f()
	return used() - before
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// An unpaid global is what guests have that are not metered.
type unpaid struct {
	api.MutableGlobal
	gas uint64
}

func (u *unpaid) Get() uint64  { return u.gas }
func (u *unpaid) Set(v uint64) { u.gas = v }

// unmetered runs a module as it was given, in the same world.
func unmetered(b *testing.B, r *Runtime, module wazero.CompiledModule, args string) string {
	grants := contracts.Sandbox{}.Filled()
	g := &guest{ctx: context.Background(), job: &job{grants: &grants, decided: decided}, gas: new(unpaid),
		given: math.MaxInt64 / 2}
	var err error
	g.world, err = wasi.New(g, setupOf(&grants, "tool", []byte(args), nil, nil))
	require.NoError(b, err)
	defer g.world.Close()
	ctx := context.WithValue(context.Background(), guestKey{}, g)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	m, err := r.engine.InstantiateModule(ctx, module, config)
	require.NoError(b, err)
	defer m.Close(ctx)
	_, err = m.ExportedFunction("_start").Call(ctx)
	var exit wasi.Exit
	if err != nil {
		require.ErrorAs(b, err, &exit)
	}
	require.Zero(b, exit)
	return string(g.world.Stdout())
}

// The same guest, metered and as it was given, in turn. The ratios are of processor time; the last
// is the geometric mean of the first three, which have a goal of 1.15.
func BenchmarkMetered(b *testing.B) {
	wasm := goGuest(b, "work")
	r, err := New(Options{})
	require.NoError(b, err)
	defer r.Close(context.Background())
	m, err := r.Load(context.Background(), wasm, "box", contracts.Sandbox{Gas: 1e12}, Host{})
	require.NoError(b, err)
	plain, err := r.engine.CompileModule(context.Background(), wasm)
	require.NoError(b, err)
	product := 1.0
	for _, work := range []struct {
		name  string
		times int
		mean  bool // it counts in the geometric mean
	}{{"sha256", 3000, true}, {"json", 1000, true}, {"integers", 40_000, true}, {"matrix", 200, false}, {"fib", 400, false}} {
		b.Run(work.name, func(b *testing.B) {
			args := fmt.Sprintf(`{"times":%d,"work":%q}`, work.times, work.name)
			var with, without []time.Duration
			for b.Loop() {
				var got ending
				with = append(with, taken(b, false, func() {
					got = r.run(context.Background(), &job{code: m.code, grants: &m.grants, decided: decided,
						setup: setupOf(&m.grants, "tool", []byte(args), nil, nil)})
				}))
				require.Equal(b, contracts.ReasonAllow, got.reason, "%v", got.err)
				var want string
				without = append(without, taken(b, false, func() { want = unmetered(b, r, plain, args) }))
				require.True(b, len(want) > 1 && want == string(got.output), "%q, %q", want, got.output)
			}
			ratio := float64(middle(with)) / float64(middle(without))
			if work.mean {
				product *= ratio
			}
			b.ReportMetric(ratio, "ratio")
			b.ReportMetric(middle(without).Seconds()*1e3, "ms-unmetered")
			if work.name == "integers" {
				b.ReportMetric(math.Cbrt(product), "mean-ratio")
			}
		})
	}
}

// A guest of a benchmark: a small one has 100 KB of code, of which it runs little.
type maker func(b *testing.B) []byte

var guests = map[string]maker{
	"small": func(*testing.B) []byte { return hundredKB() },
	"Go":    func(b *testing.B) []byte { return goGuest(b, "sum") },
}

// load returns a Runtime that lasts as long as the benchmark, and the guest in it.
func (guest maker) load(b *testing.B) (*Runtime, *Module, int) {
	b.Helper()
	wasm := guest(b)
	r, err := New(Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.Close(context.Background())) })
	m, err := r.Load(context.Background(), wasm, "box", contracts.Sandbox{}, Host{})
	require.NoError(b, err)
	return r, m, len(wasm)
}

// A call: to make an instance of compiled code, run it and close it.
func BenchmarkCall(b *testing.B) {
	for name, guest := range guests {
		b.Run(name, func(b *testing.B) {
			r, m, size := guest.load(b)
			calls, thread := 0, time.Duration(0)
			run := func() {
				end := r.run(context.Background(), &job{code: m.code, grants: &m.grants, decided: decided,
					setup: setupOf(&m.grants, "tool", []byte("{}"), nil, nil)})
				require.Equal(b, contracts.ReasonAllow, end.reason, "%v", end.err)
			}
			all := taken(b, true, func() {
				thread = taken(b, false, func() {
					for ; b.Loop(); calls++ {
						run()
					}
				})
			})
			b.ReportMetric(float64(size)/1e3, "KB")
			b.ReportMetric(float64(thread.Microseconds())/float64(calls), "µs")
			b.ReportMetric(float64(all.Microseconds())/float64(calls), "µs-with-collector")
		})
	}
}

// hundredKB prints x; its other functions are never called.
func hundredKB() []byte {
	m := prints(1, "x")
	code := make([]byte, 0, 1000)
	for len(code) < 1000 {
		code = append(code, ops(i64(int64(len(code))), drop)...)
	}
	first := m.funcs[0]
	for range 100 {
		m.funcs = append(m.funcs, fn{code: code})
	}
	m.funcs = append(m.funcs, first)
	return m.bytes()
}

// Load, and compiling the module as it is, in turn.
func BenchmarkLoad(b *testing.B) {
	wasm := goGuest(b, "sum")
	var load, compiled, metered []time.Duration
	for b.Loop() {
		r, err := New(Options{})
		require.NoError(b, err)
		load = append(load, taken(b, false, func() {
			_, err = r.Load(context.Background(), wasm, "box", contracts.Sandbox{}, Host{})
		}))
		require.NoError(b, err)
		require.NoError(b, r.Close(context.Background()))
		metered = append(metered, taken(b, false, func() { _, err = meter.Rewrite(wasm, 1024) }))
		require.NoError(b, err)
		r, err = New(Options{})
		require.NoError(b, err)
		compiled = append(compiled, taken(b, false, func() {
			_, err = r.engine.CompileModule(context.Background(), wasm)
		}))
		require.NoError(b, err)
		require.NoError(b, r.Close(context.Background()))
	}
	b.ReportMetric(float64(middle(load))/float64(middle(compiled)), "ratio")
	b.ReportMetric(middle(compiled).Seconds()*1e3, "ms-compiling")
	b.ReportMetric(middle(metered).Seconds()*1e3, "ms-metering")
}

const rerunPolicy = `
helm: policy/v1
layer: P1
bundle: {name: bench, version: 1}
tools:
  add: {effect: read, input: {type: object}}
rules:
  - {id: add, allow: add}
`

// An auditor runs 1,000 calls of a guest again. The ratio is what that adds to a verification,
// next to what the runs themselves take, all on one processor.
func BenchmarkRerun(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, guest := range guests {
		b.Run(name, func(b *testing.B) {
			r, m, _ := guest.load(b)
			const calls = 1000
			store := proofgraph.NewMemory()
			k, err := helm.New(helm.Options{Policy: kerneltest.Compile(b, rerunPolicy), Key: kerneltest.SeedKey(b, 1),
				Origin: kerneltest.Origin, Store: store, Keep: helm.Keep{Outputs: true, Modules: true}})
			require.NoError(b, err)
			intent := helm.Intent{Tool: "add", Args: []byte("{}"), Caller: helm.Caller{ID: "ada"}, Driver: m}
			for range calls {
				d, receipt := k.Guard(context.Background(), intent)
				require.NoError(b, d.Err())
				require.Equal(b, contracts.Executed, receipt.Record.Outcome)
			}
			_, err = k.Checkpoint(context.Background())
			require.NoError(b, err)
			verify := func(again contracts.Rerun, want uint64) time.Duration {
				return taken(b, true, func() {
					report, err := evidence.VerifyStore(context.Background(), store,
						evidence.Options{Trust: k.Trust(), Origin: kerneltest.Origin, Rerun: again})
					require.NoError(b, err)
					require.Equal(b, evidence.Rerun{Same: want, Unpinned: want}, report.Rerun)
				})
			}
			again := r.Rerun(nil)
			var mu sync.Mutex
			var list []contracts.Rerunnable
			verify(func(ctx context.Context, c contracts.Rerunnable) (contracts.RerunResult, error) {
				mu.Lock()
				list = append(list, c)
				mu.Unlock()
				return again(ctx, c)
			}, calls)
			var with, without, runs []time.Duration
			for b.Loop() {
				without = append(without, verify(nil, 0))
				with = append(with, verify(again, calls))
				runs = append(runs, taken(b, true, func() {
					for _, c := range list {
						result, err := again(context.Background(), c)
						require.True(b, err == nil && result.Reason == contracts.ReasonAllow, "%+v, %v", result, err)
					}
				}))
			}
			more := middle(with) - middle(without)
			b.ReportMetric(float64(more)/float64(middle(runs)), "ratio")
			b.ReportMetric(float64(middle(runs).Microseconds())/calls, "µs/run")
			b.ReportMetric(float64(middle(without).Microseconds())/calls, "µs-without/call")
		})
	}
}
