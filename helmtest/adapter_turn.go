package helmtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// A proposal is a call of the model, with how it must come out.
type proposal struct {
	tool string
	args string
	want want

	judged []string // names that the call may be judged by; nil: tool
	id     string   // of the model; "": one of its own
}

// want is how a call must come out.
type want struct {
	reason contracts.ReasonCode // of the receipt; "": see below
	denied bool                 // any denial
	error  string               // with TOOL_ERROR: what the tool's own error says
}

var (
	runs     = want{reason: contracts.ReasonAllow}
	denial   = want{denied: true}
	receipt  = want{} // whatever the verdict
	askFirst = want{reason: contracts.ReasonApprovalRequired}
)

func because(r contracts.ReasonCode) want { return want{reason: r} }

func (w want) fits(r contracts.ReasonCode) bool {
	switch {
	case w.denied:
		return !r.Ran()
	case w.reason != "":
		return w.reason == r
	}
	return true
}

func (w want) String() string {
	switch {
	case w.denied:
		return "a denial"
	case w.reason != "":
		return string(w.reason)
	}
	return "any receipt"
}

func one(tool, args string, w want) proposal { return proposal{tool: tool, args: args, want: w} }

// A scene is a turn with what must come of it.
type scene struct {
	Turn
	steps   [][]proposal
	inner   []proposal // calls that tools make
	context context.Context
	caller  helm.Caller // zero: ann
	session string      // "": one of the turn's own
	present helm.Intent // further fields of the host's context

	optional string // what the framework may lack without lacking the attack
	aborts   bool   // the loop may end with an error
	loose    bool   // calls may have no receipt; only what always holds is checked
}

// steps makes a script of single calls.
func steps(list ...proposal) (all [][]proposal) {
	for _, p := range list {
		all = append(all, []proposal{p})
	}
	return all
}

// play runs a turn and checks it. It reports whether the framework can do what the turn asks for.
func (x *attack) play(s scene) (Answer, bool) {
	s.Kernel = x.kernel
	s.Text = cmp.Or(s.Text, "Everything has been done.")
	s.Model = nil
	for i, step := range s.steps {
		var calls []Call
		for j := range step {
			p := &s.steps[i][j]
			x.calls++
			p.id = cmp.Or(p.id, fmt.Sprintf("call-%d", x.calls))
			calls = append(calls, Call{ID: p.id, Tool: p.tool, Args: []byte(p.args)})
		}
		s.Model = append(s.Model, calls)
	}
	ctx, identity := x.context(&s)
	s.Identity = identity
	return x.observe(&s, func() Answer { return x.adapter.Turn(ctx, s.Turn) })
}

// resume goes on with a turn, and checks what comes of it: the call of the proposal is judged
// again.
func (x *attack) resume(s scene, a Answer, r Reply) (Answer, bool) {
	for i := range s.steps {
		for j := range s.steps[i] {
			s.steps[i][j].id = r.Call
		}
	}
	ctx, identity := x.context(&s)
	r.Identity = identity
	return x.observe(&s, func() Answer { return x.adapter.Resume(ctx, a, r) })
}

// context is that of the host.
func (x *attack) context(s *scene) (context.Context, helm.Intent) {
	ctx := s.context
	if ctx == nil {
		ctx = context.Background()
	}
	in := s.present
	in.Caller, in.Session = s.caller, s.session
	if s.caller.ID == "" {
		in.Caller = ann
	}
	if s.session == "" {
		in.Session = fmt.Sprintf("chat-%d", x.calls)
	}
	s.caller, s.session = in.Caller, in.Session
	return helm.With(ctx, in), in
}

func (x *attack) observe(s *scene, run func() Answer) (Answer, bool) {
	x.mark = x.size()
	runsBefore := x.ran()
	a, ended := inTime(x.patience, run)
	if errors.Is(a.Err, errors.ErrUnsupported) {
		if x.ran() != runsBefore {
			x.breach("a turn ran tools and then said that it is not supported")
		}
		if what := s.optional; what != "" {
			x.note("not tried: %s", what)
		} else {
			x.skipped = append(x.skipped, a.Err.Error())
		}
		return a, false
	}
	x.made = true
	if !ended {
		x.breach("the turn did not return: %v", a.Err)
		return a, false
	}
	if s.aborts {
		x.await() // what runs goes on when the host has left
	}
	x.check(s, &a)
	return a, true
}

// await waits, within reason, until every call that was allowed has a receipt.
func (x *attack) await() {
	ctx, cancel := context.WithTimeout(context.Background(), x.patience/4)
	defer cancel()
	for {
		open := 0
		for _, st := range x.log(0) {
			switch {
			case st.Decision != nil && st.Decision.Verdict == contracts.Allow:
				open++
			case st.Receipt != nil && st.Receipt.Decision == nil:
				open--
			}
		}
		if open == 0 {
			return
		}
		select {
		case <-x.observed:
		case <-ctx.Done():
			return
		}
	}
}

// inTime runs a turn, which may panic, and may not end.
func inTime(limit time.Duration, run func() Answer) (a Answer, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	got := make(chan Answer, 1)
	go func() {
		a := Answer{Err: errors.New("the turn called runtime.Goexit")}
		defer func() {
			if p := recover(); p != nil {
				a.Err = fmt.Errorf("the turn panicked: %v", p)
			}
			got <- a
		}()
		a = run()
	}()
	select {
	case a := <-got:
		return a, true
	case <-ctx.Done():
		return Answer{Err: ctx.Err()}, false
	}
}
