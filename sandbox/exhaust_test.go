package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// nested returns code n times in another.
func nested(n int, open, inner []byte) []byte {
	return slices.Concat(slices.Repeat(open, n), inner, slices.Repeat([]byte{end}, n))
}

// brTable is br_table with n labels, all of them 0.
func brTable(n uint32) []byte {
	return ops(i32(0), 0x0e, u32(n-1), make([]byte, n))
}

// exhaust are guests that want more than they may have: what the text form says, the module, and
// how it ends, under 2e7 gas, 64 MiB and 1 MiB of output.
func exhaust() map[string]struct {
	wasm []byte
	want contracts.ReasonCode
} {
	const gas, memory = contracts.ReasonGasExhausted, contracts.ReasonMemoryExhausted
	one := func(code []byte, imports ...string) []byte { return command(code, imports...).bytes() }
	funcs := func(f ...fn) []byte { return build{memory: 1, funcs: f}.bytes() }
	loops := nested(100, ops(0x03, void), call(0))
	var tree []fn // each calls the one before it twice
	for i := range 60 {
		f := fn{}
		if i > 0 {
			f.code = ops(call(uint32(i-1)), call(uint32(i-1)))
		}
		tree = append(tree, f)
	}
	big := build{memory: 1024, funcs: []fn{{code: forever(i32(0), i32(1), i32(1024<<16), fill)}}}
	vectors := build{memory: 1, most: 16384, imports: []string{"fd_write"}, funcs: []fn{{code: forever(callWith(0, 1, 0, 100_000_000, 8))}}}
	return map[string]struct {
		wasm []byte
		want contracts.ReasonCode
	}{
		"(loop br 0)":                               {one(forever()), gas},
		"(loop i32.const 0 br_table 0)":             {one(loop(brTable(1))), gas},
		"(loop (loop br 1))":                        {one(loop(loop(br(1)))), gas},
		"(loop (if 1 br 1))":                        {one(loop(i32(1), 0x04, void, br(1), end)), gas},
		"f: call f":                                 {funcs(fn{code: call(0)}), memory},
		"f: call f, 1,000 locals":                   {funcs(fn{many: 1000, code: call(0)}), memory},
		"f: call g, g: call f":                      {funcs(fn{code: call(1)}, fn{code: call(0)}), memory},
		"f: call_indirect f":                        {build{memory: 1, table: []uint32{0}, funcs: []fn{{code: ops(i32(0), "\x11\x00\x00")}}}.bytes(), memory},
		"f: 1,000 calls of f":                       {funcs(fn{code: slices.Repeat(call(0), 1000)}), memory},
		"f: 500 locals, 100 loops around a call":    {funcs(fn{many: 500, code: loops}), memory},
		"f(i64) i64: call f + 1":                    {funcs(fn{params: "I", results: "I", code: ops(get(0), call(0), i64(1), i64add)}, fn{code: ops(i64(0), call(0), drop)}), memory},
		"60 functions, each calls the next twice":   {funcs(tree...), gas},
		"loop sched_yield":                          {one(forever(call(0), drop), "sched_yield"), gas},
		"loop random_get 64 KiB":                    {one(forever(callWith(0, 0, 65536)), "random_get"), gas},
		"loop fd_write of 10^8 vectors":             {vectors.bytes(), gas},
		"loop poll_oneoff of 10^6 subscriptions":    {one(forever(callWith(0, 0, 0, 1_000_000, 8)), "poll_oneoff"), gas},
		"loop args_get":                             {one(forever(callWith(0, 0, 100)), "args_get"), gas},
		"loop memory.fill of 64 MiB":                {big.bytes(), gas},
		"loop memory.fill of 4 GiB":                 {one(forever(i32(0), i32(1), i32(-1), fill)), gas},
		"loop memory.grow 1":                        {one(forever(i32(1), grow, drop)), memory},
		"loop memory.grow 0":                        {one(forever(i32(0), grow, drop)), gas},
		"memory.grow -1":                            {one(ops(i32(-1), grow, drop)), gas},
		"loop table.grow 1":                         {build{memory: 1, table: []uint32{0}, funcs: []fn{{code: forever("\xd0\x70", i32(1), "\xfc\x0f\x00", drop)}}}.bytes(), gas},
		"table.grow 2^31":                           {build{memory: 1, table: []uint32{0}, funcs: []fn{{code: ops("\xd0\x70", i32(1<<31-1), "\xfc\x0f\x00", drop)}}}.bytes(), gas},
		"loop fd_write to stdout":                   {prints(1, strings.Repeat("x", 1000), forever(callWith(0, 1, 0, 1, 8))).bytes(), contracts.ReasonOutputExhausted},
		"loop fd_write to stderr":                   {prints(2, strings.Repeat("x", 1000), forever(callWith(0, 2, 0, 1, 8))).bytes(), gas},
		"(loop poll_oneoff, sleeping for a minute)": {clocks(60e9), gas},
		"f: call f in 60 blocks":                    {funcs(fn{code: nested(60, ops(0x02, void), call(0))}), memory},
	}
}

// heap returns how much memory is in use or not yet given back.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Each guest that wants more than it may have is ended for the reason that is recorded. The host
// neither hangs, nor holds more than 3 times the memory and 512 MiB for it, nor keeps anything.
func TestExhaustion(t *testing.T) {
	r := newRoom(t)
	runtime.GC()
	before, goroutines := heap(), runtime.NumGoroutine()
	var most atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most.Store(max(most.Load(), heap()))
			}
		}
	}()
	for name, g := range exhaust() {
		m := r.load(g.wasm, contracts.Sandbox{Gas: 2e7}, Host{})
		start := time.Now()
		got := r.tell(context.Background(), m, "{}")
		assert.Equal(t, g.want, got.reason, "%s: %s", name, got.err)
		assert.LessOrEqual(t, got.gas, uint64(2e7), name)
		if g.want == contracts.ReasonGasExhausted {
			assert.Equal(t, uint64(2e7), got.gas, name)
		}
		assert.Empty(t, got.output, name)
		record := r.call(m).Record
		assert.True(t, record.Reason == g.want && record.Outcome != contracts.Executed && record.OutputHash == nil &&
			record.Sandbox.Gas == got.gas, "%s: %+v", name, record)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: %v", name, d)
		}
		t.Logf("%-45s %s after %v", name, got.reason, time.Since(start).Round(time.Millisecond))
	}
	close(stop)
	<-stopped
	assert.Less(t, most.Load()-min(before, most.Load()), uint64(3*64<<20+512<<20))
	t.Logf("at most %d MiB more", (most.Load()-min(before, most.Load()))>>20)
	for range 100 {
		if runtime.GC(); runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "a goroutine is left")
	assert.Less(t, heap()-min(before, heap()), uint64(64<<20), "an instance is left")
}

// What no engine should be asked to compile is refused before it is, each by its name.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	one := func(code []byte, imports ...string) []byte { return command(code, imports...).bytes() }
	raw := func(from build, old, new string) []byte {
		b := from.bytes()
		require.Contains(t, string(b), old)
		return []byte(strings.Replace(string(b), old, new, 1))
	}
	blocks := nested(1000, ops(0x02, void), nil)
	for name, c := range map[string]struct {
		wasm []byte
		says string
	}{
		"a start section":             {build{memory: 1, start: true, funcs: []fn{{code: forever()}}}.bytes(), "start section"},
		"no _start":                   {raw(command(nil), "_start", "_xtart"), "_start"},
		"_start with a parameter":     {build{memory: 1, funcs: []fn{{params: "i"}}}.bytes(), "_start"},
		"no memory":                   {raw(command(nil), "memory", "mimory"), "memory"},
		"unknown import":              {one(nil, "fd_steal"), "import"},
		"import of another module":    {raw(command(nil, "fd_close"), "wasi_snapshot_preview1", "wasi_snapshot_preview2"), "import"},
		"WASI of another type":        {raw(command(nil, "sched_yield"), "\x60\x00\x01\x7f", "\x60\x00\x01\x7e"), "import"},
		"a table of 2^27":             {raw(build{memory: 1, table: []uint32{0}, funcs: []fn{{}}}, "\x04\x04\x01\x70\x00\x01", "\x04\x07\x01\x70\x00\x80\x80\x80\x40"), "table"},
		"2^27 locals":                 {build{memory: 1, funcs: []fn{{many: 1 << 27}}}.bytes(), "locals"},
		"65,537 labels":               {one(block(brTable(65538))), "labels"},
		"nesting of 10^5":             {one(nested(100_000, ops(0x02, void), nil)), "nested"},
		"2,000 locals in 1,000 loops": {build{memory: 1, funcs: []fn{{many: 2000, code: nested(1000, ops(0x03, void), nil)}}}.bytes(), "locals x"},
		"2,000 locals, 1,000 blocks":  {build{memory: 1, funcs: []fn{{many: 2000, code: slices.Repeat(block(), 1000)}}}.bytes(), "locals x"},
		"many such functions":         {build{memory: 1, funcs: slices.Repeat([]fn{{many: 200, code: blocks}}, 50)}.bytes(), "locals x"},
		"SIMD":                        {one(ops("\xfd\x0c", make([]byte, 16), drop)), "SIMD"},
		"more memory than granted":    {build{memory: 1025, funcs: []fn{{}}}.bytes(), "memory"},
		"a type error":                {one(ops(i32(1), i64(1), i32add, drop)), "invalid"},
		"no end":                      {one(ops(0x02, void)), ""},
		"text":                        {[]byte("(module)"), ""},
		"nothing":                     {nil, ""},
	} {
		start := time.Now()
		m, err := r.Load(context.Background(), c.wasm, "box", contracts.Sandbox{}, Host{})
		assert.True(t, err != nil && m == nil, name)
		assert.ErrorContains(t, err, c.says, name)
		assert.Less(t, time.Since(start), 10*time.Second, name)
	}
	whole := prints(1, "x", i32(0), call(1)).bytes()
	r.load(whole, contracts.Sandbox{}, Host{})
	code := len(whole) - len(section(11, vec(ops(0, i32(64), end, str("x")))))
	for i := range whole {
		_, err := r.Load(context.Background(), whole[:i], "box", contracts.Sandbox{}, Host{})
		assert.Equal(t, i == code, err == nil, "cut at %d: only that without its data is a module", i)
	}
}

// A guest that never calls its host is ended within 100 ms of its limit. The machine may be busy
// with other tests, so the best of a few tries counts.
func TestTimeIsHeard(t *testing.T) {
	r := newRoom(t)
	const size = 64 << 20
	miss := ops(get(0), i32(1<<12+64), i32add, i32(size-1), 0x71, "\x22", u32(0), i32load, drop) // local.tee 0
	for name, b := range map[string]build{
		"empty loop":          command(forever()),
		"cache-missing loads": {memory: 1024, funcs: []fn{{locals: "i", code: forever(slices.Repeat(miss, 50))}}},
		"memory.fill":         {memory: 1024, funcs: []fn{{code: forever(i32(0), i32(1), i32(size), fill)}}},
		"memory.copy":         {memory: 1024, funcs: []fn{{code: forever(i32(0), i32(64), i32(size-64), "\xfc\x0a\x00\x00")}}},
		"random_get":          {memory: 1024, imports: []string{"random_get"}, funcs: []fn{{code: forever(callWith(0, 0, size))}}},
		"4096 x 2 calls":      {memory: 1, funcs: []fn{{}, {code: forever(slices.Repeat(call(0), 4096))}}},
	} {
		m := r.load(b.bytes(), contracts.Sandbox{Gas: 1e12}, Host{})
		best := time.Hour
		for range 5 {
			const limit = 30 * time.Millisecond
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			got := r.tell(ctx, m, "{}")
			cancel()
			require.Equal(t, contracts.ReasonTimeExhausted, got.reason, name)
			best = min(best, time.Since(start)-limit)
		}
		assert.Less(t, best, 100*time.Millisecond, name)
		t.Logf("%-20s %v after its limit", name, best.Round(10*time.Microsecond))
	}
}

// 64 guests at once, whose contexts end at random: each ends as it should, and nothing is left.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	loops := r.load(command(forever()).bytes(), contracts.Sandbox{Gas: 1e12}, Host{})
	short := r.load(prints(1, "x").bytes(), contracts.Sandbox{}, Host{})
	var all sync.WaitGroup
	for i := range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel)
			if i%2 == 0 {
				got := r.tell(ctx, loops, "{}")
				assert.Equal(t, told{"", got.gas, "", context.Canceled.Error()}, got)
				return
			}
			got := r.tell(ctx, short, "{}")
			assert.True(t, got.output == "x" || got.err == context.Canceled.Error(), "%+v", got)
		}()
	}
	all.Wait()
	assert.Empty(t, r.slots)
}

// Nothing is kept between the calls of a module: memory, globals and descriptors are new.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	b := command(nil, "fd_write", "fd_close")
	b.data = "0"
	b.funcs[0].code = ops( // adds 1 to the digit at 0, prints it, closes stdout
		i32(0), i32(0), i32load, i32(1), i32add, i32store,
		i32(16), i32(0), i32store, i32(20), i32(1), i32store,
		callWith(0, 1, 16, 1, 8), callWith(1, 1))
	m := r.load(b.bytes(), contracts.Sandbox{}, Host{})
	for i := range 3 {
		assert.Equal(t, "1", r.tell(context.Background(), m, "{}").output, fmt.Sprint(i))
	}
}
