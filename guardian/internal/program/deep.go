package program

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// What few predicates look at: sources of values, facts of receipts, taint and labels.

// Tell says what the inputs say of sources, taint and labels, if the past is not asked. Few do.
func (e *Evaluator) Tell(state *contracts.SessionState) {
	e.deep, e.told = true, told{state.From, state.Tainted, state.Labels}
}

// from answers whether a value is from a source: it asks one after the other.
func (e *Evaluator) from(n *Node, x *slot) Answer {
	if !n.More.Kinds.has(x.kind) {
		return e.fail(n, "of a type that the sources never have")
	}
	for i := range n.More.Sources {
		if i > 0 {
			e.Visits++
		}
		switch found, what := e.supplied(&n.More.Sources[i], x); {
		case what != "":
			return e.fail(n, what)
		case found:
			return Yes
		}
	}
	same := func(u Unfound) bool { return u.node == n }
	if !slices.ContainsFunc(e.unfound, same) {
		e.unfound = append(e.unfound, Unfound{e.PointerOf(n.Slot), n.More.Sources, n})
	}
	return No
}

// supplied asks one source for a value, or says why it cannot.
func (e *Evaluator) supplied(s *Source, x *slot) (found bool, what string) {
	if e.nameless() {
		return false, unnamed
	}
	e.deep = true
	a := e.source(s)
	text := (a.Bytes + 1<<10 - 1) >> 10
	e.Visits += text
	e.text += text
	switch {
	case a.what != "":
		return false, a.what
	case e.Visits > MaxVisits:
		return false, TooMany
	case e.recall.past == nil:
		_, found = slices.BinarySearchFunc(a.found, crypto.Sum(x.text), compareDigests)
	default:
		e.asking = s.Name
		found = a.Has(x.value)
		e.asking = ""
		if found {
			a.found = append(a.found, crypto.Sum(x.text))
		}
	}
	if found && !e.spend(foundSize) {
		return false, tooMuch
	}
	return found, ""
}

// Unreadable returns the sources that a call cannot go by, if it must be judged again for them: one
// that panicked while it was asked, or those with texts if these took more visits than there are.
// The inputs do not say how long texts are, so these sources are left out of them.
func (e *Evaluator) Unreadable() (list []Unread) {
	s := &e.supplies
	if s.asking != "" {
		list = append(list, Unread{s.asking, "a panic while judging"})
	}
	if s.text > 0 && e.Visits > MaxVisits {
		for i := range s.all {
			if s.all[i].Bytes > 0 {
				list = append(list, Unread{s.all[i].Name, TooMany})
			}
		}
	}
	if list != nil {
		list = append(list, s.unread...)
	}
	return list
}

// Leave has the call go without sources.
func (e *Evaluator) Leave(list []Unread) { e.unread, e.deep = list, true }

// Unfound appends those among the tests that did not find their value.
func (e *Evaluator) Unfound(list []Unfound, tests []Node) []Unfound {
	for i := range tests {
		for _, u := range e.unfound {
			if u.node == &tests[i] {
				list = append(list, u)
			}
		}
		list = e.Unfound(list, tests[i].Kids)
	}
	return list
}

// Full reports whether some of what a source supplied is none, since there was too much of it.
func (e *Evaluator) Full(source string) bool {
	return slices.ContainsFunc(e.all, func(a supply) bool { return a.Name == source && a.Full })
}

// that answers whether the facts of a receipt are as a predicate says.
func (e *Evaluator) that(n *Node, receipt int) Answer {
	f := &e.facts
	e.deep, f.of, f.wanted = true, receipt, n.More.Facts
	f.slots = append(f.slots[:0], make([]slot, len(f.wanted))...)
	f.sets = append(f.sets[:0], make([]*value.Set, len(f.wanted))...)
	return e.Eval(&n.Kids[0])
}

// fact returns the slot of a subject that is a fact, resolved.
func (e *Evaluator) fact(i int32) *slot {
	i -= FactSlot(0)
	x, s := &e.facts.slots[i], &e.facts.wanted[i]
	if x.state != unresolved {
		return x
	}
	values, what := e.readFact(s)
	switch {
	case what != "":
		x.state, x.what = malformed, what
	case s.As == AsSet, s.As == AsFoldedSet:
		var members []string
		for v := range values.Elements() {
			members = append(members, string(v.Raw()))
		}
		x.state, e.facts.sets[i] = present, value.NewSet(members, s.As == AsFoldedSet)
	default:
		e.found = values.At(0)
		e.resolve(s, x)
		if x.state == malformed {
			x.what = "the fact " + s.Path[0] + " is " + x.what
		}
	}
	return x
}

// forgetDeep is Forget for what few calls have.
func (e *Evaluator) forgetDeep() {
	clear(e.all)
	clear(e.unfound)
	e.supplies = supplies{all: e.all[:0], unfound: e.unfound[:0]}
	f := &e.facts
	clear(f.documents)
	clear(f.slots)
	clear(f.sets)
	e.facts = facts{documents: f.documents[:0], slots: f.slots[:0], sets: f.sets[:0]}
	e.marks, e.told = marks{}, told{}
	e.found = crypto.Value{}
}

// answered answers what the past was asked, if it could tell.
func (e *Evaluator) answered(n *Node, is bool, what string) Answer {
	if what != "" {
		return e.fail(n, what)
	}
	return AnswerOf(is)
}
