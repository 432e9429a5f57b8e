package compile

import (
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
)

// A polarity says what a true answer does to the verdict. It is a set: within `count … eq` an
// answer can do either.
type polarity uint8

const (
	relaxes   polarity = 1 << iota // makes an ALLOW more likely
	restricts                      // makes it less likely
)

func (p polarity) flip() polarity { return p>>1 | p<<1&restricts }

// A compiler makes the predicates of one tool.
type compiler struct {
	view
	constants *constants
	idle      *idle
	catalog   *catalog // nil: of a grant, which cannot name tools
}

// counted reads how to compare a count, and returns whether the other number may be missing.
func (c *compiler) counted(p docValue, n *program.Node) (maybe presence, ok bool) {
	name, ok := c.one(p, comparisons, func() []string { return comparisons })
	if !ok {
		return always, false
	}
	n.Num = operatorNamed(name).op
	x := p.get(name)
	if x.isObject() {
		place, ok := c.reference(x, program.AsNumber, n)
		if ok && place.Types&numeric == 0 {
			c.refuse(x.at, "never a number", "compare a count with a number")
			ok = false
		}
		return presenceOf(place), ok
	}
	n.Limit = x.v.Float()
	if x.v.Kind() != crypto.Number {
		c.refuse(x.at, "is "+article(x.v.Kind()), "compare a count with a number")
		return always, false
	}
	return always, true
}

// where says in what the subject of a predicate is looked up.
func (c *compiler) where(p docValue) string {
	if c.of != nil && p.has(factKey) {
		return "an output of " + c.of.tool.Name
	}
	return "a call of " + c.t.Name
}

// absent reads the answer of the test for a missing value. It must be written exactly if the value
// may be missing.
func (c *compiler) absent(p docValue, maybe presence) (program.Answer, bool) {
	x := p.get("absent")
	switch {
	case maybe == open && !x.exists():
		what := "the value may be missing or null in " + c.where(p)
		c.refuse(p.at, what, "add absent: true or absent: false, the answer then")
		return program.Failed, false
	case !x.exists():
		return program.Failed, true
	}
	c.idle.note(x.at, maybe != always, "the value is never missing or null in "+c.where(p), "remove absent")
	b, ok := c.boolean(x)
	if maybe == always {
		return program.Failed, ok
	}
	return program.AnswerOf(b), ok
}

// idle is what of a rule says nothing about one tool, and would have to be left out for it. A rule
// about several tools may need it for another; if it needs it for none, it is refused.
type idle struct {
	tools  int // that the rule is about
	places []*idlePlace
	at     map[string]*idlePlace
}

type idlePlace struct {
	at, what, remedy string
	tools            int // for which it says nothing
}

func (x *idle) note(at string, used bool, what, remedy string) {
	if used {
		return
	}
	p := x.at[at]
	if p == nil {
		p = &idlePlace{at: at, what: what, remedy: remedy}
		if x.at == nil {
			x.at = map[string]*idlePlace{}
		}
		x.places, x.at[at] = append(x.places, p), p
	}
	p.tools++
}

// report refuses what no tool needs, and forgets the rule. What was not read for each of the tools,
// because something else was refused, may be needed.
func (x *idle) report(c *catalog) {
	for _, p := range x.places {
		if p.tools == x.tools && !c.partial {
			c.refuse(p.at, p.what, p.remedy)
		}
	}
	*x = idle{}
}
