package guardian

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A conjunct is one of the predicates that must all hold for a rule to match: the members of `all`, and not of `unless`. A subject and
// an operator that the table of [conjunct.implies] has are read; of any other conjunct only the text counts.
type conjunct struct {
	text    int32 // the canonical text, as a number; equal text, equal number
	subject int32 // the subject's, with its key; 0: only the text counts
	operand int32 // opEq, opIn: the operand's, likewise
	op      op
	absent  bool // it holds where the value is missing
	fold    bool
	points  *points // opEq, opIn
	limit   float64 // opLt to opGe
	prefix  string
	below   value.Subtrees
	nets    value.Networks
}

// A precedent is a rule that was read before, as far as it decides whether one behind it can.
type precedent struct {
	id        string
	conjuncts []conjunct
}

// A precedence is the rules so far of each tool of a document, in order. Pairs of rules are many, so words are compared as numbers, and two
// sets once. The lists of a document stand in many rules.
type precedence struct {
	rules map[*tool][]*precedent
	words map[string]int32
	sets  map[int32]*points // by operand
	among map[pair]bool
}

// Points are the members of an operand, sorted, each once.
type points struct {
	plain, folded []int32 // the canonical texts as numbers, and those in lower case
	low, high     float64 // the least and the greatest
	numeric       bool    // they are numbers
}

// A pair of operands.
type pair struct {
	these, those int32
	fold         bool
}

func newPrecedence() precedence {
	return precedence{map[*tool][]*precedent{}, map[string]int32{}, map[int32]*points{}, map[pair]bool{}}
}

func (before precedence) word(s string) int32 {
	n, ok := before.words[s]
	if !ok {
		n = int32(len(before.words)) + 1
		before.words[s] = n
	}
	return n
}

// live refuses a rule that is provably dead: one that for each of its tools stands behind a rule that matches, or errs, whenever it does.
func (l *loader) live(r part, id string, tools []*tool, before precedence) {
	x := &precedent{id, l.conjuncts(r, before)}
	var by *precedent
	dead := len(tools) > 0
	for _, t := range tools {
		if dead {
			i := slices.IndexFunc(before.rules[t], func(e *precedent) bool { return before.covers(e, x) })
			if dead = i >= 0; dead && by == nil {
				by = before.rules[t][i]
			}
		}
		before.rules[t] = append(before.rules[t], x)
	}
	if dead {
		l.refuse(r.at, "the rule can never decide: whenever it matches, "+quote(by.id)+" has matched before it", "put it before "+by.id+", or remove it")
	}
}

// covers tells whether e matches, or errs, whenever x does: each of its conjuncts is implied by one of the other's.
func (before precedence) covers(e, x *precedent) bool {
next:
	for i := range e.conjuncts {
		for j := range x.conjuncts {
			if before.implies(&x.conjuncts[j], &e.conjuncts[i]) {
				continue next
			}
		}
		return false
	}
	return true
}

func (l *loader) conjuncts(r part, words precedence) (all []conjunct) {
	if p := r.get("when"); p.there() {
		all = l.conjunction(all, p, words)
	}
	if p := r.get("unless"); p.there() {
		all = append(all, conjunct{text: words.word(`{"not":` + string(p.v.Append(nil)) + `}`)})
	}
	return all
}

func (l *loader) conjunction(all []conjunct, p part, words precedence) []conjunct {
	if list := p.get("all"); list.there() {
		for _, kid := range list.elements() {
			all = l.conjunction(all, kid, words)
		}
		return all
	}
	c := conjunct{text: words.word(string(p.v.Append(nil)))}
	l.readConjunct(p, &c, words)
	return append(all, c)
}

// readConjunct reads a predicate that has been compiled, so it has one subject, one operator, and an operand that fits it.
func (l *loader) readConjunct(p part, c *conjunct, words precedence) {
	subject := ""
	for _, key := range []string{"arg", "caller"} {
		if p.has(key) {
			subject = key + ":" + p.get(key).v.Text()
		}
	}
	c.absent, c.fold = p.get("absent").v.Bool(), p.get("fold").v.Bool()
	for _, name := range []string{"eq", "in", "lt", "le", "gt", "ge", "prefix", "within", "cidr"} {
		x := p.get(name)
		if !x.there() || subject == "" {
			continue
		}
		c.op = operatorNamed(name).op
		if c.readOperand(l, x, words) {
			c.subject = words.word(subject)
		}
		return
	}
}

func (c *conjunct) readOperand(l *loader, x part, words precedence) bool {
	list := x.elements()
	switch {
	case c.op == opIn && x.v.Kind() == crypto.Object:
		named := l.lists[x.get("list").v.Text()]
		if named == nil || named.plain == nil {
			return false
		}
		c.operand = words.word(string(x.v.Append(nil)))
		c.points = words.points(c.operand, named.members)
	case x.v.Kind() == crypto.Object:
		return false // another value of the call
	case c.op == opEq, c.op == opIn:
		members := make([]string, len(list))
		for i, e := range list {
			members[i] = string(e.v.Raw())
		}
		c.operand = words.word(string(x.v.Append(nil)))
		c.points = words.points(c.operand, members)
	case c.op == opPrefix:
		if c.prefix = x.v.Text(); c.fold {
			c.prefix = string(value.AppendLower(nil, []byte(c.prefix)))
		}
	case c.op == opWithin:
		var below []value.Subtree
		for _, e := range list {
			below = append(below, value.PathTree(e.v.Text()))
		}
		c.below = value.NewSubtrees(below)
	case c.op == opCIDR:
		var nets []netip.Prefix
		for _, e := range list {
			n, err := netip.ParsePrefix(e.v.Text())
			if err != nil {
				return false
			}
			nets = append(nets, n)
		}
		c.nets = value.NewNetworks(nets)
	default:
		c.limit = x.v.Float()
	}
	return true
}

// points reads an operand, once.
func (before precedence) points(operand int32, members []string) *points {
	if x := before.sets[operand]; x != nil {
		return x
	}
	x := &points{numeric: true}
	for i, m := range members {
		x.plain = append(x.plain, before.word(m))
		x.folded = append(x.folded, before.word(string(value.AppendLower(nil, []byte(m)))))
		if n, err := strconv.ParseFloat(m, 64); err != nil {
			x.numeric = false // a string or a boolean
		} else if i == 0 {
			x.low, x.high = n, n
		} else {
			x.low, x.high = min(x.low, n), max(x.high, n)
		}
	}
	for _, list := range []*[]int32{&x.plain, &x.folded} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	before.sets[operand] = x
	return x
}

// implies tells whether e holds, or errs, wherever c holds. It is the published table:
//
//	equal canonical text
//	the same subject, and of the operands of c and e
//	  eq, in            all those of c are among those of e; eq is in of one
//	  lt le gt ge       the range of c lies in that of e; eq and in of numbers are ranges of points
//	  prefix            that of c begins with that of e
//	  within            each of c's is one of e's, or below one
//	  cidr              each of c's lies in one of e's
//
// where absent: true in c needs absent: true in e, and fold: true in c needs it in e. Of anything else it is silent.
func (before precedence) implies(c, e *conjunct) bool {
	if c.text == e.text {
		return true
	}
	if c.subject == 0 || c.subject != e.subject || c.absent && !e.absent || c.fold && !e.fold {
		return false
	}
	switch e.op {
	case opEq, opIn:
		if c.op == opEq && e.op == opEq && !e.fold { // most pairs, so without looking further
			return c.operand == e.operand
		}
		return c.points != nil && before.subset(c, e)
	case opLt, opLe, opGt, opGe:
		return c.points != nil && c.points.numeric && e.reaches(c.points.low) && e.reaches(c.points.high) || e.spans(c)
	case opPrefix:
		prefix := c.prefix
		if e.fold {
			prefix = string(value.AppendLower(nil, []byte(prefix)))
		}
		return c.op == opPrefix && strings.HasPrefix(prefix, e.prefix)
	case opWithin:
		return c.op == opWithin && !slices.ContainsFunc(c.below, func(s value.Subtree) bool { return !e.below.Contains([]byte(strings.TrimSuffix(s.Below, "/"))) })
	case opCIDR:
		return c.op == opCIDR && !slices.ContainsFunc(c.nets, func(n netip.Prefix) bool {
			m, ok := e.nets.Around(n.Addr())
			return !ok || m.Bits() > n.Bits()
		})
	}
	return false
}

// subset tells whether all members of c are among those of e.
func (before precedence) subset(c, e *conjunct) bool {
	const few, most = 64, 1 << 20 // what is compared soon is not remembered, nor more than fits
	these, those := c.points.plain, e.points.plain
	if e.fold {
		these, those = c.points.folded, e.points.folded
	}
	if len(these) > len(those) {
		return false
	}
	if len(those) <= few {
		return among(these, those)
	}
	key := pair{c.operand, e.operand, e.fold}
	all, known := before.among[key]
	if !known {
		if all = among(these, those); len(before.among) < most {
			before.among[key] = all
		}
	}
	return all
}

// among tells whether a sorted list has all of another.
func among(these, those []int32) bool {
	for _, n := range these {
		i := 0
		for i < len(those) && those[i] < n {
			i++
		}
		if i == len(those) || those[i] != n {
			return false
		}
		those = those[i+1:]
	}
	return true
}

// reaches tells whether a range holds a point.
func (e *conjunct) reaches(n float64) bool {
	switch e.op {
	case opLt:
		return n < e.limit
	case opLe:
		return n <= e.limit
	case opGt:
		return n > e.limit
	}
	return n >= e.limit
}

// spans tells whether a range holds another.
func (e *conjunct) spans(c *conjunct) bool {
	switch up := e.op == opGt || e.op == opGe; {
	case c.op != opLt && c.op != opLe && c.op != opGt && c.op != opGe, up != (c.op == opGt || c.op == opGe):
		return false
	case c.limit == e.limit:
		return c.op == e.op || e.op == opLe || e.op == opGe
	case up:
		return c.limit > e.limit
	}
	return c.limit < e.limit
}
