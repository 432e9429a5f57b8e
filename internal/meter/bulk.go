package meter

// Kinds of instructions whose work depends on their last operand, a length.
const (
	byBytes    = 1
	byElements = 2
)

// dynamic returns by what an instruction's work depends on its last operand, 0 if it does not.
func dynamic(in *instruction) int {
	if in.op != opPrefix {
		return 0
	}
	switch in.sub {
	case opMemoryInit, opMemoryCopy, opMemoryFill:
		return byBytes
	case opTableInit, opTableCopy, opTableGrow, opTableFill:
		return byElements
	}
	return 0
}

// bulk charges for the length on the stack, checks, and leaves the length there.
func (c *code) bulk(a *added, kind int, local uint32) {
	c.index(opLocalSet, local)
	c.index(opGlobalGet, a.gas)
	c.index(opLocalGet, local)
	c.put(opI64ExtendU)
	if kind == byBytes {
		c.i64(3) // bytesPerGas is 1 << 3
		c.put(opI64ShrU)
	}
	c.put(opI64Sub)
	c.index(opGlobalSet, a.gas)
	c.check(a)
	c.index(opLocalGet, local)
}

// grow charges for the pages on the stack, unsigned, and ends the guest if the memory would be
// larger than is granted, whatever the module says of its maximum.
func (c *code) grow(a *added, local uint32) {
	c.index(opLocalSet, local)
	c.index(opGlobalGet, a.gas)
	c.index(opLocalGet, local)
	c.put(opI64ExtendU)
	c.i64(costPage)
	c.put(opI64Mul, opI64Sub)
	c.index(opGlobalSet, a.gas)
	c.check(a)
	c.put(opMemorySize, 0, opI64ExtendU)
	c.index(opLocalGet, local)
	c.put(opI64ExtendU, opI64Add)
	c.i64(a.pages)
	c.put(opI64GtU, opIf, noType)
	c.end(a, EndMemory)
	c.put(opEnd)
	c.index(opLocalGet, local)
}
