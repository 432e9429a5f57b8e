package meter

// A plan is what the first pass over a body finds for the second, which rewrites it.
//
// A segment is the instructions that stand directly, or in blocks, in a function's body, in a loop,
// in an arm of an if, or after the end of a block or an if that a br_table names, up to the end of
// the construct around it. What follows any other end belongs to the segment in which the construct
// began. Inside a segment control goes only forward, so one charge at its beginning pays for it.
//
// Why a br_table's targets begin segments: Go's compiler makes a function one loop over a br_table
// that continues where a call returned. Charged with the rest, each of those entries would pay for
// the whole function.
type plan struct {
	costs        []int64 // of each segment, in the order in which they begin
	named        []bool  // whether a br_table names the construct; in the order in which they begin
	frames       []frame // the constructs that are open
	locals       uint64  // with the parameters
	instructions uint64
	calls        uint64
	loops        uint64
	values       uint64 // passed by blocks, branches and calls
	i32, f32     bool   // a local is needed that holds the operand of an instruction
	f64          bool
}

// A frame is a construct that is open, or the function.
type frame struct {
	op      byte // opBlock, opLoop, opIf, opElse; 0 of the function
	number  int  // in the order in which constructs begin
	segment int  // the one in which it began
	label   int  // in the second pass: where a branch to it goes, counted from outside
	outside bool // in the second pass: a loop that is left to ask
	cost    int64
	values  int // that a branch to it passes
}

// make fills the plan from a body after its locals. It reuses the plan's memory.
func (p *plan) make(r reader, m *module, t *funcType, locals uint64) *Error {
	*p = plan{
		costs: append(p.costs[:0], costEnter), named: p.named[:0],
		frames: append(p.frames[:0], frame{values: len(t.results)}), locals: locals,
	}
	for now := 0; len(p.frames) > 0; {
		in := readInstruction(&r)
		if r.err != nil {
			return r.err
		}
		p.instructions++
		p.costs[now] += in.cost()
		switch in.op {
		case opBlock, opLoop, opIf:
			if len(p.frames) > maxNesting {
				return refuse(Nesting)
			}
			f := frame{op: in.op, number: len(p.named), segment: now}
			if err := p.open(&f, &in, m); err != nil {
				return err
			}
			p.frames = append(p.frames, f)
			p.named = append(p.named, false)
			switch in.op {
			case opLoop:
				p.loops++
				now = p.segment(costEnter)
			case opIf:
				now = p.segment(0)
			}
		case opElse:
			f := &p.frames[len(p.frames)-1]
			if f.op != opIf {
				return refuse(Malformed)
			}
			f.op = opElse
			now = p.segment(0)
		case opEnd:
			f := p.frames[len(p.frames)-1]
			p.frames = p.frames[:len(p.frames)-1]
			if now = f.segment; p.splits(f) {
				now = p.segment(0)
			}
		case opBr, opBrIf:
			if uint64(in.index) >= uint64(len(p.frames)) {
				return refuse(Malformed)
			}
			p.values += uint64(p.frames[len(p.frames)-1-int(in.index)].values)
		case opBrTable:
			if err := p.name(&in); err != nil {
				return err
			}
		default:
			if err := p.need(&in, m); err != nil {
				return err
			}
		}
		if p.values > maxValues {
			return refuse(Values)
		}
	}
	if r.more() {
		return refuse(Malformed)
	}
	switch {
	case locals*uint64(len(p.named)) > maxProduct:
		return refuse(Product)
	case p.size() > maxConstruct:
		return refuse(Constructs)
	}
	return nil
}

// size returns what the engine's compiler needs the square of: a loop is five constructs.
func (p *plan) size() uint64 { return uint64(len(p.named)) + 4*p.loops }

// open notes what a construct passes.
func (p *plan) open(f *frame, in *instruction, m *module) *Error {
	switch {
	case in.block >= 0:
		t := m.typeAt(uint32(in.block))
		if t == nil {
			return refuse(Malformed)
		}
		p.values += uint64(len(t.params) + len(t.results))
		if f.values = len(t.results); in.op == opLoop {
			f.values = len(t.params)
		}
	case in.block != -64 && in.op != opLoop:
		f.values = 1
	}
	return nil
}

// segment begins one.
func (p *plan) segment(cost int64) int {
	p.costs = append(p.costs, cost)
	return len(p.costs) - 1
}

// splits reports whether what follows the end of a construct is a segment of its own.
func (p *plan) splits(f frame) bool {
	return f.op != 0 && f.op != opLoop && p.named[f.number]
}

// name marks the constructs that a br_table names.
func (p *plan) name(in *instruction) *Error {
	labels := reader{b: in.labels}
	for labels.more() {
		l := labels.u32()
		if uint64(l) >= uint64(len(p.frames)) {
			return refuse(Malformed)
		}
		f := &p.frames[len(p.frames)-1-int(l)]
		if p.values += uint64(f.values); f.op != 0 {
			p.named[f.number] = true
		}
	}
	return nil
}

// need notes what an instruction needs of the function around it.
func (p *plan) need(in *instruction, m *module) *Error {
	switch {
	case in.op == opCall || in.op == opCallIndirect:
		t := m.typeAt(in.index)
		if in.op == opCall {
			t = m.function(in.index)
		}
		if t == nil {
			return refuse(Malformed)
		}
		p.calls++
		p.values += uint64(len(t.params) + len(t.results))
	case in.op == opReturn:
		p.values += uint64(p.frames[0].values)
	case in.op == opMemoryGrow, dynamic(in) != 0:
		p.i32 = true
	default:
		switch floats(in.op) {
		case typeF32:
			p.f32 = true
		case typeF64:
			p.f64 = true
		}
	}
	return nil
}

// weight returns what the function weighs on the stack: the engine's frames grow with the code, and
// code without a call is the last frame.
func (p *plan) weight() int64 {
	if p.calls == 0 {
		return 0
	}
	return int64(8 + 2*p.instructions + p.locals*(1+uint64(len(p.named))))
}
