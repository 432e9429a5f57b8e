package guardian

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// A conjunct is one of the predicates that must all hold for a rule to match: the members of `all`, and not of `unless`. A subject and
// an operator that the table of [conjunct.implies] has are read; of any other conjunct only the text counts.
type conjunct struct {
	text    int32 // the canonical text, as a number; equal text, equal number
	subject int32 // the subject's, with its key; 0: only the text counts
	member  int32 // opEq, opIn: that of the operand
	folded  int32 // opEq: the same in lower case
	op      op
	absent  bool // it holds where the value is missing
	fold    bool
	members []string // opEq, opIn: canonical texts
	set     *set     // of the members
	extent  extent
	limit   float64 // opLt to opGe
	prefix  string
	below   subtrees
	nets    networks
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
	among map[pair]bool
	wide  map[int32]extent // of operands
}

// An extent is the least and the greatest of members that are numbers.
type extent struct {
	low, high float64
	points    bool // they are
}

// A pair of sets, by their operands.
type pair struct {
	these, those int32
	fold         bool
}

func newPrecedence() precedence {
	return precedence{map[*tool][]*precedent{}, map[string]int32{}, map[pair]bool{}, map[int32]extent{}}
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
		if c.readOperand(l, x) {
			c.subject = words.word(subject)
		}
		if c.subject != 0 && (c.op == opEq || c.op == opIn) {
			c.member = words.word(string(x.v.Append(nil)))
			c.extent = words.measure(c)
		}
		if c.subject != 0 && c.op == opEq {
			c.folded = words.word(string(appendLower(nil, []byte(c.members[0]))))
		}
		return
	}
}

func (c *conjunct) readOperand(l *loader, x part) bool {
	list := x.elements()
	switch {
	case c.op == opIn && x.v.Kind() == crypto.Object:
		named := l.lists[x.get("list").v.Text()]
		if named == nil || named.plain == nil {
			return false
		}
		c.members, c.set = named.members, named.set(c.fold)
	case x.v.Kind() == crypto.Object:
		return false // another value of the call
	case c.op == opEq, c.op == opIn:
		for _, e := range list {
			c.members = append(c.members, string(e.v.Raw()))
		}
		c.set = newSet(c.members, c.fold)
	case c.op == opPrefix:
		if c.prefix = x.v.Text(); c.fold {
			c.prefix = string(appendLower(nil, []byte(c.prefix)))
		}
	case c.op == opWithin:
		var below []subtree
		for _, e := range list {
			below = append(below, subtree{strings.TrimSuffix(e.v.Text(), "/") + "/", true})
		}
		c.below = newSubtrees(below)
	case c.op == opCIDR:
		var nets []netip.Prefix
		for _, e := range list {
			n, err := netip.ParsePrefix(e.v.Text())
			if err != nil {
				return false
			}
			nets = append(nets, n)
		}
		c.nets = newNetworks(nets)
	default:
		c.limit = x.v.Float()
	}
	return true
}

func (before precedence) measure(c *conjunct) (x extent) {
	if known, ok := before.wide[c.member]; ok {
		return known
	}
	for i, m := range c.members {
		n, err := strconv.ParseFloat(m, 64)
		if err != nil {
			break // a string, and so are all
		}
		if i == 0 {
			x = extent{n, n, true}
		}
		x.low, x.high = min(x.low, n), max(x.high, n)
	}
	before.wide[c.member] = x
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
		switch {
		case c.op == opIn:
			return before.subset(c, e)
		case e.op == opIn:
			return c.op == opEq && e.set.has([]byte(c.members[0]))
		}
		return c.op == opEq && (c.member == e.member || e.fold && c.folded == e.folded)
	case opLt, opLe, opGt, opGe:
		return c.extent.points && e.reaches(c.extent.low) && e.reaches(c.extent.high) || e.spans(c)
	case opPrefix:
		prefix := c.prefix
		if e.fold {
			prefix = string(appendLower(nil, []byte(prefix)))
		}
		return c.op == opPrefix && strings.HasPrefix(prefix, e.prefix)
	case opWithin:
		return c.op == opWithin && !slices.ContainsFunc(c.below, func(s subtree) bool { return !e.below.hold([]byte(strings.TrimSuffix(s.below, "/"))) })
	case opCIDR:
		return c.op == opCIDR && !slices.ContainsFunc(c.nets, func(n netip.Prefix) bool {
			m, ok := e.nets.around(n.Addr())
			return !ok || m.Bits() > n.Bits()
		})
	}
	return false
}

// subset tells whether all members of c are among those of e.
func (before precedence) subset(c, e *conjunct) bool {
	const few, most = 16, 1 << 20 // what is compared soon is not remembered, nor more than fits
	if c.fold == e.fold && len(c.set.members) > len(e.set.members) {
		return false
	}
	key := pair{c.member, e.member, e.fold}
	all, known := before.among[key]
	if !known {
		all = !slices.ContainsFunc(c.set.members, func(m []byte) bool { return !e.set.has(m) })
		if len(c.set.members) > few && len(before.among) < most {
			before.among[key] = all
		}
	}
	return all
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
