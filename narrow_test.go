package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
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

// What Narrow refuses leaves no entry, and the kernel as it was.
func TestNarrowRefused(t *testing.T) {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	fails := false
	w := newWorld(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			if fails {
				panic("the clock")
			}
			return now
		}
	})
	task := w.narrow(w.k, few(t, "task", 7, 5))
	text := func(s string) contracts.Document { return document(t, s) }
	before := w.size()
	for name, c := range map[string]struct {
		k       *helm.Kernel
		overlay contracts.Document
		says    string
	}{
		"a floor":               {w.k, text("helm: policy/v1\nlayer: P0\nname: f\nversion: 1\n"), "layer P0 over a stack"},
		"a bundle":              {w.k, text(strings.Replace(policyText, "test", "more", 1)), "layer P1 over a stack"},
		"the stack's bundle":    {w.k, text(policyText), "layer P1 over a stack"},
		"nothing":               {w.k, contracts.Document{}, ""},
		"no document":           {w.k, contracts.Document{Canonical: []byte(`[]`)}, ""},
		"an allow":              {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: all, allow: closed}]\n"), "allow"},
		"another tool":          {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nonly: [nobody]\n"), "nobody"},
		"a later feature":       {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: d, deny: closed, when: {session: tainted, eq: true}}]\n"), "not supported"},
		"expired":               {w.k, few(t, "x", 1, 5, `expires: "2026-11-20T17:00:00Z"`), "expired at 2026-11-20T17:00:00.000Z"},
		"its own name again":    {task, few(t, "task", 8, 4), "a second P2 document"},
		"a version before":      {w.k, few(t, "task", 6, 5), "policy P2 task: version 6 goes back: the log has had version 7"},
		"a version left out":    {w.k, text("helm: policy/v1\nlayer: P2\nname: task\nonly: [echo]\n"), "version 1 goes back"},
		"of a narrowed kernel":  {task, few(t, "x", 1, 5, `expires: "2001-01-01T00:00:00Z"`), "expired"},
		"another name's casing": {task, few(t, "Task", 1, 5, `expires: "2001-01-01T00:00:00Z"`), "expired"},
		"of no kernel":          {nil, few(t, "x", 1, 5), "no kernel"},
		"of the zero kernel":    {new(helm.Kernel), few(t, "x", 1, 5), "no kernel"},
	} {
		n, err := c.k.Narrow(c.overlay)
		if n != nil || err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "helm: ") {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	var load *guardian.LoadError
	if _, err := w.k.Narrow(text(policyText)); !errors.As(err, &load) || load.Pointer != "/layer" || load.Remedy == "" {
		t.Errorf("not where the fault is: %v", err)
	}
	fails = true
	if _, err := w.k.Narrow(few(t, "x", 1, 5)); err == nil || strings.Contains(err.Error(), "the clock") {
		t.Errorf("without a clock: %v", err)
	}
	fails = false
	if n := w.size() - before; n != 0 {
		t.Errorf("%d entries of what was refused", n)
	}
	w.mustAllow(task, 5)
	w.mustAllow(w.narrow(w.k, few(t, "x", 1, 5, `expires: "2026-11-20T17:00:01Z"`)), 5)

	// A stack whose time is over is judged by, and denies; but it is put into force no more.
	short := w.narrow(w.k, few(t, "short", 1, 5, `expires: "2026-11-20T18:00:00Z"`))
	now = now.Add(time.Hour)
	w.mustDeny(short, 1, "P2:short:expires")
	if _, err := short.Narrow(few(t, "late", 1, 5)); err == nil || !strings.Contains(err.Error(), "P2:short expired") {
		t.Errorf("over an expired overlay: %v", err)
	}
	w.mustVerify()
}

// An overlay that is changed after it was handed in is what it was.
func TestNarrowCopies(t *testing.T) {
	w := newWorld(t)
	overlay := few(t, "task", 1, 5)
	task := w.narrow(w.k, overlay)
	for i := range overlay.Canonical {
		overlay.Canonical[i] = 'x'
	}
	clear(overlay.Lines)
	if err := w.k.Swap(context.Background(), compile(t, strings.Replace(policyText, "version: 1", "version: 2", 1))); err != nil {
		t.Fatal(err) // which compiles the overlay anew
	}
	w.mustDeny(task, 6, "P2:task:few")
	w.mustVerify()
}

// A PolicyHash has one entry, ever: narrowed twice, at once by many, and by the next process.
func TestNarrowWritesOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.narrow(w.k, few(t, "task", 1, 5)), w.narrow(w.k, few(t, "task", 1, 5))
	w.mustDeny(a, 6, "P2:task:few")
	w.mustDeny(b, 6, "P2:task:few")
	if a == b {
		t.Error("one kernel for two tasks: to close one would close both")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.mustBeClosed(a)
	w.mustAllow(b, 5)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			n, err := w.k.Narrow(few(t, fmt.Sprint("raced-", i%4), 1, 5))
			if err != nil {
				t.Error(err)
				return
			}
			d, r := w.of(n, i%5)
			if d.Err() != nil || len(r.Entry) == 0 {
				t.Error(d.Err())
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, time.Minute, "64 narrow", wg.Wait)
	if n := w.policies(); n != 6 {
		t.Errorf("%d policy entries, want the root's, task's and four that were raced for", n)
	}
	w.mustVerify()
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	size := w.size()
	again := w.narrow(w.k, few(t, "task", 1, 5))
	if w.size() != size {
		t.Error("the next process wrote the policy again")
	}
	w.mustDeny(again, 6, "P2:task:few")
	if _, err := w.k.Narrow(few(t, "task", 2, 5)); err != nil {
		t.Error(err)
	}
	if _, err := w.k.Narrow(few(t, "task", 1, 4)); err == nil {
		t.Error("version 1 came after version 2")
	}
	w.open() // and the process after it
	if _, err := w.k.Narrow(few(t, "task", 1, 5)); err == nil {
		t.Error("version 1 came after version 2 and a restart, though the log has had that very policy")
	}
	w.narrow(w.k, few(t, "raced-1", 1, 5)) // versions are those of the name
	w.narrow(w.k, few(t, "task", 2, 3))    // and may stay
	w.mustVerify()
}

// When the policy cannot be stored or signed nobody gets a kernel, and all are sealed.
func TestNarrowFails(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"the store": func(w *world) { w.store.in(1) },
		"the store panics": func(w *world) {
			w.store.how = func(error) error { panic("disk") }
			w.store.in(1)
		},
		"the key": func(w *world) { w.key.in(1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task := w.narrow(w.k, few(t, "task", 1, 5))
			fail(w)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if n, err := w.k.Narrow(few(t, "next", 1, 5)); n != nil || err == nil {
						t.Error("narrowed over a log that has no entry of it")
					}
				})
			}
			within(t, 10*time.Second, "narrowing", wg.Wait)
			w.mustBeSealed()
			w.mustBeClosed(task)
			w.aftermath(nil)
		})
	}
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

// counting is a store that counts how often it was given each blob.
type counting struct {
	proofgraph.Store
	mu    sync.Mutex
	times map[contracts.Digest]int
}

func (c *counting) Append(ctx context.Context, b proofgraph.Batch) error {
	c.mu.Lock()
	for _, blob := range b.Blobs {
		c.times[crypto.Sum(blob)]++
	}
	c.mu.Unlock()
	return c.Store.Append(ctx, b)
}

// A bundle of which each task's stack consists is stored once.
func TestNarrowStoresDocumentsOnce(t *testing.T) {
	store := &counting{times: map[contracts.Digest]int{}}
	w := newWorld(t, func(o *helm.Options) { store.Store = o.Store; o.Store = store })
	task := w.narrow(w.k, few(t, "task", 1, 5))
	w.narrow(task, few(t, "step", 1, 5))
	w.open()
	w.narrow(w.k, few(t, "other", 1, 5))
	w.swap(version(t, 2))
	documents := 0
	for _, st := range w.statements() {
		if st.Policy == nil {
			continue
		}
		for _, d := range st.Policy.Documents {
			if documents++; store.times[d.Digest] != 1 {
				t.Errorf("%s %s was stored %d times", d.Layer, d.Name, store.times[d.Digest])
			}
		}
	}
	if documents != 1+2+3+2+2+1 {
		t.Errorf("%d documents in policy entries", documents)
	}
	w.mustVerify()
}
