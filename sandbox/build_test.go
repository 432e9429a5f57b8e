package sandbox

import (
	"encoding/binary"
	"slices"

	"github.com/helmkernel/helm/internal/meter"
)

// A build is a module of a test, made of bytes. Functions are numbered imports first; the one that
// is called start, or the last, is _start.
type build struct {
	imports []string // of WASI
	funcs   []fn
	memory  uint32 // pages
	most    uint32 // pages; 0: none stated
	table   []uint32
	data    string // at address 0
	dataAt  uint32
	start   bool // a start section that names the last function
	begins  int  // 1 more than the function that is _start; 0: the last
}

// A fn is a function. Types are i, I, f, F for i32, i64, f32, f64.
type fn struct {
	params, results, locals string
	many                    uint32 // more locals, of i64
	code                    []byte // without the last end
}

var valueTypes = map[rune]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c}

func types(s string) (b []byte) {
	for _, r := range s {
		b = append(b, valueTypes[r])
	}
	return b
}

func u32(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func s64(n int64) (b []byte) {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vec(items ...[]byte) []byte { return append(u32(uint32(len(items))), slices.Concat(items...)...) }
func str(s string) []byte        { return append(u32(uint32(len(s))), s...) }

func section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, u32(uint32(len(content))), content)
}

func (b build) bytes() []byte {
	known := map[string]meter.Function{}
	for _, f := range meter.Functions() {
		known[f.Name] = f
	}
	var kinds, imports, funcs, codes [][]byte
	kind := func(params, results []byte) []byte {
		kinds = append(kinds, slices.Concat([]byte{0x60}, u32(uint32(len(params))), params, u32(uint32(len(results))), results))
		return u32(uint32(len(kinds) - 1))
	}
	for _, name := range b.imports {
		f, ok := known[name]
		if !ok {
			f.Params = nil // as a test of unknown imports wants it
		}
		imports = append(imports, slices.Concat(str(meter.WASIModule), str(name), []byte{0}, kind(f.Params, f.Results)))
	}
	for _, f := range b.funcs {
		funcs = append(funcs, kind(types(f.params), types(f.results)))
		var locals [][]byte
		for _, t := range types(f.locals) {
			locals = append(locals, []byte{1, t})
		}
		if f.many > 0 {
			locals = append(locals, append(u32(f.many), 0x7e))
		}
		body := slices.Concat(vec(locals...), f.code, []byte{end})
		codes = append(codes, append(u32(uint32(len(body))), body...))
	}
	last := uint32(len(b.imports) + len(b.funcs) - 1)
	first := last
	if b.begins > 0 {
		first = uint32(b.begins - 1)
	}
	exports := [][]byte{slices.Concat(str("memory"), []byte{2, 0}), slices.Concat(str("_start"), []byte{0}, u32(first))}
	memory := append([]byte{0}, u32(b.memory)...)
	if b.most > 0 {
		memory = slices.Concat([]byte{1}, u32(b.memory), u32(b.most))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, vec(kinds...))...)
	out = append(out, section(2, vec(imports...))...)
	out = append(out, section(3, vec(funcs...))...)
	if b.table != nil {
		out = append(out, section(4, vec(append([]byte{0x70, 0}, u32(uint32(len(b.table)))...)))...)
	}
	out = append(out, section(5, vec(memory))...)
	out = append(out, section(7, vec(exports...))...)
	if b.start {
		out = append(out, section(8, u32(last))...)
	}
	if b.table != nil {
		var of [][]byte
		for _, f := range b.table {
			of = append(of, u32(f))
		}
		out = append(out, section(9, vec(slices.Concat([]byte{0, 0x41, 0, end}, vec(of...))))...)
	}
	out = append(out, section(10, vec(codes...))...)
	if b.data != "" {
		at := slices.Concat([]byte{0, 0x41}, s64(int64(b.dataAt)), []byte{end})
		out = append(out, section(11, vec(slices.Concat(at, str(b.data))))...)
	}
	return out
}

// Instructions, by their names in the text form.
const (
	unreachable = 0x00
	end         = 0x0b
	els         = 0x05
	ret         = 0x0f
	drop        = 0x1a
	i32add      = 0x6a
	i32sub      = 0x6b
	i32eqz      = 0x45
	i32ltu      = 0x49
	i64add      = 0x7c
	i64mul      = 0x7e
	i64xor      = 0x85
	i32load     = "\x28\x02\x00"
	i64load     = "\x29\x03\x00"
	i32store    = "\x36\x02\x00"
	i64store    = "\x37\x03\x00"
	grow        = "\x40\x00"
	fill        = "\xfc\x0b\x00"
	void        = 0x40
)

// ops joins instructions: bytes as numbers, and more of them as strings or slices.
func ops(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		default:
			panic(p)
		}
	}
	return b
}

func i32(n int64) []byte          { return ops(0x41, s64(n)) }
func i64(n int64) []byte          { return ops(0x42, s64(n)) }
func get(n uint32) []byte         { return ops(0x20, u32(n)) }
func call(n uint32) []byte        { return ops(0x10, u32(n)) }
func br(n uint32) []byte          { return ops(0x0c, u32(n)) }
func loop(parts ...any) []byte    { return ops(0x03, void, ops(parts...), end) }
func block(parts ...any) []byte   { return ops(0x02, void, ops(parts...), end) }
func forever(parts ...any) []byte { return loop(ops(parts...), br(0)) }

// callWith calls a function with numbers, all of i32, and drops its result.
func callWith(f uint32, args ...int64) []byte {
	var b []byte
	for _, a := range args {
		b = append(b, i32(a)...)
	}
	return ops(b, call(f), drop)
}

// command is a module of one function.
func command(code []byte, imports ...string) build {
	return build{imports: imports, funcs: []fn{{code: code}}, memory: 1}
}

// prints is a module that writes its data to a stream.
func prints(fd int64, s string, after ...any) build {
	b := command(nil, "fd_write", "proc_exit")
	b.data, b.dataAt = s, 64
	b.funcs[0].code = ops(
		i32(0), i32(64), i32store, i32(4), i32(int64(len(s))), i32store, // the vector
		callWith(0, fd, 0, 1, 8), ops(after...))
	return b
}
