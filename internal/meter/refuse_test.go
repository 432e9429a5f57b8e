package meter

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm/internal/race"
)

// limitsOf are the limits of a table or a memory.
func limitsOf(min, max int) []byte { return cat(1, u(min), u(max)) }

// TestRefused is of everything that is refused, by its name.
func TestRefused(t *testing.T) {
	t.Parallel()
	body := func(b ...any) []byte { return start("", cat(b...)).bytes() }
	with := func(change func(*guest)) []byte {
		g := start("", nil)
		change(g)
		return g.bytes()
	}
	wide := function{signature: ">" + strings.Repeat("l", 1000), body: cat(opUnreachable)}
	globals := func(n int, g *guest) []byte {
		g.globals = slices.Repeat([][]byte{cat(typeI64, 1, i64(0), opEnd)}, n)
		return g.bytes()
	}
	for _, c := range []struct {
		text   string
		module []byte
		what   string
	}{
		{"v128.const", body(0xfd, 12, bytes.Repeat([]byte{0}, 16), opDrop), SIMD},
		{"(local v128)", start("v", nil).bytes(), SIMD},
		{"(param v128)", with(func(g *guest) { g.funcs = append(g.funcs, function{signature: "v>"}) }), SIMD},
		{"atomic.fence", body(0xfe, 3, 0), Threads},
		{"(memory 1 1 shared)", with(func(g *guest) { g.memory = cat(3, 1, 1) }), Threads},
		{"return_call 0", body(0x12, 0), TailCalls},
		{"return_call_indirect", body(i32(0), 0x13, 0, 0), TailCalls},
		{"throw 0", body(0x08, 0), Exceptions},
		{"try_table", body(0x1f, noType, 0, opEnd), Exceptions},
		{"(tag)", insert(body(), sectionMemory, section(nil, sectionTag, cat(1, 0, 0))), Exceptions},
		{"(export (tag 0))", with(func(g *guest) { g.exports = append(g.exports, cat(name("t"), kindTag, 0)) }), Exceptions},
		{"(import (tag))", imports(cat(name("a"), name("b"), kindTag, 0, 0)), Exceptions},
		{"call_ref 0", body(0x14, 0), TypedReferences},
		{"ref.as_non_null", body(opRefNull, funcref, 0xd4, opDrop), TypedReferences},
		{"ref.null 0", body(opRefNull, 0, opDrop), TypedReferences},
		{"(local (ref null 0))", body0(cat(1, 1, 0x63, 0, opEnd)), TypedReferences},
		{"(type (struct))", cat(preamble, section(nil, sectionType, cat(1, 0x5f, 0))), TypedReferences},
		{"(table with a value)", with(func(g *guest) { g.tables = [][]byte{cat(noType, 0, funcref, 0, 1)} }), TypedReferences},
		{
			"(global i32 (i32.add …))",
			with(func(g *guest) { g.globals = [][]byte{cat(typeI32, 0, i32(1), i32(2), 0x6a, opEnd)} }), ExtendedConstants,
		},
		{"(data (offset (i32.add …)))", with(func(g *guest) { g.datas = [][]byte{cat(0, i32(1), i32(2), 0x6a, opEnd, 0)} }), ExtendedConstants},
		{"(memory i64 1)", with(func(g *guest) { g.memory = cat(4, 1) }), Memory64},
		{"(table i64 1)", with(func(g *guest) { g.tables = [][]byte{{funcref, 4, 1}} }), Memory64},
		{"two memories", replace(body(), sectionMemory, cat(2, 0, 1, 0, 1)), Memories},
		{"memory.size 1", body(opMemorySize, 1, opDrop), Memories},
		{"i32.load 1", body(i32(0), opI32Load, 0x42, 1, 0, opDrop), Memories},
		{"memory.fill 1", body(i32(0), i32(0), i32(0), 0xfc, 11, 1), Memories},
		{"memory.copy 0 1", body(i32(0), i32(0), i32(0), 0xfc, 10, 0, 1), Memories},
		{"memory.init 0 1", body(i32(0), i32(0), i32(0), 0xfc, 8, 0, 1), Memories},
		{"(data (memory 1))", with(func(g *guest) { g.datas = [][]byte{cat(2, 1, i32(0), opEnd, 0)} }), Memories},

		{"(import env f)", with(func(g *guest) { g.imports = []string{"env f >"} }), Import},
		{"(import helm yield)", with(func(g *guest) { g.imports = []string{"helm yield >"} }), Import},
		{"an unknown name", with(func(g *guest) { g.imports = []string{WASIModule + " sock_open ii>i"} }), Import},
		{"(import (memory))", cat(preamble, section(nil, sectionImport, cat(1, cat(name(WASIModule), name("fd_read"), kindMemory, 0, 1)))), Import},
		{"(import (global))", imports(cat(name(WASIModule), name("fd_read"), kindGlobal, typeI32, 1)), Import},
		{"(import (table))", imports(cat(name(WASIModule), name("fd_read"), kindTable, funcref, 0, 1)), Import},
		{"another type", with(func(g *guest) { g.imports = []string{WASIModule + " fd_read iiil>i"} }), ImportType},
		{"another result", with(func(g *guest) { g.imports = []string{WASIModule + " proc_exit i>i"} }), ImportType},
		{"(start 0)", with(func(g *guest) { g.sections = [][]byte{section(nil, sectionStart, u(0))} }), Start},
		{"no _start", replace(body(), sectionExport, cat(1, name("memory"), kindMemory, 0)), NoStart},
		{"_start is a memory", replace(body(), sectionExport, cat(2, name("_start"), kindMemory, 0, name("memory"), kindMemory, 0)), NoStart},
		{"_start has a parameter", (&guest{funcs: []function{{signature: "i>"}}}).bytes(), NoStart},
		{"_start is beyond", replace(body(), sectionExport, cat(2, name("_start"), 0, 9, name("memory"), kindMemory, 0)), NoStart},
		{"no memory", replace(body(), sectionExport, cat(1, name("_start"), 0, 0)), NoMemory},
		{"memory is a function", replace(body(), sectionExport, cat(2, name("_start"), 0, 0, name("memory"), 0, 0)), NoMemory},
		{"(export helm.gas)", with(func(g *guest) { g.exports = [][]byte{cat(name("helm.gas"), 0, 0)} }), ExportName},
		{"(export helm.)", with(func(g *guest) { g.exports = [][]byte{cat(name("helm."), 0, 0)} }), ExportName},

		{"32 MiB and a byte", append(body(), make([]byte, maxSize)...), Size},
		{"100,001 functions", replace(body(), sectionFunction, cat(u(maxCount+1), make([]byte, maxCount+1))), Count},
		{"100,001 types", cat(preamble, section(nil, sectionType, cat(u(maxCount+1), times(maxCount+1, cat(0x60, 0, 0))))), Count},
		{"1,000,001 elements", with(func(g *guest) {
			g.sections = [][]byte{sect(sectionElement, [][]byte{cat(1, 0, u(600_000), make([]byte, 600_000)), cat(1, 0, u(400_001), make([]byte, 400_001))})}
		}), Elements},
		{"2,001 locals", body0(cat(1, u(2001), typeI32, opEnd)), Locals},
		{"2,000 locals and a parameter", (&guest{funcs: []function{{signature: ">"}, {signature: "i>", locals: strings.Repeat("i", 2000)}}}).bytes(), Locals},
		{"2^27 locals", body0(cat(1, u(1<<27), typeI32, opEnd)), Locals},
		{"2^32-1 locals thrice", body0(cat(3, times(3, cat(u(1<<32-1), typeI32)), opEnd)), Locals},
		{"4,097 blocks in one another", body(times(4097, cat(opBlock, noType)), times(4097, cat(opEnd))), Nesting},
		{"10^5 of them", body(times(1e5, cat(opLoop, noType)), times(1e5, cat(opEnd))), Nesting},
		{"65,537 labels", body(i32(0), opBrTable, u(65536), make([]byte, 65537)), Labels},
		{"2^32-1 labels", body(i32(0), opBrTable, u(1<<32-1), 0), Malformed},
		{"10,001 globals", with(func(g *guest) {
			for range 10_001 {
				g.globals = append(g.globals, cat(typeI32, 0, i32(0), opEnd))
			}
		}), Globals},
		{"9 tables", with(func(g *guest) { g.tables = slices.Repeat([][]byte{{funcref, 0, 0}}, 9) }), Tables},
		{"2,000 locals, 126 blocks", body0(cat(1, u(2000), typeI32, times(126, cat(opBlock, noType, opEnd)), opEnd)), Product},
		{"2,000 locals in 1,000 loops", body0(cat(1, u(2000), typeI32, times(1000, cat(opLoop, noType)), times(1000, cat(opEnd)), opEnd)), Product},
		{"33 functions of 2,000 locals and 125 blocks", many(33, cat(1, u(2000), typeI32, times(125, cat(opBlock, noType, opEnd)), opEnd)), Products},
		{"10,001 blocks", body(times(10_001, cat(opBlock, noType, opEnd))), Constructs},
		{"2,001 loops", body(times(2_001, cat(opLoop, noType, opEnd))), Constructs},
		{"11 functions of 10,000 blocks", many(11, cat(0, times(10_000, cat(opBlock, noType, opEnd)), opEnd)), Squares},
		{"100 globals, 2,500 calls", globals(100, start("", times(2500, call(0)))), Values},
		{"3,300 functions, 10,000 globals", globals(10_000, &guest{funcs: slices.Repeat([]function{{signature: ">"}}, 3_300)}), AllValues},
		{"251 calls that return 1,000 values", start("", cat(opReturn, times(251, call(1))), wide).bytes(), Values},
		{"251 blocks of such a type", start("", cat(opReturn, times(251, cat(opBlock, 1, opUnreachable, opEnd))), wide).bytes(), Values},
		{"such a br_table", start("", nil, function{signature: wide.signature, body: cat(call(1), i32(0), opBrTable, u(250), times(251, u(0)))}).bytes(), Values},
		{"251 such branches", start("", nil, function{signature: wide.signature, body: times(251, cat(opBr, 0))}).bytes(), Values},
		{"251 such returns", start("", nil, function{signature: wide.signature, body: times(251, cat(opReturn))}).bytes(), Values},
		{"a table of 65,537", with(func(g *guest) { g.tables = [][]byte{cat(funcref, 0, u(65537))} }), TableSize},
		{"a table of 2^27", with(func(g *guest) { g.tables = [][]byte{cat(funcref, 0, u(1<<27))} }), TableSize},
		{"17 pages", with(func(g *guest) { g.memory = cat(0, 17) }), MemorySize},
		{"no module", []byte("module"), Malformed},
		{"an instruction that is none", body(0xff), Instruction},
		{"0xfc 18", body(0xfc, 18), Instruction},
		{"a branch to nowhere", body(opBr, 1), Malformed},
		{"a table of branches to nowhere", body(i32(0), opBrTable, 1, 0, 1), Malformed},
		{"an else of nothing", body(opElse), Malformed},
		{"two elses", body(i32(0), opIf, noType, opElse, opElse, opEnd), Malformed},
		{"an end too many", body(opEnd), Malformed},
		{"no end", body0(cat(0, opNop)), Malformed},
		{"a section twice", cat(body(), section(nil, sectionData, cat(0)), section(nil, sectionData, cat(0))), Malformed},
		{"sections in another order", cat(preamble, section(nil, sectionImport, cat(0)), section(nil, sectionType, cat(0))), Malformed},
		{"a byte too many in one", replace(body(), sectionMemory, cat(1, 0, 1, 0)), Malformed},
		{"a body without a function", replace(body(), sectionFunction, cat(0)), Malformed},
		{"a function of no type", replace(many(2, cat(0, opEnd)), sectionFunction, cat(2, 0, 9)), Malformed},
		{"an u32 of six bytes", replace(body(), sectionMemory, cat(1, 0, 0x81, 0x80, 0x80, 0x80, 0x80, 0)), Malformed},
		{"an u32 of 33 bits", replace(body(), sectionMemory, cat(1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f)), Malformed},
		{"an i32 of 33 bits", body(opI32Const, 0xff, 0xff, 0xff, 0xff, 0x4f, opDrop), Malformed},
	} {
		out, err := Rewrite(c.module, 16)
		var refused *Error
		require.ErrorAs(t, err, &refused, c.text)
		assert.Equal(t, c.what, refused.What, "%s: %v", c.text, err)
		assert.Nil(t, out, c.text)
		assert.Less(t, len(err.Error()), 200, c.text)
	}
}

// TestAtLimits is of what is just within the limits: it is rewritten, and the engine takes it.
func TestAtLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		module []byte
	}{
		{"2,000 locals", body0(cat(1, u(2000), typeI32, opEnd))},
		{"4,096 blocks in one another", start("", cat(times(4096, cat(opBlock, noType)), times(4096, cat(opEnd)))).bytes()},
		{"2,000 loops in one another", start("", cat(times(2000, cat(opLoop, noType)), times(2000, cat(opEnd)))).bytes()},
		{"65,536 labels", start("", cat(i32(0), opBrTable, u(65535), make([]byte, 65536))).bytes()},
		{"2,000 locals, 125 blocks", body0(cat(1, u(2000), typeI32, times(125, cat(opBlock, noType, opEnd)), opEnd))},
		{"a table of 65,536", (&guest{funcs: []function{{signature: ">"}}, tables: [][]byte{cat(funcref, 0, u(65536))}}).bytes()},
		{"16 pages", (&guest{funcs: []function{{signature: ">"}}, memory: cat(0, 16)}).bytes()},
		{"a maximum of 65,536 pages", (&guest{funcs: []function{{signature: ">"}}, memory: limitsOf(1, 65536)}).bytes()},
		{"custom sections between all", custom((&guest{funcs: []function{{signature: ">"}}, datas: [][]byte{cat(0, i32(0), opEnd, 1, 7)}}).bytes())},
	} {
		out, err := Rewrite(c.module, 16)
		require.NoError(t, err, c.text)
		got := engines()["interpreter"].call(t, out, &tally{limit: plenty, slice: 1000}, "_start")
		require.NoError(t, got.err, c.text)
	}
}

// TestTableMaximum grows a table that states no maximum, or a larger one, to the limit.
func TestTableMaximum(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]byte{cat(0, 1), limitsOf(1, 1<<31), limitsOf(1, 65536)} {
		g := start("", nil, function{name: "grow", signature: "i>i", body: cat(opRefNull, funcref, get(0), 0xfc, 15, 0)})
		g.tables = [][]byte{cat(funcref, limits)}
		out, err := Rewrite(g.bytes(), 1)
		require.NoError(t, err)
		for n, want := range map[uint64]uint64{65535: 1, 65536: 1<<32 - 1} {
			got := engines()["compiler"].call(t, out, &tally{limit: plenty, slice: 1000}, "grow", n)
			require.NoError(t, got.err)
			assert.Equal(t, []uint64{want}, got.results)
		}
	}
}

// TestTruncated cuts a module at every byte, and flips every bit of it: Rewrite returns, and what
// it returns of a module that the engine takes is one that the engine takes.
func TestTruncated(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	whole := everything().bytes()
	_, err := Rewrite(whole, 16)
	require.NoError(t, err, "or the refusals would prove nothing")
	for n := range whole {
		_, err := Rewrite(whole[:n], 16)
		require.Error(t, err, "cut at byte %d", n)
	}
	all := newTrial(t, wazero.NewRuntimeConfigInterpreter())
	step := 1
	if testing.Short() {
		step = 29
	}
	valid := 0
	for bit := 0; bit < 8*len(whole); bit += step {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if ok, _ := all.same(t, bad); ok {
			valid++
		}
	}
	assert.Positive(t, valid)
}

// everything is a guest with something of each kind.
func everything() *guest {
	g := start("il", cat(i32(0), opIf, noType, call(0), opElse, call(2), opEnd, opLoop, noType, get(0), opBrIf, 0, opEnd,
		opBlock, noType, get(0), opBrTable, 1, 0, 1, opEnd, i32(0), opMemoryGrow, 0, opDrop, i32(0), opCallIndirect, 0, 0),
		function{name: "f", signature: "fd>d", body: cat(get(0), 0xbb, get(1), 0xa0)},
		function{name: "g", signature: ">", body: cat(i32(0), i32(0), i32(1), 0xfc, 8, 0, 0, opRefFunc, 0, opDrop)})
	g.tables = [][]byte{{funcref, 0, 3}, {extern, 1, 0, 2}}
	g.globals = [][]byte{cat(typeI64, 1, i64(5), opEnd), cat(funcref, 0, opRefFunc, 1, opEnd)}
	g.sections = [][]byte{
		sect(sectionElement, [][]byte{
			cat(0, i32(0), opEnd, 1, 2), cat(1, 0, 1, 1), cat(2, 0, i32(1), opEnd, 0, 1, 1), cat(3, 0, 1, 0),
			cat(4, i32(2), opEnd, 1, opRefFunc, 2, opEnd), cat(5, funcref, 1, opRefNull, funcref, opEnd),
			cat(6, 0, i32(0), opEnd, funcref, 1, opRefFunc, 2, opEnd), cat(7, funcref, 1, opRefFunc, 0, opEnd),
		}),
		section(nil, sectionCount, u(1)),
	}
	g.datas = [][]byte{cat(1, name("data"))}
	return g
}

// body0 is a module whose only function has this body, with its locals.
func body0(body []byte) []byte { return many(1, body) }

// many is a module of n such functions.
func many(n int, body []byte) []byte {
	g := start("", nil)
	for range n - 1 {
		g.funcs = append(g.funcs, function{signature: ">"})
	}
	return replace(g.bytes(), sectionCode, cat(u(n), times(n, sized(body))))
}

// imports is a module with one import, of any kind.
func imports(one []byte) []byte {
	return insert(start("", nil).bytes(), sectionType, section(nil, sectionImport, cat(1, one)))
}

// replace puts other contents in a section.
func replace(module []byte, id byte, contents []byte) []byte {
	return edit(module, func(s byte, given []byte) []byte {
		if s == id {
			return section(nil, s, contents)
		}
		return section(nil, s, given)
	})
}

// insert puts something after a section.
func insert(module []byte, id byte, more []byte) []byte {
	return edit(module, func(s byte, given []byte) []byte {
		if s == id {
			return append(section(nil, s, given), more...)
		}
		return section(nil, s, given)
	})
}

// custom puts a custom section before and after each.
func custom(module []byte) []byte {
	one := section(nil, sectionCustom, cat(name("debug"), 1, 2, 3))
	return edit(module, func(s byte, given []byte) []byte { return cat(one, section(nil, s, given), one) })
}

func edit(module []byte, each func(id byte, contents []byte) []byte) []byte {
	out := bytes.Clone(preamble)
	for r := (reader{b: module, at: len(preamble)}); r.more(); {
		id := r.byte()
		out = append(out, each(id, r.bytes(r.u32()))...)
	}
	return out
}
