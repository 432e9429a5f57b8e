package meter

// Functions without a call or a loop are not checked at their entry, unless they are longer than
// this; and a function of more calls than maxUnchecked is checked before each. So what runs between
// two checks is bounded, whatever a module consists of.
const (
	maxUnchecked = 256
	maxCalls     = 65_536
)

// A rewriter rewrites bodies, one after the other, in the same memory.
type rewriter struct {
	module  *module
	added   *added
	plan    plan
	code    code
	globals uint64

	// Of all bodies so far.
	products, squares, values uint64

	// Of the body that is rewritten.
	reader   reader
	depth    int // constructs that are open in what is written, the function included
	segments int // begun so far
	begun    int // constructs
	segment  int
	i32      uint32 // locals
	f32, f64 uint32
	weight   int64
}

// body appends the rewritten body of a function to out.
func (w *rewriter) body(out, body []byte, t *funcType) ([]byte, *Error) {
	w.reader = reader{b: body}
	r := &w.reader
	locals, err := w.locals(r, uint64(len(t.params)))
	if err != nil {
		return nil, err
	}
	if err := w.plan.make(*r, w.module, t, locals); err != nil {
		return nil, err
	}
	if err := w.sums(locals); err != nil {
		return nil, err
	}
	w.code.b = w.code.b[:0]
	w.declare(body[:r.at], uint32(locals))
	w.enter(t)
	for len(w.plan.frames) > 0 {
		if w.instruction(); len(w.code.b) > maxRewritten {
			return nil, refuse(Rewritten)
		}
	}
	return appendBytes(out, w.code.b), nil
}

// sums adds what is bounded over all functions.
func (w *rewriter) sums(locals uint64) *Error {
	p := &w.plan
	loads := w.globals * (1 + p.calls)
	w.products += locals * uint64(len(p.named))
	w.squares += p.size() * p.size()
	w.values += loads + p.values
	switch {
	case loads > maxValues:
		return refuse(Values)
	case w.products > maxProducts:
		return refuse(Products)
	case w.squares > maxSquares:
		return refuse(Squares)
	case w.values > maxAllValues:
		return refuse(AllValues)
	}
	return nil
}

// locals reads the declarations, and returns how many there are with the parameters.
func (w *rewriter) locals(r *reader, n uint64) (uint64, *Error) {
	for range r.vector() {
		n += uint64(r.u32())
		checkType(r, r.byte())
		if r.err != nil {
			break
		}
		if n > maxLocals {
			return 0, refuse(Locals)
		}
	}
	if n > maxLocals {
		return 0, refuse(Locals)
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, nil
}

// declare writes the declarations of the locals, and of those that the plan needs.
func (w *rewriter) declare(given []byte, next uint32) {
	r := reader{b: given}
	groups := r.u32()
	var more []byte
	for _, l := range []struct {
		needed bool
		local  *uint32
		t      byte
	}{{w.plan.i32, &w.i32, typeI32}, {w.plan.f32, &w.f32, typeF32}, {w.plan.f64, &w.f64, typeF64}} {
		if l.needed {
			*l.local, next, groups = next, next+1, groups+1
			more = append(more, 1, l.t)
		}
	}
	w.code.b = appendU32(w.code.b, groups)
	w.code.put(given[r.at:]...)
	w.code.put(more...)
}

// enter writes what stands before a body: its charge, its weight and its check. A function with a
// weight has its body in a block, so that however it is left the weight is taken off again.
func (w *rewriter) enter(t *funcType) {
	c, a, p := &w.code, w.added, &w.plan
	w.depth, w.segments, w.begun, w.segment = 1, 1, 0, 0
	p.frames = append(p.frames[:0], frame{})
	c.charge(a, p.costs[0])
	w.weight = p.weight()
	switch {
	case w.weight > 0:
		c.add(a.stack, -w.weight)
		c.index(opGlobalGet, a.gas)
		c.index(opGlobalGet, a.stack)
		c.put(opI64Or)
		c.i64(0)
		c.put(opI64LtS, opIf, noType)
		c.index(opCall, a.enter)
		c.put(opEnd, opBlock)
		switch len(t.results) {
		case 0:
			c.put(noType)
		case 1:
			c.put(t.results[0])
		default:
			c.b = appendSigned(c.b, int64(w.added.types.index(nil, t.results)))
		}
		p.frames[0].label = 1
		w.depth = 2
	case p.loops > 0 || p.instructions > maxUnchecked:
		c.check(a)
	}
}

// instruction writes the next instruction, and what belongs to it.
func (w *rewriter) instruction() {
	c, a, r := &w.code, w.added, &w.reader
	at := r.at
	in := readInstruction(r)
	switch given := r.b[at:r.at]; in.op {
	case opBlock, opLoop, opIf:
		w.begin(&in, given)
	case opElse:
		c.put(opElse)
		w.begins()
	case opEnd:
		w.end()
	case opBr, opBrIf:
		c.index(in.op, w.label(in.index))
	case opBrTable:
		c.index(opBrTable, in.index)
		for labels := (reader{b: in.labels}); labels.more(); {
			c.b = appendU32(c.b, w.label(labels.u32()))
		}
	case opReturn:
		if w.weight > 0 {
			c.index(opBr, w.label(uint32(len(w.plan.frames)-1)))
		} else {
			c.put(opReturn)
		}
	case opCall:
		w.dense()
		c.index(opCall, a.function(in.index))
	case opCallIndirect:
		w.dense()
		c.put(given...)
	case opRefFunc:
		c.index(opRefFunc, a.function(in.index))
	case opMemoryGrow:
		c.grow(a, w.i32)
		c.put(given...)
	default:
		if kind := dynamic(&in); kind != 0 {
			c.bulk(a, kind, w.i32)
		}
		c.put(given...)
		if t := floats(in.op); t != 0 && !hides(r.b[r.at:]) {
			c.canonical(t, w.float(t))
		}
	}
}

func (w *rewriter) float(t byte) uint32 {
	if t == typeF32 {
		return w.f32
	}
	return w.f64
}

// dense checks before a call in a function of very many.
func (w *rewriter) dense() {
	if w.plan.calls > maxCalls {
		w.code.check(w.added)
	}
}

// begin writes the beginning of a construct.
func (w *rewriter) begin(in *instruction, given []byte) {
	f := frame{op: in.op, number: w.begun, segment: w.segment, label: w.depth}
	w.begun++
	if in.op == opLoop {
		w.loop(&f, in, given)
	} else {
		w.code.put(given...)
		w.depth++
	}
	w.plan.frames = append(w.plan.frames, f)
	if in.op == opIf {
		w.begins()
	}
}

// begins begins the next segment: it is charged here.
func (w *rewriter) begins() {
	w.segment = w.segments
	w.segments++
	w.code.charge(w.added, w.plan.costs[w.segment])
}

// end writes the end of a construct or of the function.
func (w *rewriter) end() {
	c := &w.code
	f := w.plan.frames[len(w.plan.frames)-1]
	w.plan.frames = w.plan.frames[:len(w.plan.frames)-1]
	c.put(opEnd)
	w.depth--
	switch w.segment = f.segment; {
	case f.outside:
		w.ask(&f)
	case f.op == 0 && w.weight > 0:
		c.add(w.added.stack, w.weight)
		c.put(opEnd)
	case w.plan.splits(f):
		w.begins()
	}
}

// label returns where a branch goes: the labels that were added lie between.
func (w *rewriter) label(given uint32) uint32 {
	f := &w.plan.frames[len(w.plan.frames)-1-int(given)]
	return uint32(w.depth - 1 - f.label)
}
