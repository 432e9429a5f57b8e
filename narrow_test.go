package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/policy"
)

func document(t testing.TB, text string) contracts.Document {
	t.Helper()
	doc, err := policy.Parse("overlay.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// few is an overlay that lets echo have numbers up to n. More keys may stand behind it.
func few(t testing.TB, name string, version, n int, more ...string) contracts.Document {
	return document(t, fmt.Sprintf("helm: policy/v1\nlayer: P2\nname: \"%s\"\nversion: %d\nrules: [{id: few, deny: echo, when: {arg: /n, gt: %d}}]\n%s",
		name, version, n, strings.Join(more, "\n")))
}

func (w *world) narrow(k *helm.Kernel, overlay contracts.Document) *helm.Kernel {
	w.t.Helper()
	n, err := k.Narrow(overlay)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// of calls echo with a number, as a call of that kernel.
func (w *world) of(k *helm.Kernel, n int, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return k.Guard(context.Background(), in)
}

// mustAllow and mustDeny hold a call of echo with that number to what the kernel must say; by is the rule that denies.
func (w *world) mustAllow(k *helm.Kernel, n int, change ...func(*helm.Intent)) {
	w.t.Helper()
	w.runs.Store(0)
	d, r := w.of(k, n, change...)
	w.mustBe(d, r, want{contracts.Allow, contracts.ReasonAllow, contracts.Executed, nil, fmt.Sprintf(`{"n":%d}`, n), 1})
}

func (w *world) mustDeny(k *helm.Kernel, n int, by string, change ...func(*helm.Intent)) {
	w.t.Helper()
	w.runs.Store(0)
	d, r := w.of(k, n, change...)
	w.mustBe(d, r, want{reason: contracts.ReasonPolicyViolation, outcome: contracts.Denied, err: helm.ErrDenied})
	if d.Record.Rule != by {
		w.t.Errorf("denied by %q, want %q", d.Record.Rule, by)
	}
}

// mustBeClosed shows that this kernel judges nothing, and writes nothing.
func (w *world) mustBeClosed(k *helm.Kernel) {
	w.t.Helper()
	w.runs.Store(0)
	before := w.size()
	d, r := w.of(k, 1)
	w.mustBe(d, r, want{reason: contracts.ReasonKernelSealed, err: helm.ErrDenied})
	if n := w.size() - before; n != 0 {
		w.t.Errorf("a closed kernel wrote %d entries", n)
	}
	if n, err := k.Narrow(few(w.t, "late", 1, 1)); n != nil || err == nil {
		w.t.Errorf("a closed kernel was narrowed: %v", err)
	}
}

// policies counts the policy entries, and refuses a PolicyHash that has two, and a decision before that of its own.
func (w *world) policies() int {
	w.t.Helper()
	seen := map[contracts.Digest]bool{}
	for i, st := range w.statements() {
		var d *contracts.DecisionRecord
		switch {
		case st.Policy != nil && seen[st.Policy.Policy]:
			w.t.Errorf("entry %d: the policy was written before", i)
		case st.Policy != nil:
			seen[st.Policy.Policy] = true
		case st.Decision != nil:
			d = st.Decision
		case st.Receipt != nil:
			d = st.Receipt.Decision
		}
		if d != nil && !seen[d.PolicyHash] {
			w.t.Errorf("entry %d: judged by a policy that no earlier entry has", i)
		}
	}
	return len(seen)
}

// A task gets its overlay: it denies what the kernel above allows, and nothing else has changed.
func TestNarrow(t *testing.T) {
	w := newWorld(t)
	task := w.narrow(w.k, few(t, "task", 1, 5))
	w.mustAllow(task, 5)
	w.mustDeny(task, 6, "P2:task:few")
	w.mustAllow(w.k, 6)

	// Narrower still. Stack order is that of narrowing, not of names, and the first overlay that denies tells why.
	step := w.narrow(task, few(t, "a-step", 3, 3))
	w.mustAllow(step, 3)
	w.mustDeny(step, 4, "P2:a-step:few")
	w.mustDeny(step, 6, "P2:task:few")
	w.mustAllow(task, 4)

	// A sibling is another branch: its overlay is not those of the first.
	sibling := w.narrow(w.k, few(t, "other", 1, 2, "only: [echo]"))
	w.mustDeny(sibling, 3, "P2:other:few")
	w.mustAllow(task, 3)
	if d, _ := sibling.Guard(context.Background(), helm.Intent{Tool: "slow", Args: []byte(`{}`)}); d.Record.Rule != "P2:other:only" {
		t.Errorf("a tool outside only: %s by %q", d.Reason, d.Record.Rule)
	}

	// What an overlay is not for it does not touch.
	ada := w.narrow(w.k, few(t, "ada", 1, 1, "for: {session: s, caller: ada}"))
	w.mustDeny(ada, 2, "P2:ada:few", func(in *helm.Intent) { in.Caller.ID = "ada" })
	w.mustAllow(ada, 2, func(in *helm.Intent) { in.Caller.ID = "eve" })
	w.mustAllow(ada, 2, func(in *helm.Intent) { in.Caller.ID, in.Session = "ada", "elsewhere" })

	w.mustHold("P1:test:1, P1:test:1 P2:task:1, P1:test:1 P2:task:1 P2:a-step:3, P1:test:1 P2:other:1, P1:test:1 P2:ada:1")
	if n := w.policies(); n != 5 {
		t.Errorf("%d policy entries", n)
	}
	report := w.mustVerify()
	if report.Replay.NotReplayable != 0 || report.Replay.Replayed < 13 {
		t.Errorf("replay: %+v", report.Replay)
	}
	w.mustAgree(report)
}

// Log, sessions, keys and room are the same: a chain has the calls of all kernels, a key has one effect, a session is closed for all.
func TestNarrowShares(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) { o.Keep.Outputs = true })
	task := w.narrow(w.k, few(t, "task", 1, 5))
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	_, first := w.of(w.k, 4, key)
	d, again := w.of(task, 4, key)
	if d.Err() != nil || again.Index != first.Index || w.runs.Swap(0) != 1 {
		t.Errorf("the key's effect under another kernel: %v, receipts %d and %d", d.Err(), first.Index, again.Index)
	}
	if d, _ := w.of(task, 3, key); d.Reason != contracts.ReasonIdempotencyConflict {
		t.Errorf("the key of another call: %s", d.Reason)
	}
	_, r := w.of(task, 1, func(in *helm.Intent) { in.After = []contracts.Ref{first.Ref()}; in.Session = "t" })
	if r.Record.Outcome != contracts.Executed {
		t.Errorf("an entry of the kernel above as parent: %s", r.Record.Outcome)
	}
	if task.Trust() != w.k.Trust() {
		t.Error("another trust state")
	}
	if err := task.CloseSession(context.Background(), "s"); err != nil {
		t.Fatal(err)
	}
	if d, _ := w.of(w.k, 1); d.Reason != contracts.ReasonSessionClosed {
		t.Errorf("a session that the narrowed kernel closed: %s", d.Reason)
	}
	if c, err := task.Checkpoint(context.Background()); err != nil || c.Size != w.size() {
		t.Errorf("checkpoint of %d of %d: %v", c.Size, w.size(), err)
	}
	w.mustVerify()
}

// A repeat of a key runs nothing, writes nothing, and gets the first outcome: from under an overlay, and after a swap, that would deny the
// call. For anybody else, and for any other call, the key is a conflict.
func TestRepeatIsNotJudgedAgain(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) { o.Keep.Outputs = true })
	task := w.narrow(w.k, few(t, "task", 1, 2))
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	w.mustDeny(task, 4, "P2:task:few", key) // binds nothing
	_, first := w.of(w.k, 4, key)
	repeat := func(k *helm.Kernel) {
		t.Helper()
		w.runs.Store(0)
		before := w.size()
		d, r := w.of(k, 4, key)
		if d.Err() != nil || string(r.Output) != `{"n":4}` || r.Index != first.Index || w.runs.Load() != 0 || w.size() != before {
			t.Errorf("a repeat: %v, receipt %d, %d runs, %d entries", d.Err(), r.Index, w.runs.Load(), w.size()-before)
		}
		for name, change := range map[string]func(*helm.Intent){
			"caller": func(in *helm.Intent) { in.Caller.ID = "eve" }, "role": func(in *helm.Intent) { in.Caller.Roles = append(in.Caller.Roles, "more") },
		} {
			if d, r := w.of(k, 4, key, change); d.Reason != contracts.ReasonIdempotencyConflict || r.Output != nil {
				t.Errorf("with another %s: %s, %q", name, d.Reason, r.Output)
			}
		}
		if d, r := w.of(k, 4, key, func(in *helm.Intent) { in.Session = "other" }); k == task && (d.Reason != contracts.ReasonPolicyViolation || r.Output != nil) {
			t.Errorf("in another session: %s", d.Reason)
		}
	}
	repeat(task)
	w.swap(version(t, 2, noEcho...))
	if d, _ := w.of(w.k, 4); d.Reason != contracts.ReasonNoPolicyDefined {
		t.Errorf("after the swap: %s", d.Reason)
	}
	repeat(w.k)
	w.mustVerify()
}

// A seal is for all, whoever's call it was that failed.
func TestNarrowSealsTogether(t *testing.T) {
	w := newWorld(t)
	a, b := w.narrow(w.k, few(t, "a", 1, 5)), w.narrow(w.k, few(t, "b", 1, 5))
	w.store.in(1)
	if d, _ := w.of(a, 1); d.Reason != contracts.ReasonFailClosedError || !errors.Is(d.Err(), errDisk) {
		t.Errorf("%s: %v", d.Reason, d.Err())
	}
	w.mustBeClosed(a)
	w.mustBeClosed(b)
	w.mustBeSealed()
	w.runs.Store(0)
	w.aftermath(nil)
}

// A narrowed kernel closes itself alone and waits for its own calls; the one that New made closes all, and waits for all.
func TestNarrowClose(t *testing.T) {
	w := newWorld(t)
	task := w.narrow(w.k, few(t, "task", 1, 5))
	step, sibling := w.narrow(task, few(t, "step", 1, 4)), w.narrow(w.k, few(t, "sibling", 1, 3, "only: [echo, slow]"))
	started, release := make(chan struct{}, 2), make(chan struct{})
	w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
		started <- struct{}{}
		<-release
		return executor.Result{Output: []byte(`1`)}, nil
	}
	done := make(chan helm.Decision, 2)
	for _, k := range []*helm.Kernel{w.k, sibling} { // neither of which the task waits for
		go func() { d, _ := w.of(k, 1); done <- d }()
		<-started
	}
	within(t, 10*time.Second, "closing a task that has no calls", func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	})
	w.mustBeClosed(task)
	closed := make(chan error, 1)
	go func() { closed <- sibling.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	for range 2 {
		if d := <-done; d.Err() != nil {
			t.Errorf("a call that ran: %v", d.Err())
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := sibling.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	w.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		return executor.Result{Output: c.Args}, nil
	}
	w.swap(version(t, 2, "slow:", "quick:", " slow,", "")) // over which the sibling would not load
	w.mustAllow(step, 4)                                   // whose parent is closed
	w.mustDeny(step, 6, "P2:task:few")
	w.mustAllow(w.k, 6)

	started, release = make(chan struct{}, 1), make(chan struct{})
	w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
		started <- struct{}{}
		<-release
		return executor.Result{Output: []byte(`1`)}, nil
	}
	go func() { d, _ := w.of(step, 1); done <- d }()
	<-started
	go func() { closed <- w.k.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for a narrowed kernel's call: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if d := <-done; d.Err() != nil {
		t.Errorf("a narrowed kernel's call: %v", d.Err())
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	w.mustBeClosed(step)
	if err := step.Close(); err != nil {
		t.Errorf("closing what is closed: %v", err)
	}
	var none *helm.Kernel
	if none.Close() == nil || new(helm.Kernel).Close() == nil {
		t.Error("no kernel was closed")
	}
	w.runs.Store(0)
	w.o.Policy = version(t, 2)
	w.open()
	w.mustVerify()
}
