package gates

import (
	"context"
	"errors"
	"reflect"
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

// Attacks on each gate of a call, one table a condition: gate_<condition>_test.go, and
// gate_outcome_test.go for what a tool does when it runs. Each is a call that is admissible but for
// one thing, on a kernel of its own, and ends with its own reason and a receipt.

// kind is the way in which somebody tries to get past.
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
	do     func(s *target, in helm.Intent) (helm.Decision, helm.Receipt) // nil: Guard
	runs   int64                                                         // of the tool in the attacked call
	ends   bool                                                          // nothing is admitted afterwards
	// the log could not be written to: there is no receipt, whatever the reason
	lost bool
}

// A siege is a kernel under attack, and the call that it admits.
type target struct {
	*kerneltest.World
	good  helm.Intent
	ahead atomic.Int64 // of the clock, in nanoseconds
}

// besiege makes a kernel of documents.
func newTarget(t *testing.T, good helm.Intent, documents []string, change ...func(*helm.Options)) *target {
	s := &target{good: good}
	s.World = kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, documents...)
		o.Now = func() time.Time { return kerneltest.Noon.Add(time.Duration(s.ahead.Load())) }
	}}, change...)...)
	return s
}

func (s *target) guard(in helm.Intent) (helm.Decision, helm.Receipt) {
	return s.Kernel.Guard(context.Background(), in)
}

// admit makes the good call, which must run: what is denied beside it is denied for its own fault.
func (s *target) admit(change ...func(*helm.Intent)) helm.Receipt {
	s.T.Helper()
	in := s.good
	for _, f := range change {
		f(&in)
	}
	d, r := s.guard(in)
	n := s.Runs.Swap(0)
	require.NoError(s.T, d.Err())
	require.Equal(s.T, int64(1), n)
	return r
}

// race makes calls at once, of which so many are admitted. It answers one of the others.
func (s *target) race(in helm.Intent, calls, admitted int, change func(i int, in *helm.Intent)) (d helm.Decision, r helm.Receipt) {
	s.T.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ran := 0
	for i := range calls {
		wg.Go(func() {
			in := in
			change(i, &in)
			x, y := s.guard(in)
			mu.Lock()
			defer mu.Unlock()
			if x.Err() == nil {
				ran++
			} else if d.Reason != "" && x.Reason != d.Reason {
				s.T.Errorf("denied for %s and for %s", d.Reason, x.Reason)
			} else {
				d, r = x, y
			}
		})
	}
	wg.Wait()
	n := s.Runs.Swap(0)
	assert.Equal(s.T, admitted, ran)
	assert.Equal(s.T, int64(admitted), n)
	return d, r
}

// between makes the call while something happens between its reading and its judgement: the clock
// is asked for with the session locked.
func (s *target) between(in helm.Intent, what func()) (helm.Decision, helm.Receipt) {
	s.T.Helper()
	var armed atomic.Bool
	require.NoError(s.T, s.Kernel.Close())
	now := s.Options.Now
	s.Options.Now = func() time.Time {
		if armed.CompareAndSwap(true, false) {
			kerneltest.Within(s.T, 10*time.Second, "what comes in between", what)
		}
		return now()
	}
	s.Open()
	armed.Store(true)
	d, r := s.guard(in)
	assert.False(s.T, armed.Load(), "nothing came in between")
	return d, r
}

// restart is another process over the same store.
func (s *target) restart() {
	s.T.Helper()
	require.NoError(s.T, s.Kernel.Close())
	s.Open()
}

func TestAttacks(t *testing.T) {
	for _, g := range gates() {
		t.Run(g.name, func(t *testing.T) {
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
				assert.NotEqual(t, spared, seen[k], "attacks with what is %s", k)
				assert.False(t, spared && why == "", "attacks with what is %s", k)
			}
		})
	}
}

// run makes one attack: the good call is admitted, the attack ends as it must, and the good call is
// admitted still.
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
	d, r := do(s, in)
	decided := !a.reason.Ran() && !a.lost
	assert.False(s.T, decided && d.Record.Rule != a.rule)
	assert.Equal(s.T, a.rule != "", a.reason.NamesRule())
	a.ending(s, d, r)
	if d.Reason == contracts.ReasonKernelSealed || d.Reason == contracts.ReasonReceiptNotStored || a.lost {
		s.Store.Heal() // the disk is well again
		s.Open()
	}
	if !a.ends {
		s.admit()
	}
	s.MustVerify()
}

// ending holds the answer to what the registry says of its reason, and the receipt to the answer.
func (a *attack) ending(s *target, d helm.Decision, r helm.Receipt) {
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
	case a.reason == contracts.ReasonKernelSealed || a.reason == contracts.ReasonReceiptNotStored || a.lost:
		x.Outcome = ""
	case a.reason == contracts.ReasonOutputNotKept:
		x.Outcome = contracts.Executed // the first's
	}
	s.MustBe(d, r, x)
	assert.Equal(s.T, a.reason == contracts.ReasonApprovalRequired, errors.Is(d.Err(), helm.ErrApprovalRequired), "error")
	assert.NotEmpty(s.T, a.reason.Advice(), "nothing to tell the model")
	assert.True(s.T, d.Reason.Known())
	if x.Outcome == "" || s.T.Failed() {
		return
	}
	signed, err := receipts.Open(r.Entry, s.TrustState(), r.Index)
	require.NoError(s.T, err)
	require.Equal(s.T, r.Record, signed)
	switch {
	case x.Outcome == contracts.Denied && !reflect.DeepEqual(*signed.Decision, d.Record):
		s.T.Errorf("signed was %+v, and answered %+v", *signed.Decision, d.Record)
	case x.Outcome == contracts.Denied && a.reason.Condition() != contracts.AnyCondition && signed.Decision.Condition != a.reason.Condition():
		s.T.Errorf("%s at condition %d", a.reason, signed.Decision.Condition)
	case x.Outcome == contracts.Denied && (signed.Decision.Reason != a.reason || d.Why == ""):
		s.T.Errorf("signed was %s, why: %q", signed.Decision.Reason, d.Why)
	case x.Outcome != contracts.Denied && a.reason != contracts.ReasonOutputNotKept && (signed.Reason != d.Reason || signed.Verdict != d.Verdict):
		s.T.Errorf("signed was %s %s", signed.Verdict, signed.Reason)
	}
}

func arguments(text string) func(*target, *helm.Intent) { return altered(kerneltest.WithArgs(text)) }

func altered(f func(in *helm.Intent)) func(*target, *helm.Intent) {
	return func(_ *target, in *helm.Intent) { f(in) }
}

func driver(f func(s *target) executor.Driver) func(*target, *helm.Intent) {
	return func(s *target, in *helm.Intent) { in.Driver = f(s) }
}

// swapTo puts documents into force.
func (s *target) swapTo(documents ...string) { s.Swap(kerneltest.Compile(s.T, documents...)) }

func (s *target) task(overlay string) *helm.Kernel {
	s.T.Helper()
	return s.Narrow(s.Kernel, kerneltest.Document(s.T, overlay))
}
