package meter

// A call inside a loop costs the engine registers in each turn, taken or not. So the loop is left
// to ask, and entered again:
//
//	block $out t
//	  loop $again
//	    block $ask
//	      loop $guest t
//	        (charge) (br_if $ask (gas below zero))
//	        …
//	      end
//	      br $out
//	    end
//	    call $yield (give the charge of one turn back) br $again
//	  end
//	  unreachable
//	end
//
// Values below the loop's own are out of its reach, and it has no parameters unless its type is an
// index: then there is no block type to leave it by, and it asks inside.

// loop writes the beginning of a loop, with its charge and its check.
func (w *rewriter) loop(f *frame, in *instruction, given []byte) {
	c, a := &w.code, w.added
	f.outside = in.block < 0
	if f.outside {
		c.put(opBlock)
		c.put(given[1:]...)
		c.put(opLoop, noType, opBlock, noType)
		w.depth += 3
	}
	f.label = w.depth
	c.put(given...)
	w.depth++
	w.begins()
	if f.cost = w.plan.costs[w.segment]; f.outside {
		c.below(a)
		c.index(opBrIf, 1)
	} else {
		c.check(a)
	}
}

// ask writes what stands after a loop that is left to ask. What the next entry charges again is
// given back after the host has seen it, or gas would depend on how much the host adds at a time.
func (w *rewriter) ask(f *frame) {
	c, a := &w.code, w.added
	c.index(opBr, 2)
	c.put(opEnd)
	c.index(opCall, a.yield)
	c.add(a.gas, f.cost)
	c.index(opBr, 0)
	c.put(opEnd, opUnreachable, opEnd)
	w.depth -= 3
}
