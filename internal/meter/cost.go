package meter

// Costs that are no instruction's own.
const (
	costEnter   = 1 // a function, a turn of a loop
	costPage    = 4096
	bytesPerGas = 8 // of memory.fill, copy and init
	costWASI    = 1_000
	costPath    = 10_000
	costVector  = 8
	costSubscr  = 48
)

// cost returns what an instruction costs before it runs, without what depends on its operands.
func (in *instruction) cost() int64 {
	switch op := in.op; op {
	case opBlock, opEnd, opElse, opNop, opDrop, opUnreachable:
		return 0
	case opBrTable:
		return 2
	case opCall:
		return 4
	case opCallIndirect,
		0x6d, 0x6e, 0x6f, 0x70, // div and rem of i32
		0x7f, 0x80, 0x81, 0x82, // of i64
		0x91, 0x95, 0x9f, 0xa3: // sqrt and div of f32 and f64
		return 8
	case opMemoryGrow:
		return 16
	case opPrefix:
		switch in.sub {
		case opMemoryInit, opMemoryCopy, opMemoryFill, opTableInit, opTableCopy, opTableGrow, opTableFill:
			return 8
		}
	}
	return 1
}
