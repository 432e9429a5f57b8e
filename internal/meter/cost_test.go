package meter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCharges counts each row of the table. All bodies are entered once, which costs 1.
func TestCharges(t *testing.T) {
	t.Parallel()
	if1 := cat(opIf, noType)
	for _, c := range []struct {
		text string
		body []byte
		gas  int64
	}{
		{"", nil, 1},
		{"nop", cat(opNop), 1},
		{"block nop end", cat(opBlock, noType, opNop, opEnd), 1},
		{"i32.const drop", cat(i32(7), opDrop), 1 + 1},
		{"local.get drop", cat(get(0), opDrop), 1 + 1},
		{"return", cat(opReturn), 1 + 1},
		{"br 0", cat(opBr, 0), 1 + 1},
		{"i32.const br_if 0", cat(i32(1), opBrIf, 0), 1 + 2},
		{"i32.const br_table 0", cat(i32(0), opBrTable, 0, 0), 1 + 1 + 2},
		{"i32.const i32.const i32.add drop", cat(i32(1), i32(2), 0x6a, opDrop), 1 + 3},
		{"i32.const i32.const select …", cat(i32(1), i32(2), i32(0), opSelect, opDrop), 1 + 4},
		{"call 1, which is empty", call(1), 1 + 4 + 1},
		{"i32.const call_indirect", cat(i32(0), opCallIndirect, 0, 0), 1 + 1 + 8 + 1},
		{"i32.div_s", cat(i32(6), i32(2), 0x6d, opDrop), 1 + 2 + 8},
		{"i32.div_u", cat(i32(6), i32(2), 0x6e, opDrop), 1 + 2 + 8},
		{"i32.rem_s", cat(i32(6), i32(2), 0x6f, opDrop), 1 + 2 + 8},
		{"i32.rem_u", cat(i32(6), i32(2), 0x70, opDrop), 1 + 2 + 8},
		{"i64.div_s", cat(i64(6), i64(2), 0x7f, opDrop), 1 + 2 + 8},
		{"i64.div_u", cat(i64(6), i64(2), 0x80, opDrop), 1 + 2 + 8},
		{"i64.rem_s", cat(i64(6), i64(2), 0x81, opDrop), 1 + 2 + 8},
		{"i64.rem_u", cat(i64(6), i64(2), 0x82, opDrop), 1 + 2 + 8},
		{"f32.sqrt", cat(opF32Const, 0, 0, 0, 0, 0x91, opDrop), 1 + 1 + 8},
		{"f64.sqrt", cat(opF64Const, 0, 0, 0, 0, 0, 0, 0, 0, 0x9f, opDrop), 1 + 1 + 8},
		{"f32.div", cat(times(2, cat(opF32Const, 0, 0, 0, 0)), 0x95, opDrop), 1 + 2 + 8},
		{"f64.div", cat(times(2, cat(opF64Const, 0, 0, 0, 0, 0, 0, 0, 0)), 0xa3, opDrop), 1 + 2 + 8},
		{"f64.mul", cat(times(2, cat(opF64Const, 0, 0, 0, 0, 0, 0, 0, 0)), 0xa2, opDrop), 1 + 3},
		{"if else", cat(i32(1), if1, opNop, opElse, i32(0), opDrop, opEnd), 1 + 1 + 1},
		{"the else of it", cat(i32(0), if1, opNop, opElse, i32(0), opDrop, opEnd), 1 + 1 + 1 + 1},
		{"loop", cat(opLoop, noType, opEnd), 1 + 1 + 1},
		{"five turns", cat(opLoop, noType, get(0), i32(1), 0x6a, opLocalTee, 0, i32(5), 0x48, opBrIf, 0, opEnd), 1 + 1 + 5*8},
		{"memory.size drop", cat(opMemorySize, 0, opDrop), 1 + 1},
		{"memory.grow 0", cat(i32(0), opMemoryGrow, 0, opDrop), 1 + 1 + 16},
		{"memory.grow 3", cat(i32(3), opMemoryGrow, 0, opDrop), 1 + 1 + 16 + 3*4096},
		{"memory.fill 7", cat(i32(0), i32(0), i32(7), 0xfc, 11, 0), 1 + 3 + 8},
		{"memory.fill 8", cat(i32(0), i32(0), i32(8), 0xfc, 11, 0), 1 + 3 + 8 + 1},
		{"memory.fill 65535", cat(i32(0), i32(0), i32(65535), 0xfc, 11, 0), 1 + 3 + 8 + 8191},
		{"memory.copy 800", cat(i32(0), i32(9), i32(800), 0xfc, 10, 0, 0), 1 + 3 + 8 + 100},
		{"memory.init 17", cat(i32(0), i32(0), i32(17), 0xfc, 8, 0, 0), 1 + 3 + 8 + 2},
		{"data.drop", cat(0xfc, 9, 0), 1 + 1},
		{"table.fill 5", cat(i32(0), opRefNull, funcref, i32(5), 0xfc, 17, 0), 1 + 3 + 8 + 5},
		{"table.copy 5", cat(i32(0), i32(1), i32(5), 0xfc, 14, 0, 0), 1 + 3 + 8 + 5},
		{"table.init 1", cat(i32(0), i32(0), i32(1), 0xfc, 12, 1, 0), 1 + 3 + 8 + 1},
		{"table.grow 6", cat(opRefNull, funcref, i32(6), 0xfc, 15, 0, opDrop), 1 + 2 + 8 + 6},
		{"table.size", cat(0xfc, 16, 0, opDrop), 1 + 1},
		{"elem.drop", cat(0xfc, 13, 1), 1 + 1},
		{"table.get", cat(i32(0), opTableGet, 0, opDrop), 1 + 2},
		{"ref.func ref.is_null", cat(opRefFunc, 1, opRefIsNull, opDrop), 1 + 2},
		{"i32.trunc_sat_f32_s", cat(opF32Const, 0, 0, 0, 0, 0xfc, 0, opDrop), 1 + 2},
		{"i64.extend32_s", cat(i64(0), 0xc4, opDrop), 1 + 2},
		{"i32.load", cat(i32(0), opI32Load, 2, 0, opDrop), 1 + 2},
	} {
		g := start("i", c.body, function{signature: ">"})
		g.tables = [][]byte{{funcref, 0, 10}}
		g.sections = [][]byte{
			sect(sectionElement, [][]byte{cat(0, i32(0), opEnd, 1, 1), {1, 0, 1, 1}}),
			section(nil, sectionCount, u(1)),
		}
		g.datas = [][]byte{cat(1, name("seventeen bytes .."))}
		got := both(t, g.bytes(), plenty, "_start")
		require.NoError(t, got.err, c.text)
		assert.Equal(t, c.gas, got.gas, c.text)
	}
}

// TestChargeUnsigned is of lengths above 2^31, which are not negative: the charge comes before the
// trap.
func TestChargeUnsigned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		body []byte
		gas  int64
	}{
		{"memory.fill 2^32-1", cat(i32(0), i32(0), i32(-1), 0xfc, 11, 0), 1 + 3 + 8 + (1<<32-1)/8},
		{"table.fill 2^32-1", cat(i32(0), opRefNull, funcref, i32(-1), 0xfc, 17, 0), 1 + 3 + 8 + (1<<32 - 1)},
		{"memory.grow 2^32-1", cat(i32(-1), opMemoryGrow, 0, opDrop), 1 + 1 + 16 + (1<<32-1)*4096},
	} {
		g := start("", c.body)
		g.tables = [][]byte{{funcref, 0, 10}}
		got := both(t, g.bytes(), plenty, "_start")
		require.Error(t, got.err, c.text)
		assert.Equal(t, c.gas, got.gas, c.text)

		got = both(t, g.bytes(), c.gas-1, "_start")
		require.ErrorIs(t, got.err, errGas, "%s: gas is used up before the instruction runs", c.text)
	}
}

// TestChargeWASI calls each function of WASI with 3 for each argument.
func TestChargeWASI(t *testing.T) {
	t.Parallel()
	bytes := map[string]int64{
		"args_get": 0, "fd_prestat_dir_name": 3, "fd_readdir": 3, "random_get": 3, "poll_oneoff": 3 * 48,
		"path_create_directory": 3, "path_filestat_get": 3, "path_filestat_set_times": 3, "path_link": 6,
		"path_open": 3, "path_readlink": 6, "path_remove_directory": 3, "path_rename": 6, "path_symlink": 6,
		"path_unlink_file": 3,
		// Three vectors at address 3, and the sum of what stands at 7, 15 and 23.
		"fd_read": 24 + 60, "fd_write": 24 + 60, "fd_pread": 24 + 60, "fd_pwrite": 24 + 60,
		"sock_recv": 24 + 60, "sock_send": 24 + 60,
	}
	require.Len(t, Functions(), 46)
	for i, f := range Functions() {
		if i > 0 {
			require.Less(t, Functions()[i-1].Name, f.Name)
		}
		var body []byte
		signature := ""
		for _, p := range f.Params {
			if p == typeI32 {
				body, signature = append(body, i32(3)...), signature+"i"
			} else {
				body, signature = append(body, i64(3)...), signature+"l"
			}
		}
		params := int64(len(signature))
		body, signature = append(body, call(0)...), signature+">"
		if len(f.Results) > 0 {
			body, signature = append(body, opDrop), signature+"i"
		}
		g := start("", body)
		g.imports = []string{WASIModule + " " + f.Name + " " + signature}
		g.datas = [][]byte{cat(0, i32(7), opEnd, name("\x0a\x00\x00\x00....\x14\x00\x00\x00....\x1e\x00\x00\x00"))}
		_, err := Rewrite(g.bytes(), 1)
		require.NoError(t, err, f.Name)
		got := both(t, g.bytes(), plenty, "_start")
		require.NoError(t, got.err, f.Name)
		assert.Equal(t, 1+params+4+int64(f.Gas)+bytes[f.Name], got.gas, f.Name)
		assert.Equal(t, 1, got.imports, f.Name)
		want := uint64(costWASI)
		if f.Name[:5] == "path_" {
			want = costPath
		}
		assert.Equal(t, want, f.Gas, f.Name)
	}
}

// TestChargeVectors is of lists at the end of the memory and beyond, and of lengths of 2^32-1.
func TestChargeVectors(t *testing.T) {
	t.Parallel()
	const all = int64(1<<32 - 1)
	for _, c := range []struct {
		at, n int
		gas   int64
	}{
		{0, 0, 0},
		{65536 - 8, 1, 8 + all},
		{65536 - 16, 2, 16 + all}, // the first is empty
		{65536 - 7, 1, 8},         // not within the memory: its length is not read
		{65536, 1, 8},
		{65536, 0, 0},
		{-1, -1, 8 * all},
		{-8, 2, 16},
		{0, 8192, 8192*8 + all},
		{0, 8193, 8193 * 8},
	} {
		text := fmt.Sprintf("fd_write 1 %d %d 0", c.at, c.n)
		g := start("", cat(i32(1), i32(c.at), i32(c.n), i32(0), call(0), opDrop))
		g.imports = []string{WASIModule + " fd_write iiii>i"}
		g.datas = [][]byte{cat(0, i32(65532), opEnd, name("\xff\xff\xff\xff"))}
		got := both(t, g.bytes(), plenty, "_start")
		require.NoError(t, got.err, text)
		assert.Equal(t, 1+4+4+1000+c.gas, got.gas, text)
		assert.Equal(t, 1, got.imports, text)

		got = engines()["compiler"].run(t, g.bytes(), got.gas-1, 1, "_start")
		require.ErrorIs(t, got.err, errGas, text)
		assert.Zero(t, got.imports, "%s: it is charged before it runs", text)
	}
}

// TestChargeBlocks is of what only the host knows the length of.
func TestChargeBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ function, global string }{{"args_get", Args}, {"environ_get", Environ}} {
		g := start("", cat(i32(0), i32(0), call(0), opDrop))
		g.imports = []string{WASIModule + " " + c.function + " ii>i"}
		metered, err := Rewrite(g.bytes(), 1)
		require.NoError(t, err)
		got := engines()["compiler"].call(t, metered, &tally{limit: plenty, slice: 1000, before: setGlobal(c.global, 12_345)}, "_start")
		require.NoError(t, got.err)
		assert.Equal(t, int64(1+2+4+1000+12_345), got.gas, c.function)
	}
}
