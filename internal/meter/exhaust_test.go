package meter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// TestEndless runs guests without an end: the host is asked again and again, and ends each.
func TestEndless(t *testing.T) {
	t.Parallel()
	turn := cat(opBr, 0)
	doubling := []function{}
	for i := range 60 {
		doubling = append(doubling, function{signature: ">", body: cat(call(i+2), call(i+2))})
	}
	for text, g := range map[string]*guest{
		"an empty loop":            start("", cat(opLoop, noType, turn, opEnd)),
		"a loop with a result":     start("", cat(opLoop, typeI32, turn, opEnd, opDrop)),
		"a loop with a parameter":  start("", cat(i32(1), opLoop, 1, turn, opEnd, opDrop), function{signature: "i>i", body: get(0)}),
		"through br_table":         start("", cat(opLoop, noType, i32(0), opBrTable, 0, 0, opEnd)),
		"through br_if":            start("", cat(opLoop, noType, i32(1), opBrIf, 0, opEnd)),
		"a loop in a loop":         start("", cat(opLoop, noType, opLoop, noType, i32(0), opBrIf, 0, opEnd, turn, opEnd)),
		"to the outer loop":        start("", cat(opLoop, noType, opLoop, noType, opBr, 1, opEnd, opEnd)),
		"calls in a loop":          start("", cat(opLoop, noType, call(1), turn, opEnd), function{signature: ">"}),
		"calls that double":        start("", call(1), append(doubling, function{signature: ">"})...),
		"memory.fill of 64 KiB":    start("", cat(opLoop, noType, i32(0), i32(0), i32(65536), 0xfc, 11, 0, turn, opEnd)),
		"memory.grow of no page":   start("", cat(opLoop, noType, i32(0), opMemoryGrow, 0, opDrop, turn, opEnd)),
		"table.grow of no element": start("", cat(opLoop, noType, opRefNull, funcref, i32(0), 0xfc, 15, 0, opDrop, turn, opEnd)),
		"calls of the host":        start("", cat(opLoop, noType, call(0), opDrop, turn, opEnd)),
	} {
		g.tables = [][]byte{{funcref, 0, 1}}
		if text == "calls of the host" {
			g.imports = []string{WASIModule + " sched_yield >i"}
		}
		const limit = 3_000_000
		for _, slice := range []int64{1000, 1_000_000} {
			got := engines()["compiler"].run(t, g.bytes(), limit, slice, "_start")
			require.ErrorIs(t, got.err, errGas, text)
			assert.Greater(t, got.gas, int64(limit), text)
			assert.Less(t, got.gas, int64(limit+slice+10_000), "%s: what is charged beyond the limit is one slice and a segment", text)
		}
	}
}

// TestSlices runs guests with slices of 1, 1,000 and 1,000,000: gas, results and memory are the
// same.
func TestSlices(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	fib := cat(get(0), i32(2), 0x48, opIf, noType, get(0), opReturn, opEnd,
		get(0), i32(1), 0x6b, call(1), get(0), i32(2), 0x6b, call(1), 0x6a)
	// Three nested loops that store what they count, with a fill in the middle one.
	nested := cat(opLoop, noType, opLoop, noType, i32(64), get(1), get(1), 0xfc, 11, 0, opLoop, noType,
		get(1), i32(1), 0x6a, opLocalTee, 1, i32(7), 0x6f, opBrIf, 0, opEnd,
		get(1), i32(1), 0x6a, opLocalTee, 1, i32(11), 0x6f, opBrIf, 0, opEnd,
		get(1), get(1), 0x36, 0, 0,
		get(1), get(0), 0x48, opBrIf, 0, opEnd, get(1))
	// A dispatch as Go's compiler makes it: a loop over a br_table.
	dispatch := cat(opLoop, noType, opBlock, noType, opBlock, noType, opBlock, noType, opBlock, noType,
		get(1), opBrTable, 3, 0, 1, 2, 3, opEnd,
		i32(1), set(1), opBr, 3, opEnd,
		get(2), i32(3), 0x6a, set(2), i32(2), set(1), opBr, 2, opEnd,
		i32(1), i32(3), get(2), get(0), 0x48, opSelect, set(1), call(3), opBr, 1, opEnd, opEnd, get(2))
	for text, f := range map[string]function{
		"fib":      {name: "f", signature: "i>i", body: fib},
		"nested":   {name: "f", signature: "i>i", locals: "i", body: nested},
		"dispatch": {name: "f", signature: "i>i", locals: "ii", body: cat(i32(0), set(1), dispatch)},
		"an index": {name: "f", signature: "i>i", body: cat(get(0), opLoop, u(1), i32(1), 0x6b, opLocalTee, 0, get(0), i32(3), 0x4a, opBrIf, 0, opEnd)},
		"bulk": {name: "f", signature: "i>i", locals: "i", body: cat(opLoop, noType, i32(0), i32(100), i32(4000), 0xfc, 10, 0, 0,
			get(0), i32(1), 0x6b, opLocalTee, 0, opBrIf, 0, opEnd, i32(0), opMemoryGrow, 0)},
	} {
		g := start("", nil, f, function{signature: ">"}, function{signature: ">"})
		first := both(t, g.bytes(), plenty, "f", 20)
		require.NoError(t, first.err, text)
		require.Greater(t, first.gas, int64(100), text)
		for _, slice := range []int64{1, 2, 7, 1000} {
			for name, e := range engines() {
				got := e.run(t, g.bytes(), plenty, slice, "f", 20)
				require.NoError(t, got.err, text)
				assert.Equal(t, first.gas, got.gas, "%s, %s, slices of %d", text, name, slice)
				assert.Equal(t, first.results, got.results, text)
				assert.Equal(t, first.memory, got.memory, text)
				if slice < 1000 {
					assert.Greater(t, got.yields, first.yields, text)
				}
			}
		}
	}
}

// TestChecks is of code that has no loop and yet runs for long: what runs between two checks is
// bounded. With slices of one every check asks that finds anything charged.
func TestChecks(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	leaf := func(n int) function { return function{signature: ">", body: times(n-1, cat(opNop))} } // and the end
	small, large := leaf(maxUnchecked), leaf(maxUnchecked+1)
	for _, c := range []struct {
		text   string
		calls  int
		leaf   function
		yields int
	}{
		{"a small function is not checked", 10, small, 1},
		{"a large one is", 10, large, 11},
		{"many calls of a small one", maxCalls, small, 1},
		{"more calls: each is checked", maxCalls + 1, small, 1 + maxCalls},
	} {
		g := start("", times(c.calls, call(1)), c.leaf)
		if c.calls > 100 && testing.Short() {
			continue
		}
		got := engines()["interpreter"].run(t, g.bytes(), plenty, 1, "_start")
		require.NoError(t, got.err, c.text)
		assert.Equal(t, int64(1+5*c.calls), got.gas, c.text)
		assert.Equal(t, c.yields, got.yields, c.text)
	}
}

// TestLinear rewrites modules of 32 MiB of what takes longest, which takes seconds. Were it not
// linear, the test would not end in time.
func TestLinear(t *testing.T) {
	race.Alone(t)
	if testing.Short() {
		t.Skip("32 MiB are rewritten in full runs")
	}
	const size = maxSize - 1<<16
	deep := func(b []byte) []byte {
		return cat(0, times(4096, cat(opBlock, noType)), b, times(4096, cat(opEnd)), opEnd)
	}
	labels := cat(i32(0), opBrTable, u(maxLabels-1), times(maxLabels, cat(0xff, 0x1f)))
	for text, body := range map[string][]byte{
		"br_table under 4,096 blocks": deep(times(size/len(labels), labels)),
		"nops":                        cat(0, times(size, cat(opNop)), opEnd),
		"calls":                       cat(0, times(size/2, call(0)), opEnd),
		"additions":                   cat(0, opUnreachable, times(size/3, cat(0xa0, 0xbd, 0xbf)), opEnd),
	} {
		out, err := Rewrite(body0(body), 16)
		if text == "nops" || text[:3] == "br_" {
			require.NoError(t, err, text)
			assert.LessOrEqual(t, len(out), maxRewritten, text)
		} else { // what grows most
			var refused *Error
			require.ErrorAs(t, err, &refused, text)
			assert.Equal(t, Rewritten, refused.What, text)
		}
	}
}
