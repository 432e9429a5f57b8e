package program

// Answers are a set of answers.
type Answers uint8

// One returns the set of one answer.
func One(a Answer) Answers { return 1 << a }

const unknown = 1<<No | 1<<Yes | 1<<Failed

// Has reports whether an answer is in the set.
func (s Answers) Has(a Answer) bool { return s&One(a) != 0 }

// Possible returns the answers that a predicate can have in calls of the caller in Begin, whatever
// else they are, or more. With lent they are calls by the rights of another in that caller's
// tenant, of whom nothing is known.
func (e *Evaluator) Possible(n *Node, lent bool) Answers {
	switch n.Op {
	case OpAll:
		return e.possible(n.Kids, Yes, lent)
	case OpAny:
		return e.possible(n.Kids, No, lent)
	case OpNot:
		s := e.Possible(&n.Kids[0], lent)
		return s&One(Failed) | s&One(No)<<1 | s&One(Yes)>>1
	}
	if e.depends(n, lent) {
		return unknown
	}
	e.Visits = 0 // they are those of one decision
	return One(e.Eval(n))
}

// PossibleAll is Possible of tests that must all hold.
func (e *Evaluator) PossibleAll(tests []Node, lent bool) Answers { return e.possible(tests, Yes, lent) }

// possible goes through predicates until one has not the answer that leaves the question open.
func (e *Evaluator) possible(list []Node, open Answer, lent bool) (all Answers) {
	for i := range list {
		s := e.Possible(&list[i], lent)
		all |= s &^ One(open)
		if !s.Has(open) {
			return all
		}
	}
	return all | One(open)
}

// depends reports whether the answer to one test depends on more than what is known of the caller.
func (e *Evaluator) depends(n *Node, lent bool) bool {
	switch {
	case n.Op == OpHas:
		return lent
	case !e.ofCaller(n.Slot, lent):
		return true
	}
	return n.Ref != NoSlot && e.at(n.Slot).state == present && !e.ofCaller(n.Ref, lent)
}

// ofCaller reports whether a slot holds what is known of the caller.
func (e *Evaluator) ofCaller(slot int32, lent bool) bool {
	if slot < 0 {
		return false
	}
	from := e.tool[slot].From
	return from == FromTenant || from == FromID && !lent
}
