package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Gate 2: every call is judged, and nothing runs that was not allowed. A fault is a reason to deny
// a call that is admissible otherwise. Each is tried alone, and together with each that comes after
// it: the first in the published order must be the reason.

const boundaryFloor = `{
	"helm": "policy/v1", "layer": "P0", "name": "acme", "version": 1,
	"profile": {"effects": ["read", "write"], "connectors": ["test"]},
	"ceilings": {"risk": "medium"}
}`

// boundaryTool declares a tool with some faults of the surface.
const boundaryTool = `"NAME": {
	"effect": "EFFECT", "connector": "CONNECTOR", "risk": "RISK", SANDBOX
	"input": {"type": "object", "required": ["path", "text"], "properties": {
		"path": {"type": "string"}, "text": {"type": "string"}, "note": {"type": "string"},
		"kind": {"type": "string", "default": "a"}, "amount": {"type": "integer", "default": 0},
		"ask": {"type": "boolean", "default": false}, "unseen": {"type": "boolean", "default": false}}},
	"scope": [{"arg": "/path", "within": ["/srv"]}],
	"threat": {"deny": "medium"}
}`

const boundaryBundle = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "test", "version": 1},
	"tools": {"look": {"effect": "read", "input": {"type": "object"}}, TOOLS},
	"rules": [
		{"id": "barred", "deny": "move*", "when": {"arg": "/text", "eq": "barred"}},
		{"id": "look", "allow": "look"},
		{"id": "all", "allow": [NAMES], "unless": {"arg": "/text", "eq": "nobody"}}
	],
	"requires": [
		{"id": "looked", "tools": "move*", "when": {"arg": "/unseen", "eq": true}, "all": [{"receipt": "look"}]},
		{"id": "asked", "tools": "move*", "when": {"arg": "/ask", "eq": true},
			"all": [{"approval": {"roles": ["owner"]}}]}
	],
	"budgets": [
		{"id": "tenants", "tools": "move*", "limit": 9000, "per": "tenant", "window": "total", "cost": 1},
		{"id": "money", "tools": "move*", "limit": 9000, "per": "all", "window": "total", "cost": {"arg": "/amount"}}
	]
}`

// A surface is a set of faults of the surface that a tool can have.
type surface struct{ effect, connector, sandbox, risk bool }

func (s surface) name() string {
	return "move" + either(s.effect, ".e", "") + either(s.connector, ".c", "") + either(s.sandbox, ".s", "") +
		either(s.risk, ".r", "")
}

func (s surface) declaration() string {
	return strings.NewReplacer("NAME", s.name(), "EFFECT", either(s.effect, "destructive", "write"),
		"CONNECTOR", either(s.connector, "other", "test"), "RISK", either(s.risk, "high", "low"),
		"SANDBOX", either(s.sandbox, `"sandbox": "pure",`, "")).Replace(boundaryTool)
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// boundaryDocuments are the floor, and a bundle with a tool of each surface.
func boundaryDocuments() []string {
	var tools, names []string
	for _, s := range surfaces() {
		tools, names = append(tools, s.declaration()), append(names, `"`+s.name()+`"`)
	}
	bundle := strings.NewReplacer("TOOLS", strings.Join(tools, ","), "NAMES", strings.Join(names, ",")).
		Replace(boundaryBundle)
	return []string{boundaryFloor, bundle}
}

func surfaces() (all []surface) {
	for i := range 16 {
		all = append(all, surface{i&1 > 0, i&2 > 0, i&4 > 0, i&8 > 0})
	}
	return all
}

// A draft is a call that gets faults.
type draft struct {
	in               helm.Intent
	path, text, more string
	surface          surface
	frozen, ended    bool
}

// intent is the call with its faults.
func (d *draft) intent() helm.Intent {
	in := d.in
	if in.Tool == "move" {
		in.Tool = d.surface.name()
	}
	in.Args = raw(`{"path":"` + d.path + `","text":"` + d.text + `"` + d.more + `}`)
	return in
}

// A fault is a reason to deny a draft.
type fault struct {
	reason contracts.ReasonCode
	make   func(d *draft)
}

// faults are faults of every condition, in the published order. Each can be had with any other.
func faults() []fault {
	return []fault{
		{contracts.ReasonIntentMalformed, func(d *draft) { d.in.Caller.Roles = []string{""} }},
		{contracts.ReasonArgsCanonicalization, func(d *draft) { d.more += `,"kind":"b","kind":"c"` }},
		{contracts.ReasonSessionClosed, func(d *draft) { d.in.Session = "closed" }},
		{contracts.ReasonSystemFrozen, func(d *draft) { d.frozen = true }},
		{contracts.ReasonIdempotencyConflict, func(d *draft) { d.in.Idempotency = "bound" }},
		{contracts.ReasonFailClosedError, func(d *draft) { d.ended = true }},
		{contracts.ReasonToolNotFound, func(d *draft) { d.in.Tool = "nobody" }},
		{contracts.ReasonSideEffectNotPermitted, func(d *draft) { d.surface.effect = true }},
		{contracts.ReasonConnectorNotAllowed, func(d *draft) { d.surface.connector = true }},
		{contracts.ReasonSandboxViolation, func(d *draft) { d.surface.sandbox = true }},
		{contracts.ReasonDriverNotBound, func(d *draft) { d.in.Driver = nil }},
		{contracts.ReasonSchemaViolation, func(d *draft) { d.more += `,"sudo":true` }},
		{contracts.ReasonDestinationNotAllowed, func(d *draft) { d.path = "/etc" }},
		{contracts.ReasonBudgetError, func(d *draft) { d.in.Caller.Tenant = "" }},
		{contracts.ReasonBudgetExceeded, func(d *draft) { d.more += `,"amount":9001` }},
		{contracts.ReasonMissingRequirement, func(d *draft) { d.more += `,"unseen":true` }},
		{contracts.ReasonPolicyViolation, func(d *draft) { d.text = "barred" }},
		{contracts.ReasonNoPolicyDefined, func(d *draft) {
			if d.text == "plain" {
				d.text = "nobody"
			}
		}},
		{contracts.ReasonDelegationInvalid, func(d *draft) {
			d.in.Delegation = delegated(contracts.Delegation{Expires: 1})
		}},
		{contracts.ReasonDelegationScopeViolation, func(d *draft) {
			if d.in.Delegation == nil {
				d.in.Delegation = delegated(contracts.Delegation{Expires: 4e12, Only: []string{"look"}})
			}
		}},
		{contracts.ReasonThreatSignalDetected, func(d *draft) { d.more += `,"note":"a\udb40\udc41"` }},
		{contracts.ReasonCeilingViolation, func(d *draft) { d.surface.risk = true }},
		{contracts.ReasonApprovalRequired, func(d *draft) { d.more += `,"ask":true` }},
	}
}

// delegated is a grant of ann to the agent.
func delegated(g contracts.Delegation) []contracts.Envelope {
	g.Delegator, g.Delegate, g.Nonce = "ann", "agent", "n"
	if g.Only == nil {
		for _, s := range surfaces() {
			g.Only = append(g.Only, s.name())
		}
		slices.Sort(g.Only)
	}
	e, err := g.Sign(keyOf("ann"))
	if err != nil {
		panic(err) // the grants of this gate are well-formed
	}
	return []contracts.Envelope{e}
}

// moving is the call that is admissible.
func moving(w *world) draft {
	return draft{path: "/srv", text: "plain", in: helm.Intent{Tool: "move", Session: "open", Driver: w,
		Caller: helm.Caller{ID: "agent", Tenant: "acme"}}}
}

// boundary makes a world in which a session is closed, and a key is bound in each.
func boundary(t *trial, change ...func(w *world)) *world {
	trust := registered(t, 1, keyNamed("root", registry.Root), keyNamed("ann", registry.Delegator),
		keyNamed("olga", registry.Approver, "owner"), keyNamed("on call", registry.Freezer))
	w := t.newWorld(boundaryDocuments(), append([]func(w *world){trust, unbound}, change...)...)
	for _, session := range []string{"open", "closed"} {
		d := moving(w)
		in := d.intent()
		in.Session, in.Idempotency, in.Caller.ID = session, "bound", "somebody else"
		w.wantRun(in)
	}
	t.must(w.kernel.CloseSession(t.ctx, "closed"), "closing a session")
	return w
}

// frozen freezes the system.
func frozen(w *world) *world {
	govern(w, freezing(w), "on call")
	return w
}

func boundaryCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	all := faults()
	for i, f := range all {
		add(fmt.Sprintf("condition %s: %s", condition(f.reason), f.reason), func(t *trial) {
			live, frozen := boundary(t), frozen(boundary(t))
			try := func(faults ...fault) { denies(live, frozen, f.reason, faults) }
			try(f)
			for j := range all[i+1:] {
				try(f, all[i+1+j])
				try(all[i : i+2+j]...)
			}
			d := moving(live)
			live.wantRun(d.intent())
			live.verified()
			frozen.verified()
		})
	}
	add("the driver gets the judged bytes", judgedBytes)
	add("two drivers", func(t *trial) {
		w := boundary(t)
		w.options.Drivers = map[string]helm.Driver{"move": w}
		w.reopen()
		d := moving(w)
		w.wantDenied(contracts.ReasonDriverNotBound, d.intent())
	})
	add("no kernel, and the zero kernel", func(t *trial) {
		w := boundary(t)
		none := t.closed()
		t.check(len(none) == 2, "%d kernels that were never opened, want 2", len(none))
		for _, k := range none {
			d := moving(w)
			a := w.guardBy(t.ctx, k, d.intent())
			w.notRun(contracts.ReasonKernelSealed, a)
			w.unrecorded(a)
		}
	})
	add("a closed kernel", func(t *trial) {
		w := boundary(t)
		t.must(w.kernel.Close(), "closing")
		sealed(w)
		w.open()
		w.verified()
	})
	return append(list, failingCases()...)
}

func condition(reason contracts.ReasonCode) string {
	if at := reason.Condition(); at != contracts.AnyCondition {
		return fmt.Sprint(at)
	}
	return "of any"
}

// denies makes a call with faults, in w or in a world that is frozen, which must be denied.
func denies(w *world, frozen *world, reason contracts.ReasonCode, faults []fault) {
	w, a := withFaults(w, frozen, faults)
	w.isDenied(reason, a)
	asks := reason == contracts.ReasonApprovalRequired
	w.check((a.Pending != nil) == asks && errors.Is(a.Err(), helm.ErrApprovalRequired) == asks, "%s: pending", reason)
}

// withFaults makes a call with faults, in w or in a world that is frozen. It returns the world of
// the call.
func withFaults(w *world, frozen *world, faults []fault) (*world, answer) {
	d := moving(w)
	for _, f := range faults {
		f.make(&d)
	}
	if d.frozen {
		w = frozen
		if d.in.Driver != nil {
			d.in.Driver = frozen
		}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	if d.ended {
		cancel()
	}
	return w, w.guardBy(ctx, w.kernel, d.intent())
}

// judgedBytes has a caller change the arguments while the call is judged.
func judgedBytes(t *trial) {
	w := boundary(t)
	d := moving(w)
	in := d.intent()
	in.Args = raw(` {"text": "pl\u0061in",  "path":"/srv" , "amount":1.0} `)
	scribble := func() time.Time {
		copy(in.Args, strings.Repeat(" ", len(in.Args)))
		return noon
	}
	w.clock.does.Store(&scribble)
	a := w.guard(in)
	t.must(a.Err(), "the call")
	calls := w.ran()
	t.check(len(calls) == 1, "%d runs", len(calls))
	const want = `{"amount":1,"ask":false,"kind":"a","path":"/srv","text":"plain","unseen":false}`
	t.check(string(calls[0].Args) == want, "the driver got other bytes than the canonical ones with defaults")
	t.check(crypto.Sum(calls[0].Args) == a.Record.ArgsHash, "the driver got other bytes than were judged")
	t.check(calls[0].Permit.DecisionID == a.Record.ID, "the permit is of another decision")
	w.verified()
}

// sealed holds a kernel to denying everything without a receipt.
func sealed(w *world) {
	before := len(w.entries())
	d := moving(w)
	a := w.guard(d.intent())
	w.notRun(contracts.ReasonKernelSealed, a)
	w.unrecorded(a)
	w.check(len(w.entries()) == before, "a sealed kernel wrote entries")
	w.check(w.kernel.Err() != nil, "a sealed kernel has no error")
}

// failingCases are those in which something of the host fails.
func failingCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, s := range storages {
		for _, panics := range []bool{false, true} {
			how := either(panics, "panics, ", "fails, ") + s.name
			add("a store that "+how, func(t *trial) {
				storeFails(t, s, func(w *world, n int) { w.store.failIn(n, panics) })
			})
			add("a key that "+how, func(t *trial) {
				storeFails(t, s, func(w *world, n int) { w.key.panics = panics; w.key.failIn(int64(n)) })
			})
		}
	}
	for _, x := range []struct {
		name string
		now  func() time.Time
	}{
		{"panics", func() time.Time { panic("the clock") }},
		{"runs back", func() time.Time { return noon.Add(-3 * time.Minute) }},
		{"is before 1970", func() time.Time { return time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC) }},
		{"is after 9999", func() time.Time { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"is zero", func() time.Time { return time.Time{} }},
	} {
		add("a clock that "+x.name, func(t *trial) {
			w := boundary(t)
			w.clock.does.Store(&x.now)
			d := moving(w)
			w.wantDenied(contracts.ReasonFailClosedError, d.intent())
			w.clock.does.Store(nil)
			w.wantRun(d.intent())
			w.verified()
		})
	}
	add("an observer that panics", func(t *trial) {
		seen := 0
		w := boundary(t, func(w *world) {
			w.options.Observe = func(context.Context, helm.Event) { seen++; panic("the observer") }
		})
		d := moving(w)
		w.wantRun(d.intent())
		d.text = "barred"
		w.wantDenied(contracts.ReasonPolicyViolation, d.intent())
		t.check(seen >= 4, "%d events, and there were 4 calls", seen)
		w.verified()
	})
	for _, x := range []struct {
		name   string
		tool   func(ctx context.Context, cancel func()) (json.RawMessage, error)
		reason contracts.ReasonCode
	}{
		{"panics", func(context.Context, func()) (json.RawMessage, error) {
			panic("the tool")
		}, contracts.ReasonToolPanic},
		{"ends its goroutine", func(context.Context, func()) (json.RawMessage, error) {
			runtime.Goexit()
			return nil, nil
		}, contracts.ReasonToolPanic},
		{"is left by its caller", func(ctx context.Context, cancel func()) (json.RawMessage, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}, contracts.ReasonToolCanceled},
	} {
		add("a tool that "+x.name, func(t *trial) {
			w := boundary(t)
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			w.tool = helm.Func(func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				return x.tool(ctx, cancel)
			})
			d := moving(w)
			a := w.guardBy(ctx, w.kernel, d.intent())
			w.withheld(x.reason, a)
			outcome, _ := x.reason.Ending()
			w.wantReceipt(a, outcome)
			w.tool = nil
			w.wantRun(d.intent())
			w.verified()
		})
	}
	return list
}

// storeFails has the first and the second record of a call fail. The first is the permission, so
// nothing runs; the second is the receipt, so nothing is released.
func storeFails(t *trial, s storage, fails func(w *world, n int)) {
	w := boundary(t, s.at)
	d := moving(w)
	fails(w, 1)
	a := w.guard(d.intent())
	w.notRun(contracts.ReasonFailClosedError, a)
	w.unrecorded(a)
	sealed(w)
	w.reopen()
	fails(w, 2)
	a = w.guard(d.intent())
	w.withheld(contracts.ReasonReceiptNotStored, a)
	w.unrecorded(a)
	sealed(w)
	w.reopen()
	last := w.statements()
	r := last[len(last)-1].Receipt
	w.check(r != nil && r.Reason == contracts.ReasonOutcomeUnknown, "a call without a receipt was not settled")
	barred := d
	barred.text = "barred"
	fails(w, 1)
	a = w.guard(barred.intent())
	w.notRun(contracts.ReasonPolicyViolation, a)
	w.unrecorded(a)
	sealed(w)
	w.reopen()
	w.wantRun(d.intent())
	w.verified()
}
