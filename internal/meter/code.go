package meter

// A code is a body as it is written.
type code struct{ b []byte }

func (c *code) put(b ...byte) { c.b = append(c.b, b...) }

func (c *code) index(op byte, index uint32) { c.b = appendU32(append(c.b, op), index) }

func (c *code) i64(v int64) { c.b = appendSigned(append(c.b, opI64Const), v) }

func (c *code) i32(v int64) { c.b = appendSigned(append(c.b, opI32Const), v) }

// charge takes gas from the global. What costs nothing leaves no code.
func (c *code) charge(a *added, gas int64) {
	if gas != 0 {
		c.add(a.gas, -gas)
	}
}

// add adds to an i64 global.
func (c *code) add(global uint32, v int64) {
	c.index(opGlobalGet, global)
	if v < 0 {
		c.i64(-v)
		c.put(opI64Sub)
	} else {
		c.i64(v)
		c.put(opI64Add)
	}
	c.index(opGlobalSet, global)
}

// below leaves on the stack whether the gas is below zero.
func (c *code) below(a *added) {
	c.index(opGlobalGet, a.gas)
	c.i64(0)
	c.put(opI64LtS)
}

// check asks the host if the gas is below zero.
func (c *code) check(a *added) {
	c.below(a)
	c.put(opIf, noType)
	c.index(opCall, a.yield)
	c.put(opEnd)
}

// end ends the guest, and says why.
func (c *code) end(a *added, why int64) {
	c.i32(why)
	c.index(opGlobalSet, a.end)
	c.put(opUnreachable)
}
