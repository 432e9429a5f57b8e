package program

import (
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A walk goes through the arrays and maps that a quantifier names, and the elements of each.
type walk struct {
	e     *Evaluator
	n     *Node
	count int // of OpCount: elements that counted
}

func (e *Evaluator) quantify(n *Node) Answer {
	x := e.at(n.Slot)
	switch x.state {
	case missing:
		return e.gone(n)
	case malformed:
		return e.fail(n, x.what)
	}
	e.inner = n.More.Inner
	if n := len(e.inner); cap(e.items) < n {
		e.items = make([]slot, n)
	} else {
		e.items = e.items[:n]
	}
	w := walk{e: e, n: n}
	a := w.array(x.value, n.More.Rest, n.More.Maps)
	e.enter(crypto.Value{}) // leave nothing of the last element
	e.inner, e.items = nil, e.items[:0]
	switch {
	case a != undecided:
		return a
	case n.Op == OpCount:
		return e.compareCount(n, float64(w.count))
	}
	return AnswerOf(n.Op == OpEvery)
}

// undecided is no answer yet: every element so far left the question open.
const undecided Answer = -1

// array goes through one array or map. rest is the rest of the pointer: a star, then the way on
// from each element. maps says for each star what it leads to.
func (w *walk) array(v crypto.Value, rest []string, maps []bool) Answer {
	if len(rest) > 0 {
		return w.flatten(v, rest, maps)
	}
	if w.n.Kids == nil {
		w.count += v.Len()
		return undecided
	}
	for it := v.Iter(); it.Next(); {
		w.e.enter(it.Value())
		if a := w.take(w.e.Eval(&w.n.Kids[0])); a != undecided {
			return a
		}
	}
	return undecided
}

// take takes the answer for one element into account.
func (w *walk) take(a Answer) Answer {
	switch {
	case a == Failed:
		return Failed
	case w.n.Op == OpCount:
		w.count += int(a)
		return undecided
	case a == AnswerOf(w.n.Op == OpSome):
		return a // decided
	}
	return undecided
}

// flatten goes from each element of v to the arrays below it.
func (w *walk) flatten(v crypto.Value, rest []string, maps []bool) Answer {
	rest = rest[1:] // the star
	next := 0
	for next < len(rest) && rest[next] != value.Star {
		next++
	}
	for it := v.Iter(); it.Next(); {
		w.e.Visits++
		if w.e.Visits > MaxVisits {
			return w.e.fail(w.n, TooMany)
		}
		x := value.Follow(it.Value(), rest[:next])
		a := undecided
		switch {
		case !x.Exists():
			a = w.take(w.e.gone(w.n)) // an array that is missing answers like an element
		case x.Kind() != crypto.Array && !(x.Kind() == crypto.Object && maps[0]):
			return w.e.fail(w.n, "not an array")
		default:
			a = w.array(x, rest[next:], maps[1:])
		}
		if a != undecided {
			return a
		}
	}
	return undecided
}

// compareCount compares a count as the predicate says.
func (e *Evaluator) compareCount(n *Node, count float64) Answer {
	limit := n.Limit
	if n.Ref != NoSlot {
		y := e.at(n.Ref)
		switch y.state {
		case missing:
			return e.gone(n)
		case malformed:
			return e.fail(n, e.unreadable(n.Ref, y))
		}
		limit = y.num
	}
	switch n.Num {
	case OpEq:
		return AnswerOf(count == limit)
	case OpNe:
		return AnswerOf(count != limit)
	case OpLt:
		return AnswerOf(count < limit)
	case OpLe:
		return AnswerOf(count <= limit)
	case OpGt:
		return AnswerOf(count > limit)
	case OpGe:
		return AnswerOf(count >= limit)
	}
	return e.fail(n, "not a predicate")
}
