package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
)

// A room is a Runtime of a test.
type room struct {
	*testing.T
	*Runtime
	kernel *kerneltest.World // of Call, once it was called
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r, err := New(Options{Instances: 64})
	if err != nil {
		t.Skip("nothing was run: ", err)
	}
	t.Cleanup(func() { assert.NoError(t, r.Close(context.Background())) })
	return &room{T: t, Runtime: r}
}

// call has a kernel make a call of m, and returns the receipt. When the test is over its log must
// verify. It is called on the goroutine of the test.
func (r *room) call(m *Module) helm.Receipt {
	r.Helper()
	if r.kernel == nil {
		r.kernel = kerneltest.New(r.T, func(o *helm.Options) { o.Keep.Modules = true })
		r.Cleanup(func() { r.kernel.MustVerify() })
	}
	_, receipt := r.kernel.Call("unbound", "{}", kerneltest.WithDriver(m))
	require.NotNil(r, receipt.Record)
	use := receipt.Record.Sandbox
	require.True(r, use != nil && use.Module == m.cell.Info().Module && use.Grants != nil, "%+v", receipt.Record)
	return receipt
}

func (r *room) load(wasm []byte, grants contracts.Sandbox, h Host) *Module {
	r.Helper()
	m, err := r.Load(context.Background(), wasm, "box", grants, h)
	require.NoError(r, err)
	return m
}

// A told is how a guest ended, as records have it.
type told struct {
	output string
	gas    uint64
	reason contracts.ReasonCode
	err    string
}

// tell runs a module as the kernel does, under a decision of the test's.
func (r *room) tell(ctx context.Context, m *Module, args string) told {
	r.Helper()
	e := m.runtime.run(ctx, &job{
		code: m.code, grants: &m.grants, decided: decided,
		setup: setupOf(&m.grants, "tool", []byte(args), m.env, m.mounts),
	})
	t := told{string(e.output), e.gas, e.reason, ""}
	if e.err != nil {
		t.err = e.err.Error()
	}
	return t
}

var theDecision = contracts.Digest{1, 2, 3}

const theTime = contracts.Time(1_700_000_000_123)

func decided() (contracts.Digest, contracts.Time, error) { return theDecision, theTime, nil }

// runs loads and runs a guest once.
func (r *room) runs(wasm []byte, grants contracts.Sandbox) told {
	r.Helper()
	return r.tell(context.Background(), r.load(wasm, grants, Host{}), "{}")
}

func TestOutput(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	got := r.runs(prints(1, `{"b":1, "a":2}`).bytes(), contracts.Sandbox{})
	assert.Equal(t, told{`{"b":1, "a":2}`, got.gas, contracts.ReasonAllow, ""}, got)
	assert.Less(t, uint64(1000), got.gas)
	got = r.runs(prints(1, "12", i32(0), call(1)).bytes(), contracts.Sandbox{})
	assert.Equal(t, told{"12", got.gas, contracts.ReasonAllow, ""}, got, "exit 0")
	got = r.runs(prints(2, "line\n\x1b[2J", i32(-1), call(1)).bytes(), contracts.Sandbox{})
	assert.Equal(t, told{"", got.gas, contracts.ReasonToolError, `sandbox: exit 4294967295: "line\n\x1b[2J"`}, got)
	got = r.runs(prints(1, "secret", i32(3), call(1)).bytes(), contracts.Sandbox{})
	assert.Equal(t, told{"", got.gas, contracts.ReasonToolError, "sandbox: exit 3"}, got, "a failed tool's output is dropped")
	got = r.runs(command(nil).bytes(), contracts.Sandbox{})
	assert.Equal(t, told{"", got.gas, contracts.ReasonAllow, ""}, got, "nothing")
}

func TestTraps(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for want, wasm := range map[string][]byte{
		"unreachable":                   command(ops(unreachable)).bytes(),
		"integer divide by zero":        command(ops(i32(1), i32(0), 0x6d, drop)).bytes(),
		"integer overflow":              command(ops(i32(-1<<31), i32(-1), 0x6d, drop)).bytes(),
		"invalid conversion to integer": command(ops("\x43\x00\x00\xc0\x7f", 0xa8, drop)).bytes(), // f32.const nan, i32.trunc_f32_s
		"out of bounds memory access":   command(ops(i32(65536), i32load, drop)).bytes(),
		"invalid table access":          build{funcs: []fn{{code: ops(i32(7), "\x11\x00\x00")}}, memory: 1, table: []uint32{0}}.bytes(),
		"indirect call type mismatch": build{memory: 1, table: []uint32{0}, funcs: []fn{{results: "i", code: i32(1)},
			{code: ops(i32(0), "\x11\x01\x00")}}}.bytes(),
	} {
		got := r.runs(wasm, contracts.Sandbox{})
		assert.Equal(t, contracts.ReasonToolError, got.reason, want)
		assert.Equal(t, "sandbox: trap: "+want, got.err)
		assert.NotZero(t, got.gas, want)
	}
	data := build{funcs: []fn{{}}, memory: 1, data: "x", dataAt: 65536}
	got := r.runs(data.bytes(), contracts.Sandbox{})
	assert.Equal(t, told{"", 0, contracts.ReasonToolError, "sandbox: trap: out of bounds memory access"}, got)
}

// What is used is what was charged, and no more than was granted.
func TestGas(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	wasm := command(forever()).bytes()
	for _, gas := range []uint64{1, 999, 1_000_000, 5_000_001} {
		got := r.runs(wasm, contracts.Sandbox{Gas: gas})
		assert.Equal(t, told{"", gas, contracts.ReasonGasExhausted, ""}, got)
	}
	// A guest that ends just with its gas, and with one less.
	wasm = prints(1, "x").bytes()
	need := r.runs(wasm, contracts.Sandbox{}).gas
	assert.Equal(t, told{"x", need, contracts.ReasonAllow, ""}, r.runs(wasm, contracts.Sandbox{Gas: need}))
	assert.Equal(t, told{"", need - 1, contracts.ReasonGasExhausted, ""}, r.runs(wasm, contracts.Sandbox{Gas: need - 1}))
	// However it ends: also by an exit, a trap, or too much output.
	for _, wasm := range [][]byte{prints(1, "x", i32(1), call(1)).bytes(), prints(1, "x", unreachable).bytes()} {
		need := r.runs(wasm, contracts.Sandbox{}).gas
		assert.Equal(t, contracts.ReasonToolError, r.runs(wasm, contracts.Sandbox{Gas: need}).reason)
		assert.Equal(t, contracts.ReasonGasExhausted, r.runs(wasm, contracts.Sandbox{Gas: need - 1}).reason)
	}
}

func TestMemoryAndOutput(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	grows := command(ops(i32(3), grow, i32(1), 0x47, "\x04\x40", unreachable, end)).bytes() // if 1 != grow(3), trap
	assert.Equal(t, contracts.ReasonAllow, r.runs(grows, contracts.Sandbox{Memory: 4}).reason)
	got := r.runs(grows, contracts.Sandbox{Memory: 3})
	assert.Equal(t, told{"", got.gas, contracts.ReasonMemoryExhausted, ""}, got)
	_, err := r.Load(context.Background(), build{funcs: []fn{{}}, memory: 5}.bytes(), "box", contracts.Sandbox{Memory: 4}, Host{})
	assert.ErrorContains(t, err, "memory")

	out := prints(1, "12345").bytes()
	assert.Equal(t, contracts.ReasonAllow, r.runs(out, contracts.Sandbox{Output: 5}).reason)
	got = r.runs(out, contracts.Sandbox{Output: 4})
	assert.Equal(t, told{"", got.gas, contracts.ReasonOutputExhausted, ""}, got)
}

// Time is the caller's: at the tool's limit it is TIME; who leaves before cancels.
func TestTime(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	m := r.load(command(forever()).bytes(), contracts.Sandbox{Gas: 1e12}, Host{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	got := r.tell(ctx, m, "{}")
	assert.Equal(t, contracts.ReasonTimeExhausted, got.reason)
	assert.True(t, got.gas > 1000 && got.gas < 1e12, "%d", got.gas)
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	got = r.tell(ctx, m, "{}")
	assert.True(t, got.reason == "" && got.err == context.Canceled.Error(), "%+v", got)
}

// A call waits for one of so many instances, and its time runs on.
func TestInstances(t *testing.T) {
	t.Parallel()
	made, err := New(Options{Instances: 1})
	if err != nil {
		t.Skip("nothing was run: ", err)
	}
	r := &room{T: t, Runtime: made}
	m := r.load(command(forever()).bytes(), contracts.Sandbox{Gas: 1e12}, Host{})
	quick := r.load(command(nil).bytes(), contracts.Sandbox{}, Host{})
	long, leave := context.WithCancel(context.Background())
	done := make(chan told)
	go func() { done <- r.tell(long, m, "{}") }()
	for len(r.slots) == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	assert.Equal(t, told{"", 0, contracts.ReasonTimeExhausted, ""}, r.tell(ctx, quick, "{}"))

	closing, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	assert.ErrorIs(t, r.Close(closing), context.DeadlineExceeded, "a guest still runs")
	got := r.tell(context.Background(), quick, "{}")
	assert.Equal(t, told{"", 0, "", "sandbox: the runtime is closed"}, got)
	leave()
	<-done
	assert.NoError(t, r.Close(context.Background()))
	assert.NoError(t, r.Close(context.Background()))
	_, err = m.Run(context.Background(), contracts.Call{})
	var fault contain.Fault
	assert.True(t, errors.As(err, &fault), "%v", err)
	_, err = r.Load(context.Background(), command(nil).bytes(), "box", contracts.Sandbox{}, Host{})
	assert.ErrorIs(t, err, errClosed)
	_, err = New(Options{Instances: -1})
	assert.Error(t, err)
}

// clocks writes what two clocks say, and 24 random numbers, in two parts.
func clocks(sleep int64) []byte {
	b := command(nil, "clock_time_get", "random_get", "poll_oneoff", "fd_write")
	b.funcs[0].code = ops(
		i32(256), i64(1<<32), i64store, // the subscription at 240: clock 1 from 256 on: see below
		i32(256), i64(1), i64store, i32(264), i64(sleep), i64store, // clock 1, relative
		i32(240), i32(300), i32(1), i32(400), call(2), drop,
		i32(1), i64(0), i32(16), call(0), drop, // monotonic
		i32(0), i64(0), i32(24), call(0), drop, // wall
		callWith(1, 32, 5), callWith(1, 37, 19),
		i32(0), i32(16), i32store, i32(4), i32(40), i32store,
		callWith(3, 1, 0, 1, 8))
	return b.bytes()
}

// Clock and random follow from the decision and the gas, bit by bit.
func TestFixedClockAndSeededRandom(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	got := r.runs(clocks(0), contracts.Sandbox{})
	slept := r.runs(clocks(1e8), contracts.Sandbox{})
	require.Equal(t, contracts.ReasonAllow, got.reason, got.err)
	le := func(s string) (n uint64) {
		for i := range 8 {
			n |= uint64(s[i]) << (8 * i)
		}
		return n
	}
	mono, wall := le(got.output), le(got.output[8:])
	assert.True(t, mono > 0 && mono < got.gas)
	assert.Greater(t, wall, uint64(theTime)*1e6+mono, "an instant later")
	assert.Less(t, wall, uint64(theTime)*1e6+got.gas)
	assert.Equal(t, mono+1e8, le(slept.output), "a sleep is that much gas")
	assert.Equal(t, got.gas+1e8, slept.gas)
	seed := sha256.Sum256(append([]byte("helm sandbox random v1\n"), theDecision[:]...))
	want := make([]byte, 24)
	rand.NewChaCha8(seed).Read(want)
	assert.Equal(t, string(want), got.output[16:])

	year := r.runs(clocks(365*24*3600*1e9), contracts.Sandbox{})
	assert.Equal(t, told{"", 1e9, contracts.ReasonGasExhausted, ""}, year, "asleep for a year")
	year = r.runs(clocks(-1), contracts.Sandbox{})
	assert.Equal(t, told{"", 1e9, contracts.ReasonGasExhausted, ""}, year, "asleep for 584")
}

// The generator is that of C2SP chacha8rand, whatever the sizes of the parts that are read.
func TestRandomIsC2SP(t *testing.T) {
	t.Parallel()
	seed := [32]byte([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ123456")) // of the specification's test vector
	whole, parts := make([]byte, 4096), make([]byte, 4096)
	rand.NewChaCha8(seed).Read(whole)
	for i, want := range []uint64{0xb773b6063d4616a5, 0x1160af22a66abc3c, 0x8c2599d9418d287c, 0x7ee07e037edc5cd6} {
		assert.Equal(t, want, binary.LittleEndian.Uint64(whole[8*i:]))
	}
	for n, s := 0, rand.NewChaCha8(seed); n < len(parts); n += 1 + n%37 {
		s.Read(parts[n:min(n+1+n%37, len(parts))])
	}
	assert.Equal(t, whole, parts)
}

// The host's clock and random are the host's, and a sleep ends with the call.
func TestRealClockAndRandom(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	real := contracts.Sandbox{Clock: "real", Random: "real"}
	before := time.Now()
	a, b := r.runs(clocks(2e6), real), r.runs(clocks(2e6), real)
	require.Equal(t, contracts.ReasonAllow, a.reason, a.err)
	assert.NotEqual(t, a.output[16:], b.output[16:])
	assert.Less(t, 4*time.Millisecond, time.Since(before), "slept twice")
	var wall int64
	for i := range 8 {
		wall |= int64(a.output[8+i]) << (8 * i)
	}
	assert.True(t, wall > before.UnixNano() && wall < time.Now().UnixNano(), "%d", wall)
	assert.Equal(t, a.gas, b.gas)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	got := r.tell(ctx, r.load(clocks(365*24*3600*1e9), real, Host{}), "{}")
	assert.Equal(t, contracts.ReasonTimeExhausted, got.reason)
}

// A decision that cannot be read fails the run, and is nothing that a tool did.
func TestNoDecision(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	result, err := r.load(clocks(0), contracts.Sandbox{}, Host{}).Run(context.Background(), contracts.Call{Tool: "t"})
	var fault contain.Fault
	assert.True(t, errors.As(err, &fault) && result.Gas == 0, "%v %v", result, err)
	_, err = r.load(command(nil).bytes(), contracts.Sandbox{}, Host{}).Run(context.Background(), contracts.Call{Tool: "t"})
	assert.NoError(t, err, "one that asks for neither needs none")
}

// A fault of the engine ends no process, and is nothing that a tool did.
func TestEngineFails(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	grants := contracts.Sandbox{}.Filled()
	got := r.Runtime.run(context.Background(), &job{code: new(code), grants: &grants, decided: decided})
	var fault contain.Fault
	assert.True(t, errors.As(got.err, &fault) && got.reason == "" && got.gas == 0, "%+v", got)
	assert.Empty(t, r.slots)
	assert.Equal(t, "x", r.runs(prints(1, "x").bytes(), contracts.Sandbox{}).output, "the next guest runs")
}

// What the kernel gets of each ending.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	run := func(wasm []byte, g contracts.Sandbox) (executor.Result, error) {
		return r.load(wasm, g, Host{}).Run(context.Background(), contracts.Call{Tool: "t", Args: []byte("{}")})
	}
	got, err := run(prints(1, "x").bytes(), contracts.Sandbox{})
	assert.True(t, err == nil && string(got.Output) == "x" && !got.Raw && !got.Failed && got.Gas > 0, "%+v %v", got, err)
	got, err = run(command(forever()).bytes(), contracts.Sandbox{Gas: 5})
	assert.True(t, errors.Is(err, executor.LimitError{Reason: contracts.ReasonGasExhausted}) && got.Gas == 5, "%v", err)
	got, err = run(command(ops(unreachable)).bytes(), contracts.Sandbox{})
	assert.True(t, fmt.Sprint(err) == "sandbox: trap: unreachable" && got.Gas > 0 && got.Output == nil, "%v", err)
	_, err = run(prints(2, strings.Repeat("x", 3000), unreachable).bytes(), contracts.Sandbox{})
	assert.EqualError(t, err, `sandbox: trap: unreachable: "`+strings.Repeat("x", 1024)+`"`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = r.load(command(nil).bytes(), contracts.Sandbox{}, Host{}).Run(ctx, contracts.Call{})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestArgumentsReachTheGuest(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	// Copies the block of arguments, the environment, and stdin to stdout.
	b := command(nil, "args_get", "args_sizes_get", "environ_get", "environ_sizes_get", "fd_read", "fd_write")
	write := func(from int64, size []byte) []byte {
		return ops(i32(0), i32(from), i32store, i32(4), size, i32store, callWith(5, 1, 0, 1, 8))
	}
	b.funcs[0].code = ops(
		callWith(1, 16, 20), callWith(0, 1000, 2000), write(2000, ops(i32(20), i32load)),
		callWith(3, 16, 20), callWith(2, 1000, 2000), write(2000, ops(i32(20), i32load)),
		i32(0), i32(3000), i32store, i32(4), i32(1000), i32store, callWith(4, 0, 0, 1, 24),
		write(3000, ops(i32(24), i32load)))
	m := r.load(b.bytes(), contracts.Sandbox{Args: []string{"-x", "é"}, Env: []string{"A", "B"}},
		Host{Env: map[string]string{"B": "2", "A": ""}})
	got := r.tell(context.Background(), m, `{"n":1}`)
	assert.Equal(t, "tool\x00-x\x00é\x00A=\x00B=2\x00"+`{"n":1}`, got.output)
}

// Compiler and interpreter, and slices of any size, make the same records.
func TestSameEverywhere(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	guests := same()
	want := map[string]told{}
	for name, g := range guests {
		want[name] = r.runs(g.wasm, g.grants)
		require.NotEmpty(t, want[name].reason, name)
	}
	for _, slice := range []uint64{1, 1000, 1_000_000} {
		for _, config := range []wazero.RuntimeConfig{wazero.NewRuntimeConfigCompiler(), wazero.NewRuntimeConfigInterpreter()} {
			made, err := newRuntime(Options{}, config, slice)
			require.NoError(t, err)
			other := &room{T: t, Runtime: made}
			for name, g := range guests {
				m := other.load(g.wasm, g.grants, Host{})
				for range 2 {
					assert.Equal(t, want[name], other.tell(context.Background(), m, "{}"), "%s, slices of %d", name, slice)
				}
			}
			require.NoError(t, made.Close(context.Background()))
		}
	}
}

// And over many runs, on one processor and on two.
func TestSameOverRuns(t *testing.T) {
	race.Alone(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := newRoom(t)
	for _, wasm := range [][]byte{clocks(7), command(forever(i32(1), grow, drop)).bytes(), prints(1, "x", unreachable).bytes()} {
		m := r.load(wasm, contracts.Sandbox{Memory: 64}, Host{})
		want := r.tell(context.Background(), m, "{}")
		runs := 100
		if testing.Short() {
			runs = 10
		}
		for i := range runs {
			runtime.GOMAXPROCS(1 + i%2)
			require.Equal(t, want, r.tell(context.Background(), m, "{}"))
		}
	}
}
