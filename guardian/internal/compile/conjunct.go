package compile

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A conjunct is one of the predicates that must all hold for a rule to match. Its subject and
// operator are read if the table of [terms.implies] has them; otherwise only the text counts.
type conjunct struct {
	text    int32 // the canonical text, as a number: equal text, equal number
	subject int32 // likewise, with its key; 0: only the text counts
	operand int32 // likewise, of OpEq and OpIn
	op      program.Op
	absent  bool // it holds if the value is missing
	fold    bool
	points  *points // of OpEq and OpIn
	limit   float64 // of OpLt to OpGe
	prefix  string
	below   value.Subtrees
	nets    value.Networks
}

// terms compares the conjuncts of one document. Pairs of rules are many, so words are compared as
// numbers, and two sets once; the lists of a document stand in many rules.
type terms struct {
	lists map[string]*list
	words map[string]int32
	sets  map[int32]*points // by operand
	among map[pair]bool
}

// points are the members of an operand, sorted, each once.
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

// word returns the number of a text.
func (x *terms) word(s string) int32 {
	n, ok := x.words[s]
	if !ok {
		n = int32(len(x.words)) + 1
		x.words[s] = n
	}
	return n
}

// conjunct reads a predicate that was compiled: it has one subject, one operator, and an operand
// that fits it.
func (x *terms) conjunct(p docValue) conjunct {
	c := conjunct{text: x.word(string(p.v.Append(nil)))}
	subject := ""
	for _, key := range []string{"arg", "caller"} {
		if p.has(key) {
			subject = key + ":" + p.get(key).v.Text()
		}
	}
	c.absent, c.fold = p.get("absent").v.Bool(), p.get("fold").v.Bool()
	for _, name := range []string{"eq", "in", "lt", "le", "gt", "ge", "prefix", "within", "cidr"} {
		operand := p.get(name)
		if !operand.exists() || subject == "" {
			continue
		}
		c.op = operatorNamed(name).op
		if x.readOperand(&c, operand) {
			c.subject = x.word(subject)
		}
		break
	}
	return c
}

func (x *terms) readOperand(c *conjunct, p docValue) bool {
	list := p.elements()
	switch {
	case c.op == program.OpIn && p.isObject():
		named := x.lists[p.get("list").v.Text()]
		if named == nil || named.plain == nil {
			return false
		}
		c.operand = x.word(string(p.v.Append(nil)))
		c.points = x.points(c.operand, named.members)
	case p.isObject():
		return false // another value of the call
	case c.op == program.OpEq, c.op == program.OpIn:
		members := make([]string, len(list))
		for i, e := range list {
			members[i] = string(e.v.Raw())
		}
		c.operand = x.word(string(p.v.Append(nil)))
		c.points = x.points(c.operand, members)
	case c.op == program.OpPrefix:
		c.prefix = p.v.Text()
		if c.fold {
			c.prefix = lowered(c.prefix)
		}
	case c.op == program.OpWithin:
		var below []value.Subtree
		for _, e := range list {
			below = append(below, value.PathTree(e.v.Text()))
		}
		c.below = value.NewSubtrees(below)
	case c.op == program.OpCIDR:
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
		c.limit = p.v.Float()
	}
	return true
}

func lowered(s string) string { return string(value.AppendLower(nil, []byte(s))) }

// points reads the members of an operand, once.
func (x *terms) points(operand int32, members []string) *points {
	if known := x.sets[operand]; known != nil {
		return known
	}
	p := &points{numeric: true}
	for i, m := range members {
		p.plain = append(p.plain, x.word(m))
		p.folded = append(p.folded, x.word(lowered(m)))
		if n, err := strconv.ParseFloat(m, 64); err != nil {
			p.numeric = false // a string or a boolean
		} else if i == 0 {
			p.low, p.high = n, n
		} else {
			p.low, p.high = min(p.low, n), max(p.high, n)
		}
	}
	for _, list := range []*[]int32{&p.plain, &p.folded} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	x.sets[operand] = p
	return p
}

// implies reports whether e holds, or errs, wherever c holds. This is the published table:
//
//	equal canonical text
//	the same subject, and of the operands of c and e
//	  eq, in            all those of c are among those of e; eq is in of one
//	  lt le gt ge       the range of c lies in that of e; eq, in: ranges of points
//	  prefix            that of c begins with that of e
//	  within            each of c's is one of e's, or below one
//	  cidr              each of c's lies in one of e's
//
// absent: true in c needs absent: true in e, and fold: true in c needs it in e. It reports false of
// anything else.
func (x *terms) implies(c, e *conjunct) bool {
	if c.text == e.text {
		return true
	}
	if c.subject == 0 || c.subject != e.subject || c.absent && !e.absent || c.fold && !e.fold {
		return false
	}
	switch e.op {
	case program.OpEq, program.OpIn:
		if c.op == program.OpEq && e.op == program.OpEq && !e.fold { // most pairs, so without looking further
			return c.operand == e.operand
		}
		return c.points != nil && x.subset(c, e)
	case program.OpLt, program.OpLe, program.OpGt, program.OpGe:
		p := c.points
		return p != nil && p.numeric && e.reaches(p.low) && e.reaches(p.high) || e.spans(c)
	}
	return c.op == e.op && c.narrower(e)
}

// narrower reports whether the operand of a prefix, within or cidr lies in that of the same
// operator.
func (c *conjunct) narrower(e *conjunct) bool {
	switch e.op {
	case program.OpPrefix:
		prefix := c.prefix
		if e.fold {
			prefix = lowered(prefix)
		}
		return strings.HasPrefix(prefix, e.prefix)
	case program.OpWithin:
		return !slices.ContainsFunc(c.below, func(s value.Subtree) bool {
			return !e.below.Contains([]byte(strings.TrimSuffix(s.Below, "/")))
		})
	case program.OpCIDR:
		return !slices.ContainsFunc(c.nets, func(n netip.Prefix) bool {
			m, ok := e.nets.Around(n.Addr())
			return !ok || m.Bits() > n.Bits()
		})
	}
	return false
}

// subset reports whether all members of c are among those of e.
func (x *terms) subset(c, e *conjunct) bool {
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
	all, known := x.among[key]
	if !known {
		all = among(these, those)
		if len(x.among) < most {
			x.among[key] = all
		}
	}
	return all
}

// among reports whether one sorted list has all of another.
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

// reaches reports whether a range holds a point.
func (c *conjunct) reaches(n float64) bool {
	switch c.op {
	case program.OpLt:
		return n < c.limit
	case program.OpLe:
		return n <= c.limit
	case program.OpGt:
		return n > c.limit
	}
	return n >= c.limit
}

// spans reports whether a range holds another.
func (c *conjunct) spans(other *conjunct) bool {
	up := c.op == program.OpGt || c.op == program.OpGe
	switch {
	case other.op < program.OpLt || other.op > program.OpGe, up != (other.op == program.OpGt ||
		other.op == program.OpGe):
		return false
	case other.limit == c.limit:
		return other.op == c.op || c.op == program.OpLe || c.op == program.OpGe
	case up:
		return other.limit > c.limit
	}
	return other.limit < c.limit
}
