package gates

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/receipts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Attacks on each gate of a call, one table a condition: gate_<condition>_test.go,
// gate_errors_test.go for what goes wrong while judging, and gate_outcome_test.go for what a tool
// does when it runs. Each attack is a call that is admissible but for one thing, on a kernel of its
// own, and ends with its own reason and a receipt.

// kind is how an attack tries to get past a gate.
type kind string

const (
	plain     kind = "" // what the gate is there for
	omitted   kind = "omitted"
	emptied   kind = "emptied"
	null      kind = "null"
	retyped   kind = "of another type"
	oversize  kind = "oversize"
	replayed  kind = "replayed"
	raced     kind = "raced"
	panicking kind = "panicking"
	elsewhere kind = "from elsewhere" // another session, caller, tenant, tool or log
)

var kinds = []kind{omitted, emptied, null, retyped, oversize, replayed, raced, panicking, elsewhere}

// A gate is what must hold of a call, with the attacks on it.
type gate struct {
	name    string
	stage   func(t *testing.T) *target
	attacks []attack
	spared  map[kind]string // kinds of which there is no attack, and why
}

type attack struct {
	kind   kind
	name   string
	reason contracts.ReasonCode
	rule   string // that the decision names
	change func(s *target, in *helm.Intent)
	do     func(s *target, in helm.Intent) answer // nil: Guard
	runs   int64                                  // of the tool in the attacked call
	ends   bool                                   // nothing is admitted afterwards
	lost   bool                                   // the log fails: there is no receipt, whatever the reason
}

// An answer is what Guard returned.
type answer struct {
	d helm.Decision
	r helm.Receipt
}

func answered(d helm.Decision, r helm.Receipt) answer { return answer{d, r} }

// by makes the call as one of k.
func by(k *helm.Kernel, in helm.Intent) answer { return answered(k.Guard(context.Background(), in)) }

// A target is a kernel under attack, and the call that it admits.
type target struct {
	*kerneltest.World
	good  helm.Intent
	ahead atomic.Int64 // of the clock, in nanoseconds
}

// newTarget makes a kernel of documents.
func newTarget(t *testing.T, good helm.Intent, documents []string, change ...func(*helm.Options)) *target {
	s := &target{good: good}
	s.World = kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, documents...)
		o.Now = func() time.Time { return kerneltest.Noon.Add(time.Duration(s.ahead.Load())) }
	}}, change...)...)
	return s
}

func (s *target) guard(in helm.Intent) answer { return by(s.Kernel, in) }

// admit makes the good call, which must run: whatever is denied next to it is denied for its own
// fault.
func (s *target) admit(change ...func(*helm.Intent)) helm.Receipt {
	s.T.Helper()
	in := s.good
	for _, f := range change {
		f(&in)
	}
	a := s.guard(in)
	require.NoError(s.T, a.d.Err(), "the call that the others depart from")
	require.EqualValues(s.T, 1, s.Runs.Swap(0), "runs of the call that the others depart from")
	return a.r
}

// race makes calls at once, of which so many must be admitted. It returns the answer of another
// one.
func (s *target) race(in helm.Intent, calls, admitted int, change func(i int, in *helm.Intent)) (other answer) {
	s.T.Helper()
	var mu sync.Mutex
	ran := 0
	kerneltest.AtOnce(calls, func(i int) {
		in := in
		change(i, &in)
		a := s.guard(in)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case a.d.Err() == nil:
			ran++
		case other.d.Reason != "" && a.d.Reason != other.d.Reason:
			s.T.Errorf("denied for %s and for %s", other.d.Reason, a.d.Reason)
		default:
			other = a
		}
	})
	assert.Equal(s.T, admitted, ran, "calls admitted")
	assert.EqualValues(s.T, admitted, s.Runs.Swap(0), "runs of the tool")
	return other
}

// between makes the call while something happens after its reading and before its judgement: the
// kernel asks for the time then, with the session locked.
func (s *target) between(in helm.Intent, what func()) answer {
	s.T.Helper()
	var armed atomic.Bool
	s.Close()
	now := s.Options.Now
	s.Options.Now = func() time.Time {
		if armed.CompareAndSwap(true, false) {
			kerneltest.Within(s.T, 10*time.Second, "what comes in between", what)
		}
		return now()
	}
	s.Open()
	armed.Store(true)
	a := s.guard(in)
	assert.False(s.T, armed.Load(), "nothing came in between")
	return a
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, g := range gates() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			seen := map[kind]bool{}
			for _, a := range g.attacks {
				seen[a.kind] = true
				name := a.name
				if a.kind != plain {
					name = string(a.kind) + ": " + name
				}
				t.Run(name, func(t *testing.T) { a.run(g.stage(t)) })
			}
			for _, k := range kinds {
				why, spared := g.spared[k]
				assert.NotEqual(t, spared, seen[k], "attacks with what is %s, spared because %q", k, why)
				assert.Equal(t, spared, why != "", "a word that says why there is no attack with what is %s", k)
			}
		})
	}
}

// run makes one attack: the good call is admitted, the attack ends as it must, and the good call is
// still admitted.
func (a *attack) run(s *target) {
	s.T.Helper()
	s.admit()
	in := s.good
	if a.change != nil {
		a.change(s, &in)
	}
	do := a.do
	if do == nil {
		do = (*target).guard
	}
	got := do(s, in)
	if !a.reason.Ran() && !a.lost {
		assert.Equal(s.T, a.rule, got.d.Record.Rule, "the rule that decided")
	}
	assert.Equal(s.T, a.rule != "", a.reason.NamesRule(), "%s names a rule", a.reason)
	a.mustEnd(s, got)
	if a.unrecorded() {
		s.Store.Heal()
		s.Open()
	}
	if !a.ends {
		s.admit()
	}
	s.MustVerify()
}

// unrecorded reports whether the attack leaves no receipt.
func (a *attack) unrecorded() bool {
	return a.reason == contracts.ReasonKernelSealed || a.reason == contracts.ReasonReceiptNotStored || a.lost
}

// mustEnd holds the answer to what the registry of reasons says, and the receipt to the answer.
func (a *attack) mustEnd(s *target, got answer) {
	s.T.Helper()
	outcome, verdict := a.reason.Ending()
	x := kerneltest.Want{Verdict: verdict, Reason: a.reason, Outcome: outcome, Runs: a.runs, Err: helm.ErrDenied}
	switch {
	case a.reason.Ran() && verdict == contracts.Allow:
		x.Err = kerneltest.ErrTool
	case a.reason.Ran():
		x.Err = helm.ErrWithheld
	}
	switch {
	case a.unrecorded():
		x.Outcome = ""
	case a.reason == contracts.ReasonOutputNotKept:
		x.Outcome = contracts.Executed // the first call's
	}
	s.MustBe(got.d, got.r, x)
	asks := a.reason == contracts.ReasonApprovalRequired
	assert.Equal(s.T, asks, errors.Is(got.d.Err(), helm.ErrApprovalRequired), "ErrApprovalRequired")
	assert.NotEmpty(s.T, a.reason.Advice(), "nothing to tell the model")
	assert.True(s.T, got.d.Reason.Known(), "%s is in the registry", got.d.Reason)
	if x.Outcome != "" && !s.T.Failed() {
		a.mustBeSigned(s, got, x.Outcome)
	}
}

// mustBeSigned holds the signed receipt to the answer.
func (a *attack) mustBeSigned(s *target, got answer, outcome contracts.Outcome) {
	s.T.Helper()
	signed, err := receipts.Open(got.r.Entry, s.TrustState(), got.r.Index)
	require.NoError(s.T, err)
	require.Equal(s.T, got.r.Record, signed, "the record that was signed")
	switch {
	case outcome == contracts.Denied:
		assert.Equal(s.T, got.d.Record, *signed.Decision, "the decision that was signed")
		assert.Equal(s.T, a.reason, signed.Decision.Reason)
		assert.NotEmpty(s.T, got.d.Why)
		if at := a.reason.Condition(); at != contracts.AnyCondition {
			assert.Equal(s.T, at, signed.Decision.Condition)
		}
	case a.reason != contracts.ReasonOutputNotKept:
		assert.Equal(s.T, got.d.Reason, signed.Reason)
		assert.Equal(s.T, got.d.Verdict, signed.Verdict)
	}
}

// Changes of a call.

func arguments(text string) func(*target, *helm.Intent) { return altered(kerneltest.WithArgs(text)) }

func altered(f func(in *helm.Intent)) func(*target, *helm.Intent) {
	return func(_ *target, in *helm.Intent) { f(in) }
}

func driver(f func(s *target) executor.Driver) func(*target, *helm.Intent) {
	return func(s *target, in *helm.Intent) { in.Driver = f(s) }
}

// swapTo puts documents into force.
func (s *target) swapTo(documents ...string) { s.Swap(kerneltest.Compile(s.T, documents...)) }

// task narrows the kernel by an overlay.
func (s *target) task(overlay string) *helm.Kernel {
	s.T.Helper()
	return s.Narrow(s.Kernel, kerneltest.Document(s.T, overlay))
}
