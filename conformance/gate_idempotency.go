package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Gate 10: a call with an idempotency key runs once, whatever happens.

const idempotencyPolicy = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "shop", "version": 1},
	"tools": {
		"pay": {"effect": "write", "input": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
		"look": {"effect": "read", "input": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}}
	},
	"rules": [
		{"id": "much", "deny": "pay", "when": {"arg": "/n", "gt": 100}},
		{"id": "clerks", "allow": ["pay", "look"], "when": {"caller": "roles", "has": "clerk"}}
	]
}`

// paying is a call with a key.
func paying() helm.Intent {
	return helm.Intent{Tool: "pay", Args: raw(`{"n":5}`), Session: "s", Idempotency: "k",
		Caller: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}}
}

// A storage is where the log of a world is.
type storage struct {
	name string
	at   func(w *world)
}

var storages = []storage{{"in memory", inMemory}, {"on files", onFiles}}

// shop makes a world that keeps outputs for those who ask again.
func shop(t *trial, change ...func(w *world)) *world {
	return t.newWorld([]string{idempotencyPolicy}, append(change, func(w *world) { w.options.Keep.Outputs = true })...)
}

func idempotencyCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	add("a repeat at once", func(t *trial) {
		w := shop(t)
		repeated(w, w.wantRun(paying()), paying())
		w.verified()
	})
	add("the same arguments in other bytes", func(t *trial) {
		w := shop(t)
		in := paying()
		in.Args = raw(`{}`)
		first := w.wantRun(in)
		in.Args = raw(` { "n" : 1.0 } `)
		repeated(w, first, in)
	})
	add("sixteen at once", idempotentAtOnce)
	for _, s := range storages {
		add("a repeat after a restart, "+s.name, func(t *trial) {
			w := shop(t, s.at)
			first := w.wantRun(paying())
			w.reopen()
			repeated(w, first, paying())
			w.verified()
		})
		add("a repeat after a restart, of an output that was not kept, "+s.name, func(t *trial) {
			w := t.newWorld([]string{idempotencyPolicy}, s.at)
			w.wantRun(paying())
			w.reopen()
			a := w.guard(paying())
			w.check(a.Reason == contracts.ReasonOutputNotKept && errors.Is(a.Err(), helm.ErrWithheld),
				"%s, want %s", a.Reason, contracts.ReasonOutputNotKept)
			w.check(len(w.ran()) == 0, "it ran again")
			w.verified()
		})
		add("a crash between permission and receipt, "+s.name, func(t *trial) { crashed(t, s, 2) })
		add("a crash before the permission, "+s.name, func(t *trial) { crashed(t, s, 1) })
	}
	for _, x := range []struct {
		name   string
		change func(in *helm.Intent)
	}{
		{"other arguments", func(in *helm.Intent) { in.Args = raw(`{"n":6}`) }},
		{"another tool", func(in *helm.Intent) { in.Tool = "look" }},
		{"another caller", func(in *helm.Intent) { in.Caller.ID = "bob" }},
		{"another tenant", func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }},
		{"other roles", func(in *helm.Intent) { in.Caller.Roles = []string{"clerk", "root"} }},
	} {
		add("a key with "+x.name, func(t *trial) {
			w := shop(t)
			first := w.wantRun(paying())
			in := paying()
			x.change(&in)
			w.wantDenied(contracts.ReasonIdempotencyConflict, in)
			w.reopen()
			w.wantDenied(contracts.ReasonIdempotencyConflict, in)
			repeated(w, first, paying())
			w.verified()
		})
	}
	add("a denial binds no key", func(t *trial) {
		w := shop(t)
		in := paying()
		in.Args = raw(`{"n":101}`)
		w.wantDenied(contracts.ReasonPolicyViolation, in)
		in = paying()
		in.Caller.Roles = nil
		w.wantDenied(contracts.ReasonNoPolicyDefined, in)
		repeated(w, w.wantRun(paying()), paying())
		w.verified()
	})
	add("the key of another session", func(t *trial) {
		w := shop(t)
		w.wantRun(paying())
		in := paying()
		in.Session = "another"
		w.wantRun(in)
		w.verified()
	})
	add("a key without a session", func(t *trial) {
		w := shop(t)
		for _, session := range []string{"", contracts.DefaultSession} {
			in := paying()
			in.Session = session
			w.wantDenied(contracts.ReasonIntentMalformed, in)
		}
		w.verified()
	})
	add("a repeat of a call that failed", func(t *trial) {
		w := shop(t)
		w.tool = helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errTool })
		for runs := 1; runs >= 0; runs-- {
			a := w.guard(paying())
			w.check(a.Reason == contracts.ReasonToolError, "%s, want %s", a.Reason, contracts.ReasonToolError)
			n := len(w.ran())
			w.check(n == runs, "%d runs, want %d", n, runs)
		}
		w.verified()
	})
	return list
}

var errTool = errors.New("the tool's own error")

// repeated makes a call again that was allowed, and must return the first answer without a run.
func repeated(w *world, first answer, in helm.Intent) {
	a := w.guard(in)
	w.check(
		a.Err() == nil && a.Verdict == contracts.Allow,
		"the repeat: %s (%s), want the first outcome",
		a.Reason,
		a.Why,
	)
	w.check(string(a.receipt.Entry) == string(first.receipt.Entry), "the repeat has another receipt")
	w.check(string(a.receipt.Output) == string(first.receipt.Output), "the repeat has another output")
	n := len(w.ran())
	w.check(n == 0, "the repeat ran %d times", n)
}

func idempotentAtOnce(t *trial) {
	w := shop(t)
	var wg sync.WaitGroup
	answers := make([]answer, 16)
	for i := range answers {
		wg.Go(func() { answers[i] = w.guard(paying()) })
	}
	wg.Wait()
	n := len(w.ran())
	w.check(n == 1, "%d runs", n)
	for _, a := range answers {
		w.check(a.Err() == nil, "one of them: %s (%s)", a.Reason, a.Why)
		w.check(string(a.receipt.Entry) == string(answers[0].receipt.Entry), "two of them have two receipts")
	}
	w.verified()
}

// crashed has the nth append of a call fail, which ends the process as far as the log can tell. The
// first is that of the permission, the second that of the receipt.
func crashed(t *trial, s storage, n int) {
	w := shop(t, s.at)
	w.store.failIn(n, false)
	a := w.guard(paying())
	w.unrecorded(a)
	if n == 1 { // nothing was permitted, so the call may be made again
		w.notRun(contracts.ReasonFailClosedError, a)
		w.reopen()
		repeated(w, w.wantRun(paying()), paying())
		w.verified()
		return
	}
	w.withheld(contracts.ReasonReceiptNotStored, a)
	w.reopen()
	a = w.guard(paying())
	w.check(a.Reason == contracts.ReasonOutcomeUnknown && errors.Is(a.Err(), helm.ErrWithheld),
		"%s, want %s", a.Reason, contracts.ReasonOutcomeUnknown)
	ran := len(w.ran())
	w.check(ran == 0, "it ran again")
	w.wantReceipt(a, contracts.Indeterminate)
	w.verified()
}
