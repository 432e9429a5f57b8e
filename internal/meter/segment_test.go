package meter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSegments is of what is charged where: a segment whole, wherever it is entered.
func TestSegments(t *testing.T) {
	t.Parallel()
	nops := func(n int) []byte { return times(n, cat(i32(0), opDrop)) } // each costs 1
	const void = noType
	for _, c := range []struct {
		text string
		body []byte
		gas  int64
	}{
		{"left early by return: all is paid", cat(opReturn, nops(10)), 1 + 1 + 10},
		{"left early by a branch", cat(opBr, 0, nops(10)), 1 + 1 + 10},
		{"what is unreachable counts", cat(opBlock, void, opBr, 0, nops(5), opEnd), 1 + 1 + 5},
		{"after the end of a block: the segment around", cat(opBlock, void, i32(1), opBrIf, 0, nops(5), opEnd, nops(7)), 1 + 2 + 5 + 7},
		{"an arm that is not entered is not paid", cat(i32(0), opIf, void, nops(100), opEnd, nops(3)), 1 + 2 + 3},
		{"an arm that is entered is", cat(i32(1), opIf, void, nops(100), opEnd, nops(3)), 1 + 2 + 100 + 3},
		{"an arm left early is paid whole", cat(i32(1), opIf, void, opBr, 0, nops(100), opEnd, nops(3)), 1 + 2 + 1 + 100 + 3},
		{"a block in an arm belongs to it", cat(i32(1), opIf, void, opBlock, void, nops(9), opEnd, opEnd), 1 + 2 + 9},
		{"after a loop: the segment around", cat(opLoop, void, nops(4), opEnd, nops(6)), 1 + 1 + 6 + 1 + 4},
		{"a loop that is not reached", cat(opBlock, void, opBr, 0, opLoop, void, nops(50), opEnd, opEnd), 1 + 1 + 1},
		{
			"after the end of a block that a br_table names: a segment of its own",
			cat(opBlock, void, i32(0), opBrTable, 0, 0, opEnd, nops(7)), 1 + 1 + 2 + 7,
		},
		{
			"it is not paid if it is not reached",
			cat(opBlock, void, opBlock, void, i32(0), opBrTable, 1, 1, 1, opEnd, nops(100), opEnd, nops(7)),
			1 + 3 + 100 + 7, // the inner block is not named, so the hundred belong to the function
		},
		{
			"both are named: the br_table leads past the hundred",
			cat(opBlock, void, opBlock, void, i32(0), opBrTable, 1, 1, 0, opEnd, nops(100), opEnd, nops(7)),
			1 + 3 + 7,
		},
		{
			"falling in is entering",
			cat(opBlock, void, i32(1), opIf, void, i32(0), opBrTable, 0, 1, opEnd, nops(20), opEnd, nops(7)),
			1 + 2 + 3 + 20 + 7,
		},
		{
			"an if that a br_table names",
			cat(i32(1), opIf, void, i32(0), opBrTable, 0, 0, opElse, nops(30), opEnd, nops(7)), 1 + 2 + 3 + 7,
		},
		{
			"its segment ends with the construct around it",
			cat(opBlock, void, opBlock, void, i32(0), opBrTable, 0, 0, opEnd, nops(5), opBr, 0, nops(5), opEnd, nops(7)),
			1 + 3 + 5 + 1 + 5 + 7,
		},
		{
			"a br_table to the function",
			cat(i32(0), opBrTable, 0, 0, nops(9)), 1 + 3 + 9,
		},
		{
			"a br_table to a loop begins nothing",
			cat(opLoop, void, get(0), i32(1), 0x6a, opLocalTee, 0, i32(2), 0x46, opBrTable, 1, 0, 1, nops(8), opEnd, nops(3)),
			1 + 1 + 3 + 2*(1+6+2+8), // turn 1 falls through 1 == 2 to the loop; turn 2 leaves the function
		},
	} {
		got := both(t, start("i", c.body).bytes(), plenty, "_start")
		require.NoError(t, got.err, c.text)
		assert.Equal(t, c.gas, got.gas, c.text)
	}
}

// TestLoops is of loops of each kind of type, and of branches over several of them: they are
// rewritten with three constructs around, which labels have to count.
func TestLoops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, signature, locals string
		body                    []byte
		arg, want               uint64
		gas                     int64
	}{
		{
			"loop (result i32): count to n", "i>i", "i",
			cat(opLoop, typeI32, get(1), i32(1), 0x6a, opLocalTee, 1, get(0), 0x48, opBrIf, 0, get(1), opEnd),
			7, 7, 1 + 1 + 7*9,
		},
		{
			"loop (param i32) (result i32), an index: count down", "i>i", "",
			cat(get(0), opLoop, u(1), i32(1), 0x6b, opLocalTee, 0, get(0), i32(3), 0x4a, opBrIf, 0, opEnd),
			7, 3, 1 + 1 + 1 + 4*8,
		},
		{
			"two loops, left from inside by a branch over both", "i>i", "i",
			cat(opBlock, noType, opLoop, noType, opLoop, noType,
				get(1), i32(1), 0x6a, opLocalTee, 1, get(0), 0x4e, opBrIf, 2,
				get(1), i32(3), 0x46, opBrIf, 1, opBr, 0, opEnd, opEnd, opEnd, get(1)),
			5, 5, 1 + 1 + 1 + 2*(1+1) + 5*(1+7+4+1),
		},
		{
			"a result through three loops by br_if and by return", "i>i", "",
			cat(opLoop, typeI32, opLoop, typeI32, opLoop, typeI32, i32(41), get(0), opBrIf, 3, opDrop, i32(42), opReturn, opEnd, opEnd, opEnd),
			1, 41, 1 + 1 + 2 + 2 + 1 + 5,
		},
		{
			"the same, by return", "i>i", "",
			cat(opLoop, typeI32, opLoop, typeI32, opLoop, typeI32, i32(41), get(0), opBrIf, 3, opDrop, i32(42), opReturn, opEnd, opEnd, opEnd),
			0, 42, 1 + 1 + 2 + 2 + 1 + 5,
		},
		{
			"br_table over loops", "i>i", "",
			cat(opBlock, noType, opBlock, noType, opLoop, noType, opLoop, noType, get(0), opBrTable, 2, 2, 3, 3, opEnd, opEnd, opEnd,
				i32(10), opReturn, opEnd, i32(20), opReturn),
			1, 20, 1 + 1 + 2 + 4 + 2,
		},
		{
			"values below a loop stay", "i>i", "i",
			cat(i32(100), opLoop, typeI32, get(1), i32(1), 0x6a, opLocalTee, 1, get(0), 0x48, opBrIf, 0, get(1), opEnd, 0x6a),
			9, 109, 1 + 1 + 1 + 1 + 9*9,
		},
	} {
		// The first type of a guest is _start's, the second i>i.
		f := function{name: "f", signature: c.signature, locals: c.locals, body: c.body}
		for _, calls := range []bool{false, true} {
			more := f
			if calls { // a function with a call has its body in one more block
				more.body = cat(call(2), f.body)
			}
			g := start("", nil, more, function{signature: ">"})
			got := both(t, g.bytes(), plenty, "f", c.arg)
			require.NoError(t, got.err, c.text)
			assert.Equal(t, []uint64{c.want}, got.results, c.text)
			if calls {
				assert.Equal(t, c.gas+4+1, got.gas, c.text)
			} else {
				assert.Equal(t, c.gas, got.gas, c.text)
			}
			for _, slice := range []int64{1, 3, 1000} {
				again := engines()["compiler"].run(t, g.bytes(), plenty, slice, "f", c.arg)
				require.NoError(t, again.err, c.text)
				assert.Equal(t, got.results, again.results, c.text)
				assert.Equal(t, got.gas, again.gas, "%s, slices of %d", c.text, slice)
				assert.Positive(t, again.yields)
			}
		}
	}
}

// TestUnreachable is of code after a branch, where the engine takes any types: what is added must
// be valid there too.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, dead := range [][]byte{
		cat(0x92, opDrop), cat(0xa0, 0xa0, opDrop), cat(opMemoryGrow, 0, opDrop), cat(0xfc, 11, 0), cat(0xfc, 15, 0, opDrop),
		cat(opLoop, typeF64, opUnreachable, opEnd, opDrop), cat(opLoop, typeI32, opBr, 0, opEnd, opDrop),
		cat(opIf, typeI32, opUnreachable, opElse, i32(1), opEnd, opDrop),
		cat(call(1), opDrop), cat(opSelect, opDrop), cat(opBlock, noType, i32(0), opBrTable, 1, 0, 1, opEnd),
		cat(opLoop, 1, opEnd, opDrop), // (param i32) (result i32)
	} {
		g := start("", cat(opReturn, dead), function{name: "f", signature: "i>i", body: cat(i32(1), call(1))}, function{signature: "ff>ff", body: cat(opUnreachable)})
		g.tables = [][]byte{{funcref, 0, 10}}
		got := both(t, g.bytes(), plenty, "_start")
		require.NoError(t, got.err, "% x", dead)
	}
}
