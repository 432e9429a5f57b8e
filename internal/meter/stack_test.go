package meter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// TestStackWeight calls a function in itself as often as its weight allows, and once more.
func TestStackWeight(t *testing.T) {
	t.Parallel()
	// get if get const sub call end end are 8 instructions.
	down := func(self int) []byte { return cat(get(0), opIf, noType, get(0), i32(1), 0x6b, call(self), opEnd) }
	for _, c := range []struct {
		text   string
		locals string
		body   []byte
		weight int
	}{
		{"a parameter, a construct", "", down(1), 8 + 2*8 + 1*(1+1)},
		{"ten locals more", strings.Repeat("l", 10), down(1), 8 + 2*8 + 11*(1+1)},
		{"and two loops", strings.Repeat("l", 10), cat(opLoop, noType, opLoop, noType, opEnd, opEnd, down(1)), 8 + 2*12 + 11*(1+3)},
		{"code that is not reached", "", cat(down(1), opReturn, times(1000, cat(opNop))), 8 + 2*1009 + 1*(1+1)},
	} {
		g := start("", nil, function{name: "f", signature: "i>", locals: c.locals, body: c.body})
		most := uint64(maxStack / c.weight)
		got := engines()["compiler"].run(t, g.bytes(), plenty, 1_000_000, "f", most-1) // n calls n times, so n+1 run
		require.NoError(t, got.err, c.text)
		assert.Zero(t, got.end, c.text)
		got = engines()["compiler"].run(t, g.bytes(), plenty, 1_000_000, "f", most)
		require.Error(t, got.err, c.text)
		assert.Equal(t, uint64(EndStack), got.end, c.text)
	}
}

// TestStackEnds is of recursion of each kind without an end: the weights end it, on the compiler,
// before the engine's own stack does.
func TestStackEnds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	locals := strings.Repeat("l", 499)
	uses := func(n int) (code []byte) { // the locals, before and after a call: the engine's frame holds them
		for l := range n {
			code = cat(code, get(l), i64(1), opI64Add, set(l))
		}
		return code
	}
	for text, g := range map[string]*guest{
		"itself":                    start("", call(0)),
		"itself, in a block":        start("", cat(opBlock, noType, call(0), opEnd)),
		"with a frame":              start("lllllllllll", cat(uses(11), call(0), uses(11))),
		"each other":                start("", call(1), function{signature: ">", body: call(0)}),
		"through a table":           start("", cat(i32(0), opCallIndirect, 0, 0)),
		"a function of 1,000 calls": start("", times(1000, call(0))),
		"500 locals in 100 loops": start(locals, cat(uses(499), times(100, cat(opLoop, noType, get(0), i64(1), opI64Add, set(0), opEnd)),
			call(0), uses(499))),
	} {
		if text == "through a table" {
			g.tables = [][]byte{{funcref, 0, 1}}
			g.sections = [][]byte{sect(sectionElement, [][]byte{cat(0, i32(0), opEnd, 1, 0)})}
		}
		got := engines()["compiler"].run(t, g.bytes(), plenty, 1_000_000, "_start")
		require.Error(t, got.err, text)
		assert.Equal(t, uint64(EndStack), got.end, "%s: %v", text, got.err)
	}
}

// TestStackLeft leaves a function with a weight in each way, often enough that what stayed of its
// weight would show.
func TestStackLeft(t *testing.T) {
	t.Parallel()
	for text, body := range map[string][]byte{
		"the end":        cat(call(2), i32(5)),
		"return":         cat(call(2), i32(5), opReturn),
		"br":             cat(call(2), i32(5), opBr, 0),
		"br from inside": cat(call(2), opBlock, noType, opLoop, noType, i32(5), opBr, 2, opEnd, opEnd, opUnreachable),
		"return there":   cat(call(2), opBlock, noType, opLoop, noType, i32(5), opReturn, opEnd, opEnd, opUnreachable),
		"br_if":          cat(call(2), i32(5), i32(1), opBrIf, 0),
		"br_table":       cat(call(2), i32(5), i32(1), opBrTable, 1, 0, 0),
	} {
		g := start("i", cat(opLoop, noType, call(1), opDrop, get(0), i32(1), 0x6a, opLocalTee, 0, i32(500_000), 0x48, opBrIf, 0, opEnd),
			function{signature: ">i", body: body}, function{signature: ">"})
		got := engines()["compiler"].run(t, g.bytes(), plenty, 1_000_000, "_start")
		require.NoError(t, got.err, text)
	}
	// More than one result, which needs a type of its own.
	g := start("", nil, function{name: "f", signature: "i>il", body: cat(call(2), get(0), i64(7), get(0), opBrIf, 0, opDrop, opDrop, i32(3), i64(4))},
		function{signature: ">"})
	for arg, want := range map[uint64][]uint64{1: {1, 7}, 0: {3, 4}} {
		got := both(t, g.bytes(), plenty, "f", arg)
		require.NoError(t, got.err)
		assert.Equal(t, want, got.results)
	}
}

// TestMemoryGrow is of growing within the grant, beyond it, and beyond the module's own maximum.
func TestMemoryGrow(t *testing.T) {
	t.Parallel()
	const refused = 1<<32 - 1
	for _, c := range []struct {
		text   string
		memory []byte
		ask    uint64
		want   uint64
		end    uint64
	}{
		{"to the grant", cat(0, 1), 4, 1, 0},
		{"a page more", cat(0, 1), 5, 0, EndMemory},
		{"2^32-1 pages", cat(0, 1), 1<<32 - 1, 0, EndMemory},
		{"2^31 pages", cat(0, 1), 1 << 31, 0, EndMemory},
		{"nothing", cat(0, 5), 0, 5, 0},
		{"to the module's maximum", limitsOf(1, 3), 2, 1, 0},
		{"beyond it, within the grant", limitsOf(1, 3), 3, refused, 0},
		{"beyond both", limitsOf(1, 3), 5, 0, EndMemory},
		{"within a maximum beyond the grant", limitsOf(1, 100), 5, 0, EndMemory},
	} {
		g := start("", nil, function{name: "grow", signature: "i>i", body: cat(get(0), opMemoryGrow, 0)})
		g.memory = c.memory
		out, err := Rewrite(g.bytes(), 5)
		require.NoError(t, err)
		for name, e := range engines() {
			got := e.call(t, out, &tally{limit: plenty, slice: 1_000_000}, "grow", c.ask)
			assert.Equal(t, c.end, got.end, "%s, %s", c.text, name)
			assert.Equal(t, int64(1+1+16+4096*c.ask), got.gas, "%s, %s", c.text, name)
			if c.end == 0 {
				require.NoError(t, got.err, c.text)
				assert.Equal(t, []uint64{c.want}, got.results, "%s, %s", c.text, name)
			} else {
				assert.Error(t, got.err)
			}
			// Without the gas for it, the guest ends before.
			if c.ask > 0 {
				got = e.call(t, out, &tally{limit: 4096 * int64(c.ask), slice: 1}, "grow", c.ask)
				assert.ErrorIs(t, got.err, errGas)
				assert.Zero(t, got.end)
			}
		}
	}
}
