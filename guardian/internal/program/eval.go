package program

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/pattern"
)

// MaxVisits bounds the work of one decision. A visit is one operator tested on one value: a leaf
// predicate, or a quantifier come to an array. A long text costs more, and a pattern by its steps.
const MaxVisits = 10_000

// TooMany says that a decision would take more visits.
const TooMany = "more than 10000 values to test"

// An Evaluator evaluates the predicates of one call. It is used again after [Evaluator.Forget],
// which must keep nothing of the call. After a panic it must be dropped.
type Evaluator struct {
	Pointer string // where the first error arose
	What    string // the first error
	Visits  int

	trace  *Trace // nil: nobody looks on
	unseen int    // visits that nobody has to be told of: MaxVisits, or with a trace -1
	time   contracts.Time
	values
	recall
}

// Begin prepares for the predicates of a call, which look at those subjects. The past is asked if
// it is not nil; state is what is known of it.
func (e *Evaluator) Begin(
	subjects []Subject, in *contracts.Inputs, state *contracts.SessionState, past past.Past,
) {
	e.unseen = MaxVisits
	e.time = in.Time
	e.values.tool, e.args, e.caller = subjects, in.Args, in.Caller
	if n := len(subjects); len(e.slots) < n {
		e.slots = make([]slot, n)
	}
	e.recall.past, e.recall.session = past, in.Session
	e.recall.calls, e.recall.receipts = state.Calls, state.Receipts
}

// Forget keeps nothing of the call but memory.
func (e *Evaluator) Forget() {
	e.Pointer, e.What, e.Visits, e.trace, e.unseen, e.time = "", "", 0, nil, 0, 0
	for _, i := range e.touched {
		e.slots[i] = slot{}
	}
	clear(e.items)
	e.touched = e.touched[:0]
	e.items = e.items[:0]
	e.call = call{}
	if e.deep {
		e.forgetDeep()
	}
	e.known = known{}
	empty(&e.values.buf)
	empty(&e.itemBuf)
	empty(&e.recall.buf)
}

// Record notes in the state what the past was asked, and what it answered.
func (e *Evaluator) Record(state *contracts.SessionState) {
	k := &e.known
	if k.calls == nil && k.receipts == nil && !k.deep {
		return
	}
	if k.deep {
		e.facts.record(k.receipts)
		state.From = e.sources()
		e.marks.record(state)
	}
	state.Calls, state.Receipts = k.calls, k.receipts
	state.Sort()
}

// Watch has a trace made of what is evaluated, until Begin.
func (e *Evaluator) Watch(t *Trace) { e.trace, e.unseen = t, -1 }

// Match returns the first rule that matches, or fails, and whether it failed. If none does it
// returns No.
func (e *Evaluator) Match(rules []Rule) (*Rule, Answer) {
	if e.trace != nil {
		return e.matchTraced(rules)
	}
	for i := range rules {
		a := Yes
		for k := range rules[i].Tests {
			a = e.Eval(&rules[i].Tests[k])
			if a != Yes {
				break
			}
		}
		if a != No {
			return &rules[i], a
		}
	}
	return nil, No
}

// All evaluates the tests from left to right, until one is not Yes.
func (e *Evaluator) All(tests []Node) Answer {
	for i := range tests {
		if a := e.Eval(&tests[i]); a != Yes {
			return a
		}
	}
	return Yes
}

// Eval evaluates a predicate. It is the hot path: one call for a leaf, one pass over its operator.
func (e *Evaluator) Eval(n *Node) Answer {
	if n.Op < OpHas {
		if e.trace != nil && e.trace.enters(n) {
			return e.traced(n)
		}
		if n.Op-OpAll > OpAny-OpAll { // neither; the zero op wraps round
			return e.combined(n)
		}
		open := AnswerOf(n.Op == OpAll) // the answer of a kid that leaves the question open
		for i := range n.Kids {
			if a := e.Eval(&n.Kids[i]); a != open {
				return a
			}
		}
		return open
	}
	e.Visits++
	if e.Visits > e.unseen {
		if e.trace != nil && e.trace.enters(n) {
			e.Visits-- // it is counted when it is come to again
			return e.traced(n)
		}
		if e.Visits > MaxVisits {
			return e.fail(n, TooMany)
		}
	}
	switch n.Op {
	case OpHas:
		return AnswerOf(e.hasRole(n.Text))
	case OpTime:
		return AnswerOf(n.More.Week.Contains(e.time))
	case OpReceipt:
		return e.receipt(n)
	case OpCalls:
		return e.calls(n)
	case OpTainted:
		is, what := e.isTainted()
		return e.answered(n, is == n.Flag, what)
	case OpLabel:
		has, what := e.hasLabel(n.Text)
		return e.answered(n, has, what)
	}
	var x *slot
	switch {
	case n.Slot < 0:
		x = e.at(n.Slot)
	case e.slots[n.Slot].state == unresolved:
		x = e.values.at(n.Slot)
	default:
		x = &e.slots[n.Slot]
	}
	if x.state != present {
		switch {
		case x.state == malformed:
			return e.fail(n, x.what)
		case n.Op == OpExists:
			return AnswerOf(n.Flag)
		}
		return e.gone(n)
	}
	if (len(x.text) >= 1<<10 || n.Op == OpMatch) && !e.afford(n, x) {
		return e.fail(n, TooMany)
	}
	if n.Ref != NoSlot {
		return e.compare(n, x)
	}
	switch n.Op {
	case OpEq:
		if x.kind == n.Kind && !n.Fold {
			return AnswerOf(string(x.text) == n.Text)
		}
		return same(e, n, x, n.Text)
	case OpNe:
		if x.kind == n.Kind && !n.Fold {
			return AnswerOf(string(x.text) != n.Text)
		}
		return same(e, n, x, n.Text)
	case OpIn, OpNotIn:
		if x.kind != n.Kind {
			return e.fail(n, otherType)
		}
		return AnswerOf(n.More.Set.Contains(x.text) == (n.Op == OpIn))
	case OpLt:
		return AnswerOf(x.num < n.Limit)
	case OpLe:
		return AnswerOf(x.num <= n.Limit)
	case OpGt:
		return AnswerOf(x.num > n.Limit)
	case OpGe:
		return AnswerOf(x.num >= n.Limit)
	case OpPrefix:
		return AnswerOf(len(x.text) >= len(n.Text) && n.equal(x.text[:len(n.Text)]))
	case OpSuffix:
		return AnswerOf(len(x.text) >= len(n.Text) && n.equal(x.text[len(x.text)-len(n.Text):]))
	case OpBelow:
		k := len(n.Text)
		return AnswerOf(len(x.text) >= k && string(x.text[:k]) == n.Text && (len(x.text) == k ||
			x.text[k] == '/'))
	case OpMatch:
		return AnswerOf(n.More.Pattern.Match(x.text))
	case OpWithin:
		return AnswerOf(n.More.Below.Contains(x.text))
	case OpURL:
		if x.query {
			return AnswerOf(!x.extra && n.More.Query.Contains(x.text))
		}
		return AnswerOf(!x.extra && n.More.Below.Contains(x.text))
	case OpHost:
		return AnswerOf(n.More.containsHost(x.text))
	case OpEmail:
		return AnswerOf(n.More.Set.Contains(x.text) || n.More.Set.Contains(x.more))
	case OpCIDR:
		return AnswerOf(n.More.Networks.Contains(x.ip))
	case OpAge:
		return AnswerOf(x.at.Within(n.More.Age, e.time))
	case OpType:
		return AnswerOf(x.kind == n.Kind && (!n.Flag || isInteger(x.text)))
	case OpExists:
		return AnswerOf(!n.Flag)
	case OpFrom:
		return e.from(n, x)
	}
	return e.fail(n, "not a predicate")
}

// at returns a slot, resolved.
func (e *Evaluator) at(i int32) *slot {
	if i < 0 && isFact(i) {
		return e.fact(i)
	}
	return e.values.at(i)
}

// afford adds what a test of a text costs beyond its visit: one for each KiB; of a pattern, by its
// steps at each byte. It reports whether the visits suffice.
func (e *Evaluator) afford(n *Node, x *slot) bool {
	switch {
	case n.Op != OpMatch:
		e.Visits += len(x.text) >> 10
	case n.Flag: // its author is not that of the policy
		e.Visits += int(int64(n.Limit) * int64(len(x.text)) >> 10)
	default:
		e.Visits += pattern.Visits(int(n.Limit), len(x.text))
	}
	return e.Visits <= MaxVisits
}

func (e *Evaluator) combined(n *Node) Answer {
	switch n.Op {
	case OpNot:
		switch e.Eval(&n.Kids[0]) {
		case No:
			return Yes
		case Yes:
			return No
		}
		return Failed
	case OpEvery, OpSome, OpCount:
		e.Visits++
		if e.Visits > MaxVisits {
			return e.fail(n, TooMany)
		}
		return e.quantify(n)
	}
	return e.fail(n, "not a predicate") // the zero node
}

// fail notes the first error.
func (e *Evaluator) fail(n *Node, what string) Answer {
	if e.What == "" {
		e.What = what
		if n.Op != 0 && !isFact(n.Slot) { // nor is NoSlot
			e.Pointer = e.PointerOf(n.Slot)
		}
	}
	return Failed
}

// unreadable says that the other value cannot be compared with.
func (e *Evaluator) unreadable(ref int32, y *slot) string {
	if isFact(ref) {
		return y.what
	}
	return "compared with a value that is " + y.what
}

// compare compares with another value of the call, or with a fact.
func (e *Evaluator) compare(n *Node, x *slot) Answer {
	y := e.at(n.Ref)
	switch {
	case y.state == missing:
		return e.gone(n)
	case y.state == malformed:
		return e.fail(n, e.unreadable(n.Ref, y))
	case n.Op == OpIn, n.Op == OpNotIn:
		if !n.More.Kinds.has(x.kind) {
			return e.fail(n, otherType)
		}
		return AnswerOf(e.sets[n.Ref-FactSlot(0)].Contains(x.text) == (n.Op == OpIn))
	case y.kind != x.kind:
		return e.fail(n, "not of the type of what it is compared with")
	}
	switch n.Op {
	case OpEq, OpNe:
		return same(e, n, x, y.text)
	case OpLt:
		return AnswerOf(x.num < y.num)
	case OpLe:
		return AnswerOf(x.num <= y.num)
	case OpGt:
		return AnswerOf(x.num > y.num)
	case OpGe:
		return AnswerOf(x.num >= y.num)
	}
	return e.fail(n, "not a comparison")
}

const otherType = "of another type than the rule compares it with"

// same compares scalars.
func same[T []byte | string](e *Evaluator, n *Node, x *slot, text T) Answer {
	switch {
	case x.kind >= crypto.Array, x.kind != n.Kind && n.Ref == NoSlot:
		return e.fail(n, otherType)
	case n.Fold:
		return AnswerOf(value.EqualFold(x.text, text) == (n.Op == OpEq))
	}
	return AnswerOf(string(x.text) == string(text) == (n.Op == OpEq))
}

// gone is the answer for a value that is missing.
func (e *Evaluator) gone(n *Node) Answer {
	if n.Absent == Failed {
		return e.fail(n, "missing")
	}
	return n.Absent
}

// receipt answers a receipt predicate.
func (e *Evaluator) receipt(n *Node) Answer {
	at, what := e.recall.receipt(n.More.Prior, e.args)
	if what != "" {
		return e.fail(n, what)
	}
	r := &e.receipts[at]
	switch {
	case r.Entry == nil || n.More.Age != 0 && !value.MomentOf(r.Time).Within(n.More.Age, e.time):
		return No
	case n.Kids != nil:
		return e.that(n, at)
	}
	return Yes
}

// calls answers a predicate over calls.
func (e *Evaluator) calls(n *Node) Answer {
	count, what := e.Allowed(n.More.Prior.Tool)
	if what != "" {
		return e.fail(n, what)
	}
	return e.compareCount(n, float64(count))
}

// equal compares a part of a string with the operand.
func (n *Node) equal(part []byte) bool {
	if n.Fold {
		return value.EqualFold(part, n.Text)
	}
	return string(part) == n.Text
}

func (o *Operand) containsHost(host []byte) bool {
	if o.Set.Contains(host) {
		return true
	}
	if len(host) == 0 || host[0] == '[' {
		return false
	}
	for at := bytes.IndexByte(host, '.'); at >= 0; at = bytes.IndexByte(host, '.') {
		host = host[at+1:]
		if o.Wild.Contains(host) {
			return true
		}
	}
	return false
}

// isInteger reports whether a canonical number is an integer by value, as in a schema: 1e+21 is
// one, 1e-7 is not.
func isInteger(text []byte) bool {
	if e := bytes.IndexByte(text, 'e'); e >= 0 {
		return text[e+1] == '+'
	}
	return bytes.IndexByte(text, '.') < 0
}
