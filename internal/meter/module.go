package meter

// Value types of the binary format.
const (
	typeI32 = 0x7f
	typeI64 = 0x7e
	typeF32 = 0x7d
	typeF64 = 0x7c
	typeV   = 0x7b // SIMD's
	funcref = 0x70
	extern  = 0x6f
	noType  = 0x40 // of a block
)

// Kinds of imports and exports.
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
	kindTag
)

// A module is what the rewriting has to know of one. Byte slices alias the module as given.
type module struct {
	types    []funcType
	imports  []imported
	led      []uint32 // types of the functions that are imported
	funcs    []uint32 // types of the module's own
	tables   []table
	memories []limits
	globals  []global
	exports  []export
	start    *uint32
	elements []segment
	bodies   [][]byte
	data     []byte // the data section as it is, which names nothing that moves

	counted   bool // there is a section that counts the data segments
	dataCount uint32
	datas     uint32 // as many there are
}

type funcType struct{ params, results []byte }

type imported struct {
	module, name []byte
	kind         byte
	function     uint32 // its type
	table        table
	memory       limits
	global       global
}

type limits struct {
	min, max uint32
	bounded  bool
}

type table struct {
	element byte
	limits  limits
}

type global struct {
	value   byte
	mutable bool
	init    constant
}

type export struct {
	name  []byte
	kind  byte
	index uint32
}

// A segment of elements, in any of the eight forms.
type segment struct {
	form    uint32
	table   uint32
	offset  constant
	kind    byte // 0, or a reference type in the forms with expressions
	indices []uint32
	exprs   []constant
}

// A constant is an expression of one instruction: code is all of it but the end. If it is a
// ref.func, the function is named by index and code is empty.
type constant struct {
	code  []byte
	index uint32
}

// imported returns how many imports are of a kind.
func (m *module) imported(kind byte) uint32 {
	n := uint32(0)
	for i := range m.imports {
		if m.imports[i].kind == kind {
			n++
		}
	}
	return n
}

// function returns the type of a function by its index as given, nil if there is none.
func (m *module) function(index uint32) *funcType {
	led := uint32(len(m.led))
	switch {
	case index < led:
		return m.typeAt(m.led[index])
	case uint64(index-led) < uint64(len(m.funcs)):
		return m.typeAt(m.funcs[index-led])
	}
	return nil
}

func (m *module) typeAt(index uint32) *funcType {
	if uint64(index) >= uint64(len(m.types)) {
		return nil
	}
	return &m.types[index]
}
