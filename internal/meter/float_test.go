package meter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	nan32, other32 = 0x7fc00000, 0xffa12345 // the canonical NaN, and one that signals, with its sign set
	nan64, other64 = 0x7ff8 << 48, 0xfff4_0000_0000_1234
)

// TestCanonicalNaN runs each instruction that computes a float on NaNs, as either operand: what it
// leaves is the canonical one. The engine alone would leave an operand's bits.
func TestCanonicalNaN(t *testing.T) {
	t.Parallel()
	unary := func(ops ...int) (all [][]byte) {
		for _, op := range ops {
			all = append(all, cat(get(0), op))
		}
		return all
	}
	binary := func(ops ...int) (all [][]byte) {
		for _, op := range ops {
			all = append(all, cat(get(0), get(1), op), cat(get(1), get(0), op), cat(get(0), get(0), op))
			all = append(all, cat(get(0), get(1), op, get(1), op), cat(get(1), get(1), get(0), op, op)) // the first is hidden
		}
		return all
	}
	check := func(signature string, bodies [][]byte, reinterpret int, want uint64, args ...uint64) {
		for _, body := range bodies {
			g := start("", nil, function{name: "f", signature: signature, body: cat(body, reinterpret)})
			got := both(t, g.bytes(), plenty, "f", args...)
			require.NoError(t, got.err)
			assert.Equal(t, []uint64{want}, got.results, "% x of %x", body, args)
		}
	}
	one32, one64 := uint64(math.Float32bits(1)), math.Float64bits(1)
	check("ff>i", append(unary(0x8d, 0x8e, 0x8f, 0x90, 0x91), binary(0x92, 0x93, 0x94, 0x95, 0x96, 0x97)...), 0xbc, nan32, other32, one32)
	check("dd>l", append(unary(0x9b, 0x9c, 0x9d, 0x9e, 0x9f), binary(0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5)...), 0xbd, nan64, other64, one64)
	check("d>i", unary(0xb6), 0xbc, nan32, other64)
	check("f>l", unary(0xbb), 0xbd, nan64, other32)
	// NaNs that no operand was: 0/0, ∞-∞, 0×∞, √-1.
	inf, minus := math.Float64bits(math.Inf(1)), math.Float64bits(-1)
	check("dd>l", [][]byte{cat(get(0), get(0), 0xa3), cat(get(0), get(1), 0xa2), cat(get(1), get(1), 0xa1)}, 0xbd, nan64, 0, inf)
	check("d>l", unary(0x9f), 0xbd, nan64, minus)

	// What only moves bits leaves them.
	const sign32, sign64 = uint64(1 << 31), uint64(1 << 63)
	check("f>i", unary(0x8b), 0xbc, other32&^sign32, other32)
	check("f>i", unary(0x8c), 0xbc, other32^sign32, other32)
	check("ff>i", [][]byte{cat(get(0), get(1), 0x98)}, 0xbc, other32&^sign32, other32, one32)
	check("d>l", unary(0x99), 0xbd, other64&^sign64, other64)
	check("d>l", unary(0x9a), 0xbd, other64^sign64, other64)
	check("dd>l", [][]byte{cat(get(0), get(1), 0xa6)}, 0xbd, other64&^sign64, other64, one64)
	check("d>l", [][]byte{cat(get(0))}, 0xbd, other64, other64)
	check("d>l", [][]byte{cat(i32(0), get(0), 0x39, 3, 0, i32(0), 0x2b, 3, 0), cat(get(0), get(0), i32(1), opSelect)}, 0xbd, other64, other64)
	check("f>i", [][]byte{cat(i32(0), get(0), 0x38, 2, 0, i32(0), 0x2a, 2, 0), cat(get(0), get(0), i32(0), opSelect)}, 0xbc, other32, other32)
	check("i>i", [][]byte{cat(get(0), 0xbe)}, 0xbc, other32, other32)
	check("l>l", [][]byte{cat(get(0), 0xbf)}, 0xbd, other64, other64)
	check(">l", [][]byte{cat(opF64Const, 0x34, 0x12, 0, 0, 0, 0, 0xf4, 0xff)}, 0xbd, other64)
}

// TestNumbersStay is of results that are no NaN.
func TestNumbersStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op         int
		a, b, want float64
	}{
		{0xa0, 1.5, 2.25, 3.75}, {0xa1, 1, 3, -2}, {0xa2, -2, 8, -16}, {0xa3, 1, 0, math.Inf(1)},
		{0xa4, math.Copysign(0, -1), 0, math.Copysign(0, -1)}, {0xa5, math.Inf(-1), 2, 2},
	} {
		g := start("", nil, function{name: "f", signature: "dd>d", body: cat(get(0), get(1), c.op)})
		got := both(t, g.bytes(), plenty, "f", math.Float64bits(c.a), math.Float64bits(c.b))
		require.NoError(t, got.err)
		assert.Equal(t, []uint64{math.Float64bits(c.want)}, got.results, "%x", c.op)
	}
}
