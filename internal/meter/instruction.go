package meter

// Instructions that the rewriting has to tell from others.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectType   = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opI32Load      = 0x28
	opI64Load32U   = 0x35
	opI64Store32   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI64LtS       = 0x53
	opI64GtU       = 0x56
	opI64GeU       = 0x5a
	opF32Ge        = 0x60
	opF64Ge        = 0x66
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64Or        = 0x84
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI32WrapI64   = 0xa7
	opI64ExtendU   = 0xad
	opSignExtend   = 0xc4 // the last of those without a prefix or an argument
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefix       = 0xfc
)

// Instructions after opPrefix.
const (
	opMemoryInit = 8
	opDataDrop   = 9
	opMemoryCopy = 10
	opMemoryFill = 11
	opTableInit  = 12
	opElemDrop   = 13
	opTableCopy  = 14
	opTableGrow  = 15
	opTableSize  = 16
	opTableFill  = 17
)

// An instruction as it stands in a body.
type instruction struct {
	op     byte
	sub    uint32 // after opPrefix
	index  uint32 // function, type, local, global or label; of br_table: the number of labels before the default
	block  int64  // of block, loop and if: their type, negative unless it is an index
	labels []byte // of br_table, the default too
}

// readInstruction reads one instruction with its arguments.
func readInstruction(r *reader) instruction {
	in := instruction{op: r.byte()}
	switch op := in.op; {
	case op == opBlock || op == opLoop || op == opIf:
		if in.block = r.signed(33); in.block < 0 && in.block != -64 {
			if in.block < -64 {
				r.fail(Malformed)
			}
			checkType(r, byte(in.block)&0x7f)
		}
	case op == opBr || op == opBrIf || op == opCall || op == opRefFunc ||
		op >= opLocalGet && op <= opTableSet:
		in.index = r.u32()
	case op == opBrTable:
		readLabels(r, &in)
	case op == opCallIndirect:
		in.index = r.u32()
		r.u32()
	case op == opSelectType:
		valueTypes(r)
	case op >= opI32Load && op <= opI64Store32:
		if align := r.u32(); align >= 64 {
			r.fail(Memories)
		}
		r.u32()
	case op == opMemorySize || op == opMemoryGrow:
		if r.byte() != 0 {
			r.fail(Memories)
		}
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op == opF32Const:
		r.bytes(4)
	case op == opF64Const:
		r.bytes(8)
	case op == opRefNull:
		if t := r.byte(); t != funcref && t != extern {
			r.fail(TypedReferences)
		}
	case op == opPrefix:
		in.sub = r.u32()
		readPrefixed(r, in.sub)
	case op <= opElse && op != 0x06 || op == opEnd || op == opReturn || op == opDrop || op == opSelect ||
		op > opF64Const && op <= opSignExtend || op == opRefIsNull: // no arguments
	default:
		r.fail(unknown(op))
	}
	return in
}

func readLabels(r *reader, in *instruction) {
	in.index = r.vector()
	if in.index+1 > maxLabels {
		r.fail(Labels)
		return
	}
	at := r.at
	for range in.index + 1 {
		if r.u32(); r.err != nil {
			return
		}
	}
	in.labels = r.b[at:r.at]
}

func readPrefixed(r *reader, sub uint32) {
	switch sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // truncations that saturate
	case opMemoryInit:
		r.u32()
		if r.byte() != 0 {
			r.fail(Memories)
		}
	case opMemoryCopy:
		if to, from := r.byte(), r.byte(); to != 0 || from != 0 {
			r.fail(Memories)
		}
	case opMemoryFill:
		if r.byte() != 0 {
			r.fail(Memories)
		}
	case opTableInit, opTableCopy:
		r.u32()
		r.u32()
	case opDataDrop, opElemDrop, opTableGrow, opTableSize, opTableFill:
		r.u32()
	default:
		r.fail(Instruction)
	}
}

// unknown returns what an instruction is refused for that is none of WebAssembly 2.0 without SIMD.
func unknown(op byte) string {
	switch op {
	case 0x06, 0x07, 0x08, 0x09, 0x0a, 0x18, 0x19, 0x1f:
		return Exceptions
	case 0x12, 0x13:
		return TailCalls
	case 0x14, 0x15, 0xd3, 0xd4, 0xd5, 0xd6, 0xfb:
		return TypedReferences
	case 0xfd:
		return SIMD
	case 0xfe:
		return Threads
	}
	return Instruction
}
