package guardian

import (
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A walk goes through the arrays that a quantifier names, and the elements of each.
type walk struct {
	s     *scratch
	n     *node
	count int // of opCount: elements that counted
}

func (s *scratch) quantify(n *node) answer {
	x := s.at(n.slot)
	switch x.state {
	case missing:
		return s.gone(n)
	case malformed:
		return s.fail(n, x.what)
	}
	s.inner = n.more.inner
	if need := len(s.inner); cap(s.items) < need {
		s.items = make([]slot, need)
	} else {
		s.items = s.items[:need]
	}
	w := walk{s: s, n: n}
	a := w.array(x.value, n.more.rest)
	s.enter(crypto.Value{}) // leave nothing of the last element
	s.inner, s.items = nil, s.items[:0]
	switch {
	case a != done:
		return a
	case n.op == opCount:
		return s.comparedCount(n, float64(w.count))
	}
	return answerOf(n.op == opEvery)
}

// done is no answer yet: every element so far left the question open.
const done answer = -1

// array goes through one array. rest is what of the pointer is left: a star, then how to go on from each element.
func (w *walk) array(v crypto.Value, rest []string) answer {
	s, n := w.s, w.n
	if len(rest) > 0 {
		return w.flatten(v, rest)
	}
	if n.kids == nil {
		w.count += v.Len()
		return done
	}
	for it := v.Iter(); it.Next(); {
		s.enter(it.Value())
		if a := w.took(s.eval(&n.kids[0])); a != done {
			return a
		}
	}
	return done
}

// took takes the answer for one element into account.
func (w *walk) took(a answer) answer {
	switch {
	case a == failed:
		return failed
	case w.n.op == opCount:
		w.count += int(a)
		return done
	case a == answerOf(w.n.op == opSome):
		return a // decided
	}
	return done
}

// flatten goes from each element of v to the arrays below it.
func (w *walk) flatten(v crypto.Value, rest []string) answer {
	s, n := w.s, w.n
	rest = rest[1:] // the star
	next := 0
	for next < len(rest) && rest[next] != value.Star {
		next++
	}
	for it := v.Iter(); it.Next(); {
		if s.visits++; s.visits > maxVisits {
			return s.fail(n, tooMany)
		}
		x := value.Follow(it.Value(), rest[:next])
		a := done
		switch {
		case !x.Exists():
			a = s.gone(n) // an array that is missing answers like an element
			if a = w.took(a); a != done {
				return a
			}
		case x.Kind() != crypto.Array:
			return s.fail(n, "not an array")
		default:
			if a = w.array(x, rest[next:]); a != done {
				return a
			}
		}
	}
	return done
}

// comparedCount compares a count as the predicate says.
func (s *scratch) comparedCount(n *node, count float64) answer {
	limit := n.limit
	if n.ref != noSlot {
		y := s.at(n.ref)
		switch y.state {
		case missing:
			return s.gone(n)
		case malformed:
			return s.fail(n, "compared with a value that is "+y.what)
		}
		limit = y.num
	}
	switch n.num {
	case opEq:
		return answerOf(count == limit)
	case opNe:
		return answerOf(count != limit)
	case opLt:
		return answerOf(count < limit)
	case opLe:
		return answerOf(count <= limit)
	case opGt:
		return answerOf(count > limit)
	case opGe:
		return answerOf(count >= limit)
	}
	return s.fail(n, "not a predicate")
}
