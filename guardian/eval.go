package guardian

import (
	"bytes"
	"math"
	"regexp"
	"time"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// An answer of a predicate. An error is one that no not, any or all can turn into another.
type answer int8

const (
	no answer = iota
	yes
	failed
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// An op is what a node does. Those before opHas have other nodes below them.
type op uint8

const (
	opAll op = iota + 1
	opAny
	opNot
	opEvery
	opSome
	opCount
	opHas // those that look at no slot
	opTime
	opReceipt
	opCalls
	opEq // those that do
	opNe
	opIn
	opNotIn
	opLt
	opLe
	opGt
	opGe
	opPrefix
	opSuffix
	opMatch // regex and finds
	opBelow // within one path
	opWithin
	opURL
	opHost
	opEmail
	opCIDR
	opAge
	opType
	opExists
)

// A node is one predicate, compiled for one tool.
type node struct {
	op     op
	num    op          // of opCount: how to compare
	absent answer      // for a value that is missing; failed where the schema says that it cannot be
	fold   bool        // letters of ASCII are equal in both cases
	flag   bool        // of opExists: must not be there; of opType: must be an integer
	kind   crypto.Kind // of the operand
	slot   int32       // of the subject
	ref    int32       // slot of the operand; noSlot: it is constant
	limit  float64     // of opMatch in a grant: the steps of the pattern
	text   []byte
	kids   []node
	more   *operand
}

const noSlot = math.MinInt32

// An operand is what few nodes need.
type operand struct {
	set      *value.Set
	below    value.Subtrees
	query    value.Subtrees // of opURL: where a query is permitted
	wild     *value.Set     // of opHost: names of which only those strictly below match
	networks value.Networks
	re       *regexp.Regexp
	age      time.Duration
	week     *value.Week
	prior    *prior    // of opReceipt, opCalls
	rest     []string  // of a quantifier: segments from the first star on
	inner    []subject // of a quantifier: what `that` looks at in the element
}

// maxVisits bounds the work of one decision. A visit is one operator tested on one value: a leaf predicate, or a quantifier come to an array.
const maxVisits = 10_000

const tooMany = "more than 10000 values to test"

// eval is the hot path: one call for a leaf, one pass over its operator.
func (s *scratch) eval(n *node) answer {
	if n.op < opHas {
		if n.op-opAll > opAny-opAll { // neither; the zero op wraps round
			return s.combined(n)
		}
		open := answerOf(n.op == opAll) // the answer of a kid that leaves the question open
		for i := range n.kids {
			if a := s.eval(&n.kids[i]); a != open {
				return a
			}
		}
		return open
	}
	if s.visits++; s.visits > maxVisits {
		return s.fail(n, tooMany)
	}
	switch n.op {
	case opHas:
		return answerOf(s.hasRole(n.text))
	case opTime:
		return answerOf(n.more.week.Contains(s.time))
	case opReceipt:
		return s.shown(n)
	case opCalls:
		return s.had(n)
	}
	var x *slot
	if n.slot < 0 || s.slots[n.slot].state == unresolved {
		x = s.at(n.slot)
	} else {
		x = &s.slots[n.slot]
	}
	if x.state != present {
		return s.unusable(n, x)
	}
	if n.ref != noSlot {
		return s.compare(n, x)
	}
	switch n.op {
	case opEq:
		if x.kind == n.kind && !n.fold {
			return answerOf(string(x.text) == string(n.text))
		}
		return s.same(n, x, n.text)
	case opNe:
		if x.kind == n.kind && !n.fold {
			return answerOf(string(x.text) != string(n.text))
		}
		return s.same(n, x, n.text)
	case opIn, opNotIn:
		if x.kind != n.kind {
			return s.fail(n, otherType)
		}
		return answerOf(n.more.set.Contains(x.text) == (n.op == opIn))
	case opLt:
		return answerOf(x.num < n.limit)
	case opLe:
		return answerOf(x.num <= n.limit)
	case opGt:
		return answerOf(x.num > n.limit)
	case opGe:
		return answerOf(x.num >= n.limit)
	case opPrefix:
		return answerOf(len(x.text) >= len(n.text) && n.equal(x.text[:len(n.text)]))
	case opSuffix:
		return answerOf(len(x.text) >= len(n.text) && n.equal(x.text[len(x.text)-len(n.text):]))
	case opBelow:
		k := len(n.text)
		return answerOf(len(x.text) >= k && string(x.text[:k]) == string(n.text) && (len(x.text) == k || x.text[k] == '/'))
	case opMatch:
		if n.limit > 0 && !s.takes(n, x.text) {
			return s.fail(n, tooMany)
		}
		return answerOf(n.more.re.Match(x.text))
	case opWithin:
		return answerOf(n.more.below.Contains(x.text))
	case opURL:
		if x.query {
			return answerOf(!x.extra && n.more.query.Contains(x.text))
		}
		return answerOf(!x.extra && n.more.below.Contains(x.text))
	case opHost:
		return answerOf(n.more.holdsHost(x.text))
	case opEmail:
		return answerOf(n.more.set.Contains(x.text) || n.more.set.Contains(x.more))
	case opCIDR:
		return answerOf(n.more.networks.Contains(x.ip))
	case opAge:
		return answerOf(x.at.Within(n.more.age, s.time))
	case opType:
		return answerOf(x.kind == n.kind && (!n.flag || isInteger(x.text)))
	case opExists:
		return answerOf(!n.flag)
	}
	return s.fail(n, "not a predicate")
}

func (s *scratch) combined(n *node) answer {
	switch n.op {
	case opNot:
		switch s.eval(&n.kids[0]) {
		case no:
			return yes
		case yes:
			return no
		}
		return failed
	case opEvery, opSome, opCount:
		if s.visits++; s.visits > maxVisits {
			return s.fail(n, tooMany)
		}
		return s.quantify(n)
	}
	return s.fail(n, "not a predicate") // the zero node
}

func (s *scratch) fail(n *node, what string) answer {
	if s.what == "" {
		s.what = what
		if n.slot != noSlot && n.op != 0 {
			s.pointer = s.pointerOf(n.slot)
		}
	}
	return failed
}

// unusable is the answer for a value that is missing or malformed.
func (s *scratch) unusable(n *node, x *slot) answer {
	switch {
	case x.state == malformed:
		return s.fail(n, x.what)
	case n.op == opExists:
		return answerOf(n.flag)
	}
	return s.gone(n)
}

// compare is a comparison with another value of the call.
func (s *scratch) compare(n *node, x *slot) answer {
	y := s.at(n.ref)
	switch {
	case y.state == missing:
		return s.gone(n)
	case y.state == malformed:
		return s.fail(n, "compared with a value that is "+y.what)
	case y.kind != x.kind:
		return s.fail(n, "not of the type of what it is compared with")
	}
	switch n.op {
	case opEq, opNe:
		return s.same(n, x, y.text)
	case opLt:
		return answerOf(x.num < y.num)
	case opLe:
		return answerOf(x.num <= y.num)
	case opGt:
		return answerOf(x.num > y.num)
	case opGe:
		return answerOf(x.num >= y.num)
	}
	return s.fail(n, "not a comparison")
}

// same compares scalars.
func (s *scratch) same(n *node, x *slot, text []byte) answer {
	switch {
	case x.kind >= crypto.Array, x.kind != n.kind && n.ref == noSlot:
		return s.fail(n, otherType)
	case n.fold:
		return answerOf(value.EqualFold(x.text, text) == (n.op == opEq))
	}
	return answerOf(string(x.text) == string(text) == (n.op == opEq))
}

const otherType = "of another type than the rule compares it with"

// gone is the answer for a value that is missing.
func (s *scratch) gone(n *node) answer {
	if n.absent == failed {
		return s.fail(n, "missing")
	}
	return n.absent
}

func (n *node) equal(part []byte) bool {
	if n.fold {
		return value.EqualFold(part, n.text)
	}
	return string(part) == string(n.text)
}

func (o *operand) holdsHost(host []byte) bool {
	if o.set.Contains(host) {
		return true
	}
	if o.wild.Empty() || len(host) == 0 || host[0] == '[' {
		return false
	}
	for at := bytes.IndexByte(host, '.'); at >= 0; at = bytes.IndexByte(host, '.') {
		if host = host[at+1:]; o.wild.Contains(host) {
			return true
		}
	}
	return false
}

// isInteger tells whether a canonical number is an integer, by value as in a schema: 1e+21 is one, 1e-7 is not.
func isInteger(text []byte) bool {
	if e := bytes.IndexByte(text, 'e'); e >= 0 {
		return text[e+1] == '+'
	}
	return bytes.IndexByte(text, '.') < 0
}
