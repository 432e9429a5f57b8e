package policytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
)

// Options say what a run does. The zero Options runs all cases, on all processors.
type Options struct {
	Run      *regexp.Regexp // cases by name; nil: all
	Values   bool           // reports show values of the calls
	Mutate   bool           // run mutants of the policy
	Min      float64        // percent of the units that must be covered; below it the run fails
	Parallel int            // cases at a time; 0: as many as there are processors
}

// A Report is what a run found. Its order is that of the file.
type Report struct {
	File     string   `json:"file"`
	Cases    []Result `json:"cases"`
	Coverage Coverage `json:"coverage"`
	Mutants  []Mutant `json:"mutants,omitempty"`
	Faults   []string `json:"faults,omitempty"` // of the run as a whole
}

// A Result is how one case, or row, came out.
type Result struct {
	Name     string   `json:"name"`
	Line     int      `json:"line"`
	Args     string   `json:"args,omitempty"`    // of the call; only with Values
	Skipped  string   `json:"skipped,omitempty"` // why
	Weak     bool     `json:"weak,omitempty"`    // it wants DENY, for any reason
	Failures []string `json:"failures,omitempty"`
	Steps    []string `json:"steps,omitempty"` // of a failure: those that decided the last call

	Verdicts *Verdicts `json:"verdicts,omitempty"` // of a transcript
}

// Failed reports whether the case failed.
func (r *Result) Failed() bool { return r.Failures != nil }

// OK reports whether all cases came out as they say, coverage is as high as it must be, and no
// mutant survived.
func (r *Report) OK() bool {
	for i := range r.Cases {
		if r.Cases[i].Failed() {
			return false
		}
	}
	for i := range r.Mutants {
		if r.Mutants[i].Survived {
			return false
		}
	}
	return r.Faults == nil
}

var errNone = errors.New("policytest: no case ran")

// Run runs the cases. Cases that fail are in the report; an error is what kept them from being run.
func (s *Suite) Run(ctx context.Context, o Options) (Report, error) {
	r := Report{File: s.doc.Name}
	var chosen []int
	for i, c := range s.cases {
		if o.Run == nil || o.Run.MatchString(c.name) {
			chosen = append(chosen, i)
		}
	}
	counts := newCounter(s)
	seen := s.runAll(ctx, s.policy, chosen, o, true)
	ran := 0
	var list []Result
	for k, i := range chosen {
		list = append(list, seen[k].result)
		if seen[k].result.Skipped == "" {
			ran++
		}
		counts.add(i, seen[k].marks)
	}
	r.Cases = list
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	if ran == 0 {
		return Report{}, errNone
	}
	r.Coverage = counts.coverage()
	r.Faults = append(r.Faults, counts.idle()...)
	if o.Mutate {
		r.Mutants = s.mutants(ctx, o, counts, passed(chosen, seen))
		r.Faults = append(r.Faults, s.idleMutants(r.Mutants)...)
	}
	if p := r.Coverage.Percent(); p < o.Min {
		r.Faults = append(r.Faults, fmt.Sprintf("covered %.1f %%, of at least %.1f %%", p, o.Min))
	}
	return r, nil
}

// passed are the cases that came out as they say.
func passed(chosen []int, seen []outcome) map[int]bool {
	ok := map[int]bool{}
	for k, i := range chosen {
		if r := &seen[k].result; r.Skipped == "" && !r.Failed() {
			ok[i] = true
		}
	}
	return ok
}

// An outcome is what one case left.
type outcome struct {
	result Result
	marks  marks
}

// runAll runs cases by a policy, several at a time. What each leaves is in their order.
func (s *Suite) runAll(ctx context.Context, pol *guardian.Policy, cases []int, o Options, explain bool) []outcome {
	out := make([]outcome, len(cases))
	n := o.Parallel
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, len(cases)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range next {
				out[k] = s.runCase(ctx, pol, s.cases[cases[k]], o, explain)
			}
		}()
	}
	for k := range cases {
		next <- k
	}
	close(next)
	wg.Wait()
	return out
}

// runCase runs one case.
func (s *Suite) runCase(ctx context.Context, pol *guardian.Policy, c *scenario, o Options, explain bool) (x outcome) {
	last := &c.steps[len(c.steps)-1]
	x.result = Result{Name: c.name, Line: explained.Position(s.doc.Lines, c.at).Line, Skipped: c.skip}
	if o.Values && last.does == "call" {
		x.result.Args = string(last.args)
	}
	x.result.Weak = last.weak()
	if c.skip != "" {
		return x
	}
	fail := func(format string, args ...any) {
		x.result.Failures = append(x.result.Failures, fmt.Sprintf(format, args...))
	}
	w, err := s.newWorld(pol, c)
	if err != nil {
		fail("%v", err)
		return x
	}
	w.values = o.Values
	defer func() { x.result.Verdicts = w.verdicts }()
	failed := "" // the id of the decision that came out otherwise
	for i := range c.steps {
		at := &c.steps[i]
		made, failures := w.do(ctx, at)
		if failures == nil {
			continue
		}
		where := ""
		if at != last {
			where = fmt.Sprintf("before, line %d: ", explained.Position(s.doc.Lines, at.at).Line)
		}
		for _, f := range failures {
			fail("%s%s", where, f)
		}
		if made != nil {
			fail("%s%s", where, said(made))
			failed = made.decision.Record.ID
		}
		break
	}
	if err := w.verified(ctx); err != nil {
		fail("%v", err)
	}
	if explain {
		err := w.explain(ctx, &x.marks, o.Values)
		if err != nil {
			fail("%v", err)
		}
		if x.result.Failed() {
			x.result.Steps = x.marks.decisive(s, failed)
		}
	}
	return x
}

// weak reports whether a step wants a DENY for any reason.
func (x *step) weak() bool {
	if x.replay == nil {
		return x.want.verdict == contracts.Deny && !x.want.stated
	}
	for _, w := range x.replay.wants {
		if w.verdict == contracts.Deny && !w.stated {
			return true
		}
	}
	return false
}

// said tells how a call came out: never with a value of it.
func said(c *call) string {
	d := &c.decision
	parts := []string{c.step.tool + ": " + d.Verdict.String(), string(d.Reason)}
	if d.Record.Rule != "" {
		parts = append(parts, d.Record.Rule)
	}
	if d.Why != "" {
		parts = append(parts, d.Why)
	}
	return strings.Join(parts, ", ")
}

// marks are the traces of one case, in the order of its log.
type marks struct {
	traces []guardian.Trace
	tools  []judged
}

// A judged call is one that a policy judged.
type judged struct {
	id      string
	tool    string
	verdict contracts.Verdict
}

// explain judges every recorded call again, and holds the record to be that of the log.
func (w *world) explain(ctx context.Context, m *marks, values bool) error {
	policies := []*guardian.Policy{w.kernel.Policy()}
	for _, k := range w.over {
		policies = append(policies, k.Policy())
	}
	return explained.Calls(ctx, w.store, w.kernel.Trust(), policies, values, m.add)
}

func (m *marks) add(d *contracts.DecisionRecord, trace guardian.Trace) {
	m.traces = append(m.traces, trace)
	m.tools = append(m.tools, judged{d.ID, d.Tool, d.Verdict})
}

// decisive returns the steps that led to a decision, with file and line. One of the kernel's own,
// which asked no policy, has none.
func (m *marks) decisive(s *Suite, id string) []string {
	for i := range m.tools {
		if m.tools[i].id == id {
			documents := slices.AppendSeq(s.policy.Documents(), maps.Values(s.overlays))
			return explained.Decisive(m.traces[i], documents)
		}
	}
	return nil
}
