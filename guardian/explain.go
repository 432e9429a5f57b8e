package guardian

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// ExplainOptions say what a trace holds.
type ExplainOptions struct {
	Values bool // the values that predicates read; without it a trace holds no value of a call
}

// A Trace is what a judgement evaluated, in the order in which it came to it: a rule, then its
// predicates. What it did not come to is not there.
type Trace []Step

// A Step is one thing that was judged.
type Step struct {
	Condition int    `json:"condition"`
	Document  string `json:"document"`       // its Name
	Rule      string `json:"rule,omitempty"` // layer:bundle:id; "" of a limit that a tool's entry has
	Pointer   string `json:"pointer"`        // JSON Pointer into the document
	Result    Result `json:"result"`
	Reads     []Read `json:"reads,omitempty"` // by a predicate without others below it, or a quantifier

	kind program.StepKind
	held int32
}

// A Result is what a step came to. Of a predicate it is its answer, and of a rule whether it
// matches. Of everything else True is what lets a call go on: a need or a requirement is met, a
// budget suffices, a destination is in the scope, a ceiling or limit is kept, the tool is among
// those of only, and expires is not over. A requirement or budget that does not apply to the call
// has no step, and neither has a requirement about which the judgement ended undecided.
type Result uint8

// Results of a step. An error denies the call.
const (
	False Result = iota
	True
	Error
)

// String returns true, false or error.
func (r Result) String() string {
	switch r {
	case False:
		return "false"
	case True:
		return "true"
	}
	return "error"
}

// MarshalText is String, for JSON.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A Read is a value that a predicate looked at.
type Read struct {
	// Pointer is a JSON Pointer into the arguments, with stars if it is one of several elements;
	// or "caller id", "caller tenant", "caller roles", "time", "session calls", with " of TOOL" if
	// it is of one, "session tainted", "session labels", "receipt TOOL" or "fact NAME".
	Pointer string `json:"pointer"`
	// Type is one of JSON, "missing" of a value that is not there or null, and "" of a receipt.
	Type  string          `json:"type,omitempty"`
	Value json.RawMessage `json:"value,omitempty"` // only with ExplainOptions.Values
}

// tracings are the memory of traces. A trace that is handed out has its own.
var tracings = sync.Pool{New: func() any { return new(tracing) }}

// A tracing is the trace of one judgement.
type tracing struct {
	program.Trace
	policy *Policy
	bills  []int // steps of the charges
}

// steps returns those that were decided, with their places in the documents.
func (t *tracing) steps() Trace {
	reads := make([]Read, len(t.Reads))
	for i := range t.Reads {
		x := &t.Reads[i]
		reads[i] = Read{x.Pointer, x.Type, x.Value}
	}
	trace := make(Trace, 0, len(t.Steps))
	prefix, document := "", 0
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Answer == program.Undecided {
			continue
		}
		if prefix == "" || !strings.HasPrefix(s.Name, prefix) {
			prefix, document = t.documentOf(s.Name)
		}
		pointer := s.Below
		if s.At != 0 {
			pointer = t.policy.stack.Places[document][s.At]
			if s.Below != "" {
				pointer += s.Below
			}
		}
		x := Step{
			Condition: int(s.Condition), Document: t.policy.stack.Documents[document].Name, Rule: s.Name,
			Pointer: pointer, Result: Result(s.Answer), kind: s.Kind, held: s.Held,
		}
		if s.Limit {
			x.Rule = ""
		}
		if s.To > s.From {
			x.Reads = reads[s.From:s.To:s.To]
		}
		trace = append(trace, x)
	}
	return trace
}

// documentOf returns the place of the document in the stack that has a rule, and how the names of
// its rules begin.
func (t *tracing) documentOf(rule string) (prefix string, at int) {
	prefix = rule[:strings.LastIndexByte(rule, ':')+1]
	for i, d := range t.policy.stack.Records {
		if len(prefix) == len(d.Layer)+len(d.Name)+2 && strings.HasPrefix(prefix, d.Layer) &&
			prefix[len(d.Layer)+1:len(prefix)-1] == d.Name {
			return prefix, i
		}
	}
	panic("a rule of no document of the stack")
}

// Nearest returns, if no rule matched the call, the allow rule of which the most of what must hold
// did so: its conjuncts from the left to the first that is not true. Those are the members of when,
// if it is an all, else when itself; and that unless is not true. Of equal rules it is the first.
func (t Trace) Nearest() (rule string, ok bool) {
	most := int32(-1)
	for i := range t {
		s := &t[i]
		switch {
		case s.kind != program.OtherStep && s.Result != False:
			return "", false
		case s.kind == program.AllowStep && s.held > most:
			rule, most = s.Rule, s.held
		}
	}
	return rule, most >= 0
}

// tell adds a step to the trace, if there is one.
func (t *tracing) tell(rule, pointer string, a program.Answer) {
	if t != nil {
		t.Add(rule, 0, pointer, a)
	}
}

// begin adds a step that is not decided yet. Its number is good for decided only.
func (t *tracing) begin(name string, at int32) int {
	if t == nil {
		return 0
	}
	return t.Begin(name, at)
}

func (t *tracing) decided(step int, a program.Answer) {
	if t != nil {
		t.Steps[step].Answer = a
	}
}

// billed notes the step of a charge.
func (t *tracing) billed(step int) {
	if t != nil {
		t.bills = append(t.bills, step)
	}
}

// charged decides the step of a charge.
func (t *tracing) charged(charge int, a program.Answer) {
	if t != nil {
		t.decided(t.bills[charge], a)
	}
}

// need adds a step of a need of a requirement.
func (t *tracing) need(x *program.Requirement, need int, a program.Answer) {
	if t == nil {
		return
	}
	list := "/all/"
	if x.Any {
		list = "/any/"
	}
	t.Add(x.Name, x.At, list+strconv.Itoa(need), a)
}

// approvals adds steps of the approvals of a requirement, as far as they were looked at.
func (t *tracing) approvals(x *program.Requirement, all answers) {
	for i := range x.Needs {
		if a := x.Needs[i].Approval; a != nil && t != nil {
			enough := all.enough(a)
			t.need(x, i, program.AnswerOf(enough))
			if enough && x.Any {
				return
			}
		}
	}
}

// limits adds the steps of the limits that the arguments were compared with.
func (t *tracing) limits(of *program.Tool, args, depth program.Answer) {
	if t == nil {
		return
	}
	if of.ArgsBy != "" {
		t.tell(of.ArgsBy+"ceilings", "/ceilings/args", args)
	} else if of.Limits.Args < program.MaxArgs {
		pointer := "/tools/" + value.EscapeSegment(of.Name) + "/limits/args"
		t.Add(of.ScopeRule, 0, pointer, args).Limit = true
	}
	if of.Depth > 0 {
		t.tell(of.DepthBy+"ceilings", "/ceilings/depth", depth)
	}
}

// entry evaluates an entry of scope, which is one step whatever it was compiled to.
func (t *tracing) entry(e *program.Evaluator, of *program.Tool, entry int) program.Answer {
	n := &of.Scope[entry]
	step, from := t.Begin(of.ScopeRule, 0), int32(len(t.Reads))
	a := e.Eval(n)
	s := &t.Steps[step]
	s.Below = "/tools/" + value.EscapeSegment(of.Name) + "/scope/" + strconv.Itoa(entry)
	s.Answer, s.From, s.To = a, from, int32(len(t.Reads))
	return a
}

// clauses judges the clauses of a layer one by one, and adds steps of what they say apart from
// their rules. Whether a document denies a tool by its ceiling of risk or by only is known before
// any call, so a tool that it does not deny may have no clause of it.
func (t *tracing) clauses(j *judging, layer string, lists ...[]program.Clause) bool {
	of, next := &t.policy.stack, 0
	others := func(until *program.Terms) {
		for ; next < len(of.Terms); next++ {
			x := of.Terms[next]
			switch {
			case of.Records[next].Layer != layer:
			case x == until:
				next++
				return
			case x.Concern(j.in, j.s.grants):
				t.risk(x, false)
				t.only(x, false)
			}
		}
	}
	for _, list := range lists {
		for i := range list {
			others(list[i].Of)
			if list[i].Of.Concern(j.in, j.s.grants) && !t.clause(j, list[i:i+1]) {
				return false
			}
		}
	}
	others(nil)
	return true
}

// clause judges one clause.
func (t *tracing) clause(j *judging, one []program.Clause) bool {
	c, of := &one[0], one[0].Of
	t.risk(of, c.Risky)
	may := j.clauses(one)
	expired := !may && j.record.Rule == of.Expiry.Rule
	if may || expired || j.record.Rule == of.Only {
		t.only(of, c.Outside)
	}
	if of.Expiry.At != 0 && (may || expired) {
		t.tell(of.Expiry.Rule, "/expires", program.AnswerOf(!expired))
	}
	return may
}

func (t *tracing) risk(of *program.Terms, over bool) {
	if of.Risks {
		t.tell(of.Ceilings, "/ceilings/risk", program.AnswerOf(!over))
	}
}

func (t *tracing) only(of *program.Terms, outside bool) {
	if of.Closed {
		t.tell(of.Only, "/only", program.AnswerOf(!outside))
	}
}
