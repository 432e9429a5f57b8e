package meter

import "bytes"

// Sections of a module, in the order in which they stand.
const (
	sectionCustom   = 0
	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionTable    = 4
	sectionMemory   = 5
	sectionTag      = 13
	sectionGlobal   = 6
	sectionExport   = 7
	sectionStart    = 8
	sectionElement  = 9
	sectionCount    = 12
	sectionCode     = 10
	sectionData     = 11
)

// order is the place of each section.
var order = [...]byte{
	sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4, sectionMemory: 5, sectionGlobal: 6,
	sectionExport: 7, sectionStart: 8, sectionElement: 9, sectionCount: 10, sectionCode: 11, sectionData: 12,
}

var preamble = []byte("\x00asm\x01\x00\x00\x00")

// decode reads a module. It holds the limits that a count alone can break, and finds what is
// malformed, but leaves types to the engine.
func decode(b []byte) (*module, *Error) {
	if len(b) > maxSize {
		return nil, refuse(Size)
	}
	if !bytes.HasPrefix(b, preamble) {
		return nil, refuse(Malformed)
	}
	m := new(module)
	r := reader{b: b, at: len(preamble)}
	for last := byte(0); r.more(); {
		id := r.byte()
		s := r.within(r.u32())
		r.err = s.err
		switch {
		case r.err != nil || id == sectionCustom:
			continue
		case id == sectionTag:
			return nil, refuse(Exceptions)
		case int(id) >= len(order) || order[id] <= last:
			return nil, refuse(Malformed)
		}
		last = order[id]
		m.section(id, &s)
		if s.more() {
			s.fail(Malformed)
		}
		r.err = s.err
	}
	if len(m.bodies) != len(m.funcs) || m.counted && m.dataCount != m.datas {
		r.fail(Malformed)
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

func (m *module) section(id byte, r *reader) {
	switch id {
	case sectionType:
		m.types = list(r, maxCount, Count, readType)
	case sectionImport:
		m.imports = list(r, maxCount, Count, readImport)
		for _, i := range m.imports {
			if i.kind == kindFunction {
				m.led = append(m.led, i.function)
			}
		}
	case sectionFunction:
		m.funcs = list(r, maxCount-int(m.imported(kindFunction)), Count, (*reader).u32)
	case sectionTable:
		m.tables = list(r, maxTables-int(m.imported(kindTable)), Tables, readTable)
	case sectionMemory:
		m.memories = list(r, 1-int(m.imported(kindMemory)), Memories, readLimits)
	case sectionGlobal:
		m.globals = list(r, maxGlobals-int(m.imported(kindGlobal)), Globals, readGlobal)
	case sectionExport:
		m.exports = list(r, maxCount, Count, readExport)
	case sectionStart:
		start := r.u32()
		m.start = &start
	case sectionElement:
		left := maxElements
		m.elements = list(r, maxCount, Count, func(r *reader) segment { return readElements(r, &left) })
	case sectionCount:
		m.counted, m.dataCount = true, r.u32()
	case sectionCode:
		m.bodies = list(r, maxCount, Count, func(r *reader) []byte { return r.bytes(r.u32()) })
	case sectionData:
		m.data = r.b
		m.datas = uint32(len(list(r, maxCount, Count, readData)))
	}
}

// list reads a vector of at most as many elements.
func list[T any](r *reader, most int, what string, read func(*reader) T) []T {
	n := r.vector()
	if int(n) > most {
		r.fail(what)
	}
	if r.err != nil {
		return nil
	}
	all := make([]T, 0, n)
	for range n {
		if all = append(all, read(r)); r.err != nil {
			return nil
		}
	}
	return all
}

func readType(r *reader) funcType {
	switch r.byte() {
	case 0x60:
	case 0x4e, 0x4f, 0x50, 0x5e, 0x5f: // recursive, structure and array types
		r.fail(TypedReferences)
	default:
		r.fail(Malformed)
	}
	return funcType{params: valueTypes(r), results: valueTypes(r)}
}

func valueTypes(r *reader) []byte {
	types := r.bytes(r.u32())
	for _, t := range types {
		checkType(r, t)
	}
	return types
}

// checkType refuses what is not a type of a value.
func checkType(r *reader, t byte) {
	switch t {
	case typeI32, typeI64, typeF32, typeF64, funcref, extern:
	case typeV:
		r.fail(SIMD)
	case 0x69, 0x74:
		r.fail(Exceptions)
	case 0x63, 0x64, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73:
		r.fail(TypedReferences)
	default:
		r.fail(Malformed)
	}
}

func readImport(r *reader) imported {
	i := imported{module: r.bytes(r.u32()), name: r.bytes(r.u32()), kind: r.byte()}
	switch i.kind {
	case kindFunction:
		i.function = r.u32()
	case kindTable:
		i.table = readTable(r)
	case kindMemory:
		i.memory = readLimits(r)
	case kindGlobal:
		i.global = readGlobalType(r)
	case kindTag:
		r.fail(Exceptions)
	default:
		r.fail(Malformed)
	}
	return i
}

func readTable(r *reader) table {
	t := table{element: r.byte()}
	switch checkType(r, t.element); t.element {
	case funcref, extern:
	case noType: // one with an initial value
		r.err = refuse(TypedReferences)
	default:
		r.fail(Malformed)
	}
	t.limits = readLimits(r)
	return t
}

func readLimits(r *reader) limits {
	flags := r.byte()
	switch {
	case flags <= 1:
	case flags <= 3:
		r.fail(Threads)
	case flags <= 7:
		r.fail(Memory64)
	default:
		r.fail(Malformed)
	}
	l := limits{min: r.u32(), bounded: flags == 1}
	if l.bounded {
		l.max = r.u32()
	}
	return l
}

func readGlobalType(r *reader) global {
	g := global{value: r.byte()}
	checkType(r, g.value)
	mutable := r.byte()
	if mutable > 1 {
		r.fail(Malformed)
	}
	g.mutable = mutable == 1
	return g
}

func readGlobal(r *reader) global {
	g := readGlobalType(r)
	g.init = readConstant(r)
	return g
}

func readExport(r *reader) export {
	e := export{name: r.bytes(r.u32()), kind: r.byte(), index: r.u32()}
	if e.kind == kindTag {
		r.fail(Exceptions)
	} else if e.kind > kindTag {
		r.fail(Malformed)
	}
	return e
}

// readConstant reads an expression that the engine evaluates when it makes an instance.
func readConstant(r *reader) constant {
	at := r.at
	in := readInstruction(r)
	c := constant{code: r.b[at:r.at]}
	switch in.op {
	case opI32Const, opI64Const, opF32Const, opF64Const, opGlobalGet, opRefNull:
	case opRefFunc:
		c = constant{index: in.index}
	default:
		r.fail(Malformed)
	}
	switch end := r.byte(); end {
	case opEnd:
	case opI32Const, opI64Const, opGlobalGet, 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e: // add, sub, mul
		r.fail(ExtendedConstants)
	default:
		r.fail(Malformed)
	}
	return c
}

func readElements(r *reader, left *int) segment {
	s := segment{form: r.u32(), kind: funcref}
	if s.form > 7 {
		r.fail(Malformed)
	}
	active, explicit, exprs := s.form&1 == 0, s.form&2 != 0, s.form&4 != 0
	if active && explicit {
		s.table = r.u32()
	}
	if active {
		s.offset = readConstant(r)
	}
	if s.form&3 != 0 {
		s.kind = r.byte()
		if exprs {
			checkType(r, s.kind)
		} else if s.kind != 0 {
			r.fail(Malformed)
		}
	}
	if exprs {
		s.exprs = list(r, *left, Elements, readConstant)
	} else {
		s.indices = list(r, *left, Elements, (*reader).u32)
	}
	*left -= len(s.exprs) + len(s.indices)
	return s
}

// readData passes over a data segment. Only what it must not contain matters.
func readData(r *reader) struct{} {
	switch form := r.u32(); form {
	case 0, 2:
		if form == 2 && r.u32() != 0 {
			r.fail(Memories)
		}
		if c := readConstant(r); c.code == nil {
			r.fail(Malformed) // a ref.func, which would have to move
		}
	case 1:
	default:
		r.fail(Malformed)
	}
	r.bytes(r.u32())
	return struct{}{}
}
