package meter

// Engines agree on which results are NaN, not on their bits: amd64 keeps the sign and fraction of
// an operand, arm64 of another one. So an instruction that computes a float is followed by three
// more that put the canonical NaN in place of any NaN. What only moves bits is left alone.

// floats returns the type of what an instruction computes, 0 if that can be no NaN with other bits.
func floats(op byte) byte {
	switch {
	case op >= 0x8d && op <= 0x97, op == 0xb6: // ceil, floor, trunc, nearest, sqrt, add to max; demote
		return typeF32
	case op >= 0x9b && op <= 0xa5, op == 0xbb: // the same; promote
		return typeF64
	}
	return 0
}

// hides reports whether an instruction makes the same of all NaNs in its last operand: it computes
// a float itself, compares, truncates or drops. Then the operand need not be canonical.
func hides(code []byte) bool {
	if len(code) == 0 {
		return false
	}
	switch op := code[0]; {
	case floats(op) != 0, op >= 0x5b && op <= 0x66, op == opDrop:
		return true
	case op == 0xa8, op == 0xa9, op == 0xaa, op == 0xab, op == 0xae, op == 0xaf, op == 0xb0, op == 0xb1:
		return true
	case op == opPrefix:
		return len(code) > 1 && code[1] < opMemoryInit
	}
	return false
}

// canonical puts the canonical NaN in place of any, which is not at least itself.
func (c *code) canonical(t byte, local uint32) {
	c.index(opLocalTee, local)
	if t == typeF32 {
		c.put(opF32Const, 0, 0, 0xc0, 0x7f)
	} else {
		c.put(opF64Const, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f)
	}
	c.index(opLocalGet, local)
	c.index(opLocalGet, local)
	if t == typeF32 {
		c.put(opF32Ge)
	} else {
		c.put(opF64Ge)
	}
	c.put(opSelect)
}
