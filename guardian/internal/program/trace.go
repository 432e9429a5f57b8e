package program

import (
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A Trace is the steps of one judgement, in the order in which they were come to. It only looks on:
// nothing is resolved, asked or counted for it.
type Trace struct {
	Steps     []Step
	Reads     []Read
	Values    bool // keep what was read
	Condition *int // that is judged; nil after Forget

	name  string // of the rule, requirement or budget that the predicates are of
	rule  int    // its step, if it is a rule; -1: none
	tests int    // of the rule that are left
	depth int    // of the predicate, below the tests
	top   bool   // it is one of those that must all hold
	enter *Node  // the predicate that is evaluated next, and has its step
}

// A Step is one thing that was judged.
type Step struct {
	Name      string // layer:bundle:id, or :only, :scope and so on
	Below     string // pointer below its place
	At        int32  // its place; 0: Below is all of the pointer
	From, To  int32  // of Reads
	Held      int32  // of a rule: the tests that must all hold, and that held before the first that did not
	Condition int8
	Answer    Answer // Undecided: the judgement ended before it was
	Kind      StepKind
	Limit     bool // it is a limit of the tool, which denies by no rule
}

// A StepKind tells the rules among the steps.
type StepKind uint8

// Kinds of steps.
const (
	OtherStep StepKind = iota
	AllowStep
	DenyStep
)

// Undecided is the answer of a step that was begun only.
const Undecided Answer = -1

// A Read is a value that a predicate looked at.
type Read struct {
	Pointer string
	Type    string
	Value   []byte // JSON; nil without Trace.Values
}

// Forget keeps nothing of the judgement but memory, if it is not much.
func (t *Trace) Forget() {
	const most = 1 << 16
	steps, reads := t.Steps, t.Reads
	clear(steps)
	clear(reads)
	*t = Trace{}
	if cap(steps) <= most && cap(reads) <= most {
		t.Steps, t.Reads = steps[:0], reads[:0]
	}
}

// Begin adds a step of a requirement or budget, and returns its number. The predicates that follow
// are of it.
func (t *Trace) Begin(name string, at int32) int {
	t.name, t.rule = name, -1
	return t.add(Step{Name: name, At: at, Answer: Undecided})
}

// Add adds a step that is decided.
func (t *Trace) Add(name string, at int32, below string, a Answer) *Step {
	return &t.Steps[t.add(Step{Name: name, At: at, Below: below, Answer: a})]
}

func (t *Trace) add(s Step) int {
	s.Condition = int8(*t.Condition)
	t.Steps = append(t.Steps, s)
	return len(t.Steps) - 1
}

// begin adds the step of a rule, which its tests decide.
func (t *Trace) begin(x *Rule) {
	s := Step{Name: x.Name, At: x.At, Answer: Undecided, Kind: DenyStep}
	if x.Allow {
		s.Kind = AllowStep
	}
	if len(x.Tests) == 0 {
		s.Answer = Yes
	}
	t.name, t.tests, t.depth, t.top = x.Name, len(x.Tests), 0, true
	t.rule = t.add(s)
}

// matchTraced is Match with a step for each rule.
func (e *Evaluator) matchTraced(rules []Rule) (*Rule, Answer) {
	for i := range rules {
		e.trace.begin(&rules[i])
		if a := e.All(rules[i].Tests); a != No {
			return &rules[i], a
		}
	}
	return nil, No
}

// enters reports whether a predicate has no step yet.
func (t *Trace) enters(n *Node) bool {
	if t.enter == n {
		t.enter = nil
		return false
	}
	return true
}

// traced is Eval with a step for the predicate. What the compiler made up has none.
func (e *Evaluator) traced(n *Node) Answer {
	t := e.trace
	step, depth, top := len(t.Steps), t.depth, t.top
	if n.At != 0 {
		t.add(Step{Name: t.name, At: n.At, Answer: Undecided})
	}
	t.enter, t.depth, t.top = n, depth+1, top && n.Op == OpAll
	a := e.Eval(n)
	t.enter, t.depth, t.top = nil, depth, top
	from := int32(len(t.Reads))
	e.look(n)
	if n.At != 0 {
		s := &t.Steps[step]
		s.Answer, s.From, s.To = a, from, int32(len(t.Reads))
	}
	if t.rule < 0 {
		return a
	}
	s := &t.Steps[t.rule]
	if top && n.Op != OpAll && a == Yes {
		s.Held++
	}
	if depth == 0 {
		t.tests--
		if a != Yes || t.tests == 0 {
			s.Answer = a
		}
	}
	return a
}

// look notes what a predicate that was evaluated looked at.
func (e *Evaluator) look(n *Node) {
	switch n.Op {
	case OpAll, OpAny, OpNot:
	case OpHas:
		e.saw("caller roles", crypto.Array, func() []byte { return texts(e.caller.Roles) })
	case OpTime:
		e.saw("time", crypto.String, func() []byte { return crypto.AppendString(nil, e.time.String()) })
	case OpReceipt:
		e.trace.Reads = append(e.trace.Reads, Read{Pointer: "receipt " + n.More.Prior.Tool})
	case OpTainted:
		if is := e.told.tainted; is != nil {
			e.saw("session tainted", crypto.Bool, func() []byte { return strconv.AppendBool(nil, *is) })
		}
	case OpLabel:
		if labels := e.told.labels; labels != nil {
			e.saw("session labels", crypto.Array, func() []byte { return texts(*labels) })
		}
	default:
		if n.Op == OpCalls {
			e.sawCalls(n.More.Prior.Tool)
		} else {
			e.sawSlot(n.Slot)
		}
		e.sawSlot(n.Ref)
	}
}

func texts(list []string) []byte {
	b := []byte{'['}
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = crypto.AppendString(b, s)
	}
	return append(b, ']')
}

func (e *Evaluator) saw(pointer string, kind crypto.Kind, value func() []byte) {
	x := Read{Pointer: pointer, Type: kind.String()}
	if e.trace.Values {
		x.Value = value()
	}
	e.trace.Reads = append(e.trace.Reads, x)
}

func (e *Evaluator) sawCalls(tool string) {
	for _, c := range e.recall.calls {
		if c.Of == tool {
			pointer := "session calls"
			if tool != "" {
				pointer += " of " + tool
			}
			e.saw(pointer, crypto.Number, func() []byte { return strconv.AppendUint(nil, c.Count, 10) })
		}
	}
}

// sawSlot notes a value, if it was resolved.
func (e *Evaluator) sawSlot(i int32) {
	var x *slot
	var s *Subject
	set := false
	switch fact := i - FactSlot(0); {
	case i == NoSlot:
		return
	case isFact(i):
		x, s, set = &e.facts.slots[fact], &e.facts.wanted[fact], e.facts.sets[fact] != nil
	case i < 0:
		x, s = &e.items[^i], &e.inner[^i]
	default:
		x, s = &e.slots[i], &e.tool[i]
	}
	kind := x.kind
	switch {
	case x.state == unresolved:
		return
	case set:
		kind = crypto.Array
	}
	pointer := s.Pointer
	if s.From == FromFact {
		pointer = "fact " + s.Path[0]
	}
	e.saw(pointer, kind, func() []byte { return e.valueOf(s) })
}

// valueOf returns a value in canonical form, as it is in the call.
func (e *Evaluator) valueOf(s *Subject) []byte {
	var v crypto.Value
	switch s.From {
	case FromArgs:
		v = value.Follow(e.args, s.Path)
	case FromElement:
		v = value.Follow(e.element, s.Path)
	case FromID:
		return crypto.AppendString(nil, e.caller.ID)
	case FromTenant:
		return crypto.AppendString(nil, e.caller.Tenant)
	case FromFact:
		for i := range e.facts.documents {
			if d := &e.facts.documents[i]; d.at == e.facts.of {
				v = d.values.Get(s.Pointer)
			}
		}
	}
	if !v.Exists() {
		return nil
	}
	return v.Append(nil)
}
