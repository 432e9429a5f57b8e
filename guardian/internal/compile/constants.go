package compile

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
	"github.com/helmkernel/helm/internal/pattern"
)

// constants reads the operands that are the same in every call and for every tool.
type constants struct {
	*reader
	lists map[string]*list
	known map[string]constant // by pointer: a rule about many tools reads each once
	steps *steps              // of a grant's chain; nil: of a document

	unread bool // the lists were refused, so any name may be that of one
}

// A constant is an operand that was read.
type constant struct {
	op    program.Op
	kind  crypto.Kind
	flag  bool
	limit float64
	text  string
	more  *program.Operand
	takes jsonschema.Types // that the value may have
	ok    bool
}

// read reads an operand that refers to no other value into n, and returns the types that the value
// may have then.
func (c *constants) read(p docValue, o operator, n *program.Node) (takes jsonschema.Types, ok bool) {
	x, seen := c.known[p.at]
	if !seen {
		x.takes, x.ok = c.operand(p, o, n)
		x.op, x.kind, x.flag, x.limit, x.text, x.more = n.Op, n.Kind, n.Flag, n.Limit, n.Text, n.More
		c.known[p.at] = x
	}
	n.Op, n.Kind, n.Flag, n.Limit, n.Text, n.More = x.op, x.kind, x.flag, x.limit, x.text, x.more
	return x.takes, x.ok
}

func (c *constants) operand(p docValue, o operator, n *program.Node) (takes jsonschema.Types, ok bool) {
	switch o.op {
	case program.OpEq, program.OpNe, program.OpLt, program.OpLe, program.OpGt, program.OpGe:
		return c.scalar(p, o, n)
	case program.OpIn, program.OpNotIn:
		return c.setOf(p, n)
	case program.OpType:
		return c.typeOf(p, n)
	case program.OpExists:
		exists, ok := c.boolean(p)
		n.Flag = !exists
		return o.takes, ok
	case program.OpPrefix, program.OpSuffix:
		s, ok := c.text(p)
		n.Text = s
		if ok && s == "" {
			c.refuse(p.at, "every string has an empty "+o.name, "remove the test")
			ok = false
		}
		return o.takes, ok
	case program.OpMatch:
		return o.takes, c.pattern(p, o, n)
	case program.OpAge:
		n.More = &program.Operand{}
		return o.takes, c.duration(p, &n.More.Age)
	}
	n.More = &program.Operand{}
	list, ok := c.strings(p)
	ok = ok && c.destinations(list, o.op, n.More)
	if ok && o.op == program.OpWithin && len(n.More.Below) == 1 {
		n.Op, n.Text = program.OpBelow, strings.TrimSuffix(n.More.Below[0].Below, "/")
	}
	return o.takes, ok
}

func (c *constants) scalar(p docValue, o operator, n *program.Node) (takes jsonschema.Types, ok bool) {
	n.Kind, n.Text, n.Limit = p.v.Kind(), string(p.v.Raw()), p.v.Float()
	takes = typesOf(n.Kind) & o.takes
	if takes == 0 {
		c.refuse(p.at, o.name+" takes "+o.takes.String()+", not "+article(n.Kind), "correct the operand")
		return 0, false
	}
	if n.Fold && n.Kind != crypto.String {
		c.refuse(p.at, article(n.Kind)+" has no letters to fold", "remove fold")
		return 0, false
	}
	return takes, true
}

func typesOf(k crypto.Kind) jsonschema.Types {
	switch k {
	case crypto.String:
		return textual
	case crypto.Number:
		return numeric
	case crypto.Bool:
		return jsonschema.TypeBoolean
	case crypto.Array:
		return jsonschema.TypeArray
	case crypto.Object:
		return jsonschema.TypeObject
	}
	return 0
}

// setOf reads the members that in and not_in look among.
func (c *constants) setOf(p docValue, n *program.Node) (jsonschema.Types, bool) {
	n.More = &program.Operand{}
	if p.v.Kind() == crypto.Object {
		x := c.named(p)
		if x == nil || x.plain == nil { // refused
			return 0, false
		}
		n.Kind, n.More.Set = x.kind, x.set(n.Fold)
	} else {
		elements, ok := c.list(p, 1, maxListed)
		if !ok {
			return 0, false
		}
		kind, members, ok := c.scalars(elements)
		if !ok {
			return 0, false
		}
		n.Kind, n.More.Set = kind, value.NewSet(members, n.Fold)
	}
	if n.Fold && n.Kind != crypto.String {
		c.refuse(p.at, "numbers have no letters to fold", "remove fold")
		return 0, false
	}
	return typesOf(n.Kind), true
}

// named reads {list: NAME}.
func (c *constants) named(p docValue) *list {
	if !c.strict(p, grammar.List) {
		return nil
	}
	ref, ok := c.need(p, "list")
	if !ok {
		return nil
	}
	name, ok := c.text(ref)
	if !ok {
		return nil
	}
	x := c.lists[name]
	if x == nil && !c.unread {
		c.refuse(ref.at, "no list "+quote(name)+" in this document", "declare it under lists")
	}
	return x
}

func (c *constants) typeOf(p docValue, n *program.Node) (jsonschema.Types, bool) {
	word, ok := c.oneOf(p, grammar.Types...)
	switch word {
	case "string":
		n.Kind = crypto.String
	case "number", "integer":
		n.Kind, n.Flag = crypto.Number, word == "integer"
	case "boolean":
		n.Kind = crypto.Bool
	case "array":
		n.Kind = crypto.Array
	case "object":
		n.Kind = crypto.Object
	}
	return typesOf(n.Kind), ok
}

const maxPattern = 1 << 10

func (c *constants) pattern(p docValue, o operator, n *program.Node) bool {
	s, ok := c.text(p)
	if !ok {
		return false
	}
	if len(s) > maxPattern {
		c.refuse(p.at, "a pattern of "+strconv.Itoa(len(s))+" bytes", "write at most 1024")
		return false
	}
	if _, err := syntax.Parse(s, syntax.Perl); err != nil { // by itself: a)|(b would be whole within anchors
		c.refuse(p.at, "not RE2: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "correct the pattern")
		return false
	}
	taken, err := pattern.Steps(s)
	if err != nil {
		c.refuse(p.at, err.Error(), pattern.Remedy)
		return false
	}
	n.Limit = float64(taken)
	if c.steps != nil { // before it is compiled: its author is a stranger
		n.Flag = true
		*c.steps += steps(taken)
		if *c.steps > maxSteps {
			what := "patterns of more than " + strconv.Itoa(maxSteps) + " steps in a chain of grants"
			c.refuse(p.at, what, "repeat less")
			return false
		}
	}
	if o.name == "regex" {
		s = `\A(?:` + s + `)\z`
	}
	re, err := regexp.Compile(s)
	if err != nil {
		c.refuse(p.at, "not RE2: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "correct the pattern")
		return false
	}
	n.More = &program.Operand{Pattern: re}
	return true
}

// maxSteps bounds what the patterns of a chain of grants become, as visits bound what is tested:
// the authors of grants are not those of the policy.
const maxSteps = 10_000

// steps counts what the patterns of a chain have become so far.
type steps int
