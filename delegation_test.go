package helm_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/trust/registry"
)

// keyOf is the key of a name.
func keyOf(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// delegators is a trust state in which ann and bob may do what a clerk may, carl what a guest may, and dora holds a key that approves.
func delegators(t testing.TB) *registry.Registry {
	t.Helper()
	public := func(name string) crypto.PublicKey { return keyOf(t, name).Public().(crypto.PublicKey) }
	r, err := registry.New(1, registry.Key{Name: "root", Public: public("root"), Role: registry.Root},
		registry.Key{Name: "ann", Public: public("ann"), Role: registry.Delegator, Roles: []string{"clerk"}},
		registry.Key{Name: "bob", Public: public("bob"), Role: registry.Delegator, Roles: []string{"clerk"}},
		registry.Key{Name: "carl", Public: public("carl"), Role: registry.Delegator, Roles: []string{"guest"}},
		registry.Key{Name: "dora", Public: public("dora"), Role: registry.Approver, Roles: []string{"clerk"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// chainOf signs grants, the root's first, each by its delegator and made from the one before it, and gives them as they are presented. What
// they leave out holds for long, for the tool echo, and as deep as may be.
func chainOf(t testing.TB, grants ...contracts.Delegation) []contracts.Envelope {
	t.Helper()
	var chain []contracts.Envelope
	for i, g := range grants {
		if g.Expires == 0 {
			g.Expires = 4e12
		}
		if g.Only == nil {
			g.Only = []string{"echo"}
		}
		if i > 0 && g.Parent == nil {
			parent := chain[0].Digest()
			g.Parent = &parent
		}
		g.Nonce = "n"
		e, err := g.Sign(keyOf(t, g.Delegator))
		if err != nil {
			t.Fatal(err)
		}
		chain = append([]contracts.Envelope{e}, chain...)
	}
	return chain
}

// shop is the policy of the tests with grants: clerks may echo, and ann what is dear; echo may be called 30 times by each caller.
const shop = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, required: [text, sum], properties: {text: {type: string}, sum: {type: number}, note: {type: string}}}
  outer:
    effect: write
    input: {type: object}
rules:
  - {id: dear, deny: echo, when: {arg: /sum, gt: 1000}, unless: {caller: id, eq: ann, absent: false}}
  - {id: clerks, allow: [echo, outer], when: {caller: roles, has: clerk}}
budgets:
  - {id: each, tools: [echo], limit: 30, per: caller, window: total, cost: 1}
`

// atNoon is a clock that stands.
var atNoon = time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)

// shopping is a world with delegators, whose agent has no rights.
func shopping(t *testing.T, layers ...string) *world { return newWorld(t, selling(t, layers...)) }

func selling(t *testing.T, layers ...string) func(*helm.Options) {
	return func(o *helm.Options) {
		o.Trust, o.Policy = delegators(t), compileAll(t, append([]string{shop}, layers...)...)
		o.Now = func() time.Time { return atNoon }
		o.Drivers = map[string]executor.Driver{"echo": o.Drivers["echo"], "outer": o.Drivers["echo"]}
	}
}

func (w *world) under(chain []contracts.Envelope, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	w.t.Helper()
	agent := func(in *helm.Intent) {
		in.Caller, in.Delegation = helm.Caller{ID: "agent", Tenant: "acme", Roles: []string{"bot"}}, chain
	}
	return w.call("echo", `{"sum":5,"text":"x"}`, append([]func(*helm.Intent){agent}, change...)...)
}

// Whatever is wrong with the grants that a call is made under denies it, with a receipt that names the leaf, and nothing runs. The pack
// replays, for both implementations.
func TestDelegationGuarded(t *testing.T) {
	noon := contracts.TimeOf(atNoon)
	passed := []contracts.Delegation{{Delegator: "ann", Delegate: "bob", Depth: 1}, {Delegator: "bob", Delegate: "agent"}}
	with := func(change func(g []contracts.Delegation)) []contracts.Envelope {
		g := slices.Clone(passed)
		change(g)
		return chainOf(t, g...)
	}
	asks := func(link int, text string) []contracts.Envelope {
		return with(func(g []contracts.Delegation) { g[link].When = valueOf(t, text) })
	}
	by := func(signer string, g contracts.Delegation) []contracts.Envelope {
		g.Nonce, g.Expires, g.Only = "n", 4e12, []string{"echo"}
		e, err := g.Sign(keyOf(t, signer))
		if err != nil {
			t.Fatal(err)
		}
		return []contracts.Envelope{e}
	}
	good := chainOf(t, passed...)
	other := chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 2})
	called := func(id string) func(*helm.Intent) { return func(in *helm.Intent) { in.Caller.ID = id } }
	const invalid, outside, errs = contracts.ReasonDelegationInvalid, contracts.ReasonDelegationScopeViolation, contracts.ReasonFailClosedError
	w := shopping(t)
	allowed := uint64(0)
	for _, c := range []struct {
		name   string
		chain  []contracts.Envelope
		change func(*helm.Intent)
		reason contracts.ReasonCode
		at     int
		says   string
	}{
		{"no grant", nil, nil, contracts.ReasonNoPolicyDefined, 5, "no rule"},
		{"a grant", chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"}), nil, contracts.ReasonAllow, 8, ""},
		{"passed on", good, nil, contracts.ReasonAllow, 8, ""},
		{"dear, for ann", good, args(`{"sum":1001,"text":"x"}`), contracts.ReasonAllow, 8, ""},
		{"with a when", asks(0, `{"all":[{"arg":"/sum","le":5},{"caller":"id","eq":"agent","absent":false},{"time":"utc","in":["Wed 12:00-13:00"]}]}`), nil, contracts.ReasonAllow, 8, ""},

		{"for another caller", good, called("agent 2"), invalid, 6, "the leaf grant is not for the caller"},
		{"for the delegator", good, called("ann"), invalid, 6, "the leaf grant is not for the caller"},
		{"anonymous", good, func(in *helm.Intent) { in.Caller, in.Tool, in.Args = helm.Caller{}, "outer", []byte(`{}`) }, invalid, 6, "the leaf grant is not for the caller"},
		{"the parent alone", good[1:], nil, invalid, 6, "the leaf grant is not for the caller"},
		{"expired", with(func(g []contracts.Delegation) { g[1].Expires = noon }), nil, invalid, 6, "grant 0 has expired"},
		{"the parent expired", with(func(g []contracts.Delegation) { g[0].Expires = noon }), nil, invalid, 6, "grant 1 has expired"},
		{"not yet", with(func(g []contracts.Delegation) { g[1].NotBefore = noon + 1 }), nil, invalid, 6, "grant 0 does not hold yet"},
		{"the parent not yet", with(func(g []contracts.Delegation) { g[0].NotBefore = noon + 1 }), nil, invalid, 6, "grant 1 does not hold yet"},
		{"not to be passed on", with(func(g []contracts.Delegation) { g[0].Depth = 0 }), nil, invalid, 6, "grant 1 may not be passed on"},
		{"too deep at an inner link", chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 9}, contracts.Delegation{Delegator: "bob", Delegate: "carl"},
			contracts.Delegation{Delegator: "carl", Delegate: "agent"}), nil, invalid, 6, "grant 1 may not be passed on"},
		{"no parent", good[:1], nil, invalid, 6, "has a parent"},
		{"another parent", []contracts.Envelope{good[0], other[0]}, nil, invalid, 6, "grant 1: not the parent"},
		{"swapped", []contracts.Envelope{good[1], good[0]}, nil, invalid, 6, "grant 1"},
		{"of two chains", append(slices.Clone(good), other...), nil, invalid, 6, "grant 2"},
		{"signed by the delegate", by("agent", passed[1]), nil, invalid, 6, "KEY"},
		{"signed by another delegator", by("carl", passed[1]), nil, invalid, 6, "not the delegator who signed"},
		{"passed on by somebody else", with(func(g []contracts.Delegation) { g[1].Delegator = "carl" }), nil, invalid, 6, "not for the delegator"},
		{"by an approver", chainOf(t, contracts.Delegation{Delegator: "dora", Delegate: "agent"}), nil, invalid, 6, "KEY"},
		{"by the kernel's key", func() []contracts.Envelope {
			g := contracts.Delegation{Delegator: "kernel", Delegate: "agent", Nonce: "n", Expires: 4e12, Only: []string{"echo"}}
			e, err := g.Sign(w.key)
			if err != nil {
				t.Fatal(err)
			}
			return []contracts.Envelope{e}
		}(), nil, invalid, 6, "KEY"},
		{"a pointer that the tool lacks", asks(1, `{"arg":"/amount","le":5}`), nil, invalid, 6, `no "/amount" in the input of echo`},
		{"what no grant may ask", asks(0, `{"session":"calls","lt":5}`), nil, invalid, 6, "session in a grant"},
		{"a when that is none", asks(0, `{}`), nil, invalid, 6, "grant 1: /when"},

		{"another tool", with(func(g []contracts.Delegation) { g[1].Only = []string{"outer"} }), nil, outside, 6, "grant 0 does not cover the tool"},
		{"another tool at an inner link", with(func(g []contracts.Delegation) { g[0].Only = []string{"outer"} }), nil, outside, 6, "grant 1 does not cover the tool"},
		{"no tool", with(func(g []contracts.Delegation) { g[0].Only = []string{} }), nil, outside, 6, "grant 1 does not cover the tool"},
		{"when false", asks(1, `{"arg":"/sum","lt":5}`), nil, outside, 6, "grant 0 does not cover the call"},
		{"when false at an inner link", asks(0, `{"arg":"/text","in":["y"]}`), nil, outside, 6, "grant 1 does not cover the call"},
		{"when of the delegator", asks(0, `{"caller":"id","eq":"ann","absent":false}`), nil, outside, 6, "grant 1 does not cover the call"},
		{"when that errs", asks(0, `{"arg":"/text","host":"a.b"}`), args(`{"sum":5,"text":"no host"}`), errs, 6, "/text: grant 1"},
		{"when that errs under not", asks(1, `{"not":{"arg":"/text","host":"a.b"}}`), args(`{"sum":5,"text":"no host"}`), errs, 6, "/text: grant 0"},

		{"what the delegator may not", chainOf(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"}), nil, contracts.ReasonNoPolicyDefined, 5, "no rule"},
		{"what the caller alone may", chainOf(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"}), func(in *helm.Intent) { in.Caller.Roles = []string{"clerk"} }, contracts.ReasonNoPolicyDefined, 5, "no rule"},
		{"dear, for bob", chainOf(t, contracts.Delegation{Delegator: "bob", Delegate: "agent"}), args(`{"sum":1001,"text":"x"}`), contracts.ReasonPolicyViolation, 5, "P1:shop:dear"},
		{"dear, for bob through ann", chainOf(t, contracts.Delegation{Delegator: "bob", Delegate: "ann", Depth: 1}, contracts.Delegation{Delegator: "ann", Delegate: "agent"}),
			args(`{"sum":1001,"text":"x"}`), contracts.ReasonPolicyViolation, 5, "P1:shop:dear"},

		{"no envelope", []contracts.Envelope{contracts.Envelope(`{}`)}, nil, contracts.ReasonIntentMalformed, 0, "delegation"},
		{"an empty one behind it", append(slices.Clone(good), nil), nil, contracts.ReasonIntentMalformed, 0, "delegation"},
		{"a byte more", []contracts.Envelope{append(bytes.Clone(good[0]), ' '), good[1]}, nil, contracts.ReasonIntentMalformed, 0, "delegation"},
		{"seventeen", slices.Repeat(good[:1], 17), nil, contracts.ReasonIntentMalformed, 0, "delegation: more than 16"},
	} {
		d, r := w.under(c.chain, func(in *helm.Intent) {
			if c.change != nil {
				c.change(in)
			}
		})
		x := want{reason: c.reason, outcome: contracts.Denied, err: helm.ErrDenied}
		if c.reason == contracts.ReasonAllow {
			x, allowed = want{contracts.Allow, c.reason, contracts.Executed, nil, string(r.Output), 1}, allowed+1
		}
		w.mustBe(d, r, x)
		if d.Record.Condition != c.at || !strings.Contains(d.Why, c.says) {
			t.Errorf("%s: at %d, %q", c.name, d.Record.Condition, d.Why)
		}
		if leaf := d.Record.Delegation; c.reason != contracts.ReasonIntentMalformed && ((leaf == nil) != (c.chain == nil) || leaf != nil && *leaf != c.chain[0].Digest()) {
			t.Errorf("%s: recorded as made under %v", c.name, leaf)
		}
		if c.reason == contracts.ReasonAllow && (d.Record.Caller.ID != "agent" || len(d.Record.Charges) != 1 || d.Record.Charges[0].Of != "agent") {
			t.Errorf("%s: charged to %+v", c.name, d.Record.Charges)
		}
	}
	report := w.mustVerify()
	if report.Replay.NotReplayable != 0 || report.Allows != allowed || allowed < 4 {
		t.Errorf("%+v", report)
	}
	w.mustAgree(report)
}

// A tool that calls others calls them under the grants that it was called under, and never as itself.
func TestDelegationOfNestedCalls(t *testing.T) {
	both := []string{"echo", "outer"}
	for _, c := range []struct {
		name   string
		only   []string // of the parent
		inner  func(*helm.Intent)
		reason contracts.ReasonCode
	}{
		{"both tools", both, nil, contracts.ReasonAllow},
		{"the outer one alone", []string{"outer"}, nil, contracts.ReasonDelegationScopeViolation},
		{"as somebody else", both, func(in *helm.Intent) { in.Caller.ID = "carl" }, contracts.ReasonDelegationInvalid},
		{"as the delegator", both, func(in *helm.Intent) { in.Caller.ID = "ann" }, contracts.ReasonDelegationInvalid},
		{"under another grant", both, func(in *helm.Intent) {
			in.Delegation = chainOf(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"})
		}, contracts.ReasonNoPolicyDefined},
	} {
		w := shopping(t)
		chain := chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 1, Only: c.only}, contracts.Delegation{Delegator: "bob", Delegate: "agent", Only: both})
		var inner helm.Decision
		w.tool = func(ctx context.Context, call contracts.Call) (executor.Result, error) {
			if call.Tool == "outer" {
				in := helm.Intent{Tool: "echo", Args: []byte(`{"sum":5,"text":"x"}`)}
				if c.inner != nil {
					c.inner(&in)
				}
				inner, _ = w.k.Guard(ctx, in)
			}
			return executor.Result{}, nil
		}
		ctx := helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "agent"}, Session: "s", Delegation: chain})
		d, _ := w.k.Guard(ctx, helm.Intent{Tool: "outer", Args: []byte(`{}`)})
		leaf := inner.Record.Delegation
		if !d.Allowed() || inner.Reason != c.reason || leaf == nil || (*leaf == chain[0].Digest()) != (c.name != "under another grant") {
			t.Errorf("%s: %s, then %s (%s)", c.name, d.Reason, inner.Reason, inner.Why)
		}
		ran := int64(1)
		if c.reason == contracts.ReasonAllow {
			ran = 2
		}
		if n := w.runs.Load(); n != ran {
			t.Errorf("%s: ran %d times", c.name, n)
		}
		w.mustVerify()
	}
}

// What a budget, a floor or an overlay says of the caller, and what an overlay is for, holds under every grant.
func TestDelegationLeavesNothing(t *testing.T) {
	chain := chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})
	layer := func(layer, more string) string {
		return "helm: policy/v1\nlayer: " + layer + "\nname: x\nversion: 1\n" + more
	}
	const no, is = "rules:\n  - {id: 'no', deny: echo}\n", "rules:\n  - {id: 'no', deny: echo, %s: {caller: id, eq: %s, absent: false}}\n"
	for _, c := range []struct {
		layer, more string
		reason      contracts.ReasonCode
		rule        string
	}{
		{"P2", "for: {caller: agent}\n" + no, contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", "for: {caller: ann}\n" + no, contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", "for: {caller: carl}\n" + no, contracts.ReasonAllow, "P1:shop:clerks"},
		{"P2", "for: {caller: agent}\nonly: outer\n", contracts.ReasonPolicyViolation, "P2:x:only"},
		{"P2", fmt.Sprintf(is, "when", "ann"), contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", fmt.Sprintf(is, "unless", "ann"), contracts.ReasonAllow, "P1:shop:clerks"},
		{"P0", fmt.Sprintf(is, "when", "agent"), contracts.ReasonCeilingViolation, "P0:x:no"},
		{"P0", fmt.Sprintf(is, "unless", "ann"), contracts.ReasonCeilingViolation, "P0:x:no"},
		{"P0", fmt.Sprintf(is, "unless", "agent"), contracts.ReasonAllow, "P1:shop:clerks"},
	} {
		w := shopping(t, layer(c.layer, c.more))
		if d, _ := w.under(chain); d.Reason != c.reason || d.Record.Rule != c.rule || d.Allowed() != (w.runs.Load() == 1) {
			t.Errorf("%s %q: %s %s (%s)", c.layer, c.more, d.Reason, d.Record.Rule, d.Why)
		}
		w.mustVerify()
	}
	w := shopping(t)
	for range 30 {
		if d, _ := w.under(chain); !d.Allowed() {
			t.Fatal(d.Err())
		}
	}
	w.runs.Store(0)
	again := chainOf(t, contracts.Delegation{Delegator: "bob", Delegate: "agent"}) // another delegator, the same caller
	for _, chain := range [][]contracts.Envelope{chain, again} {
		d, r := w.under(chain)
		w.mustBe(d, r, want{reason: contracts.ReasonBudgetExceeded, outcome: contracts.Denied, err: helm.ErrDenied})
	}
	w.mustVerify()
}

func valueOf(t testing.TB, text string) crypto.Value {
	t.Helper()
	tree := new(crypto.Tree)
	if err := tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}); err != nil {
		t.Fatal(err)
	}
	return tree.Root()
}

// end enters a trust event that ends something, signed by the key of that name.
func (w *world) end(e contracts.TrustEvent, by string) {
	w.t.Helper()
	event, err := contracts.TrustRecord{Event: w.event(e)}.Sign(keyOf(w.t, by))
	if err == nil {
		err = w.k.Govern(context.Background(), event)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A grant, or the key of a link, that is revoked while the kernel runs counts for nothing more: in the next call, in one that was judged
// before and stands behind, and after a restart. What stands before stays as it was judged.
func TestDelegationRevoked(t *testing.T) {
	chain := chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 1}, contracts.Delegation{Delegator: "bob", Delegate: "agent"})
	undelegate := func(e contracts.Envelope, delegator string) contracts.TrustEvent {
		digest := e.Digest()
		return contracts.TrustEvent{Type: "undelegate", Delegation: &digest, Delegator: delegator}
	}
	revoke := func(name string) contracts.TrustEvent {
		id := crypto.KeyID(keyOf(t, name).Public().(crypto.PublicKey))
		return contracts.TrustEvent{Type: "revoke", ID: &id}
	}
	const invalid = contracts.ReasonDelegationInvalid
	for _, c := range []struct {
		name, by string
		event    contracts.TrustEvent
		reason   contracts.ReasonCode
		says     string
	}{
		{"the leaf", "root", undelegate(chain[0], "bob"), invalid, "grant 0: it was revoked"},
		{"the leaf, by its delegator", "bob", undelegate(chain[0], "bob"), invalid, "grant 0: it was revoked"},
		{"the parent", "ann", undelegate(chain[1], "ann"), invalid, "grant 1: it was revoked"},
		{"the leaf's key", "root", revoke("bob"), invalid, "grant 0: KEY"},
		{"the root delegator's key", "root", revoke("ann"), invalid, "grant 1: KEY"},
		{"somebody else's key", "root", revoke("carl"), contracts.ReasonAllow, ""},
		{"another grant", "ann", undelegate(chainOf(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})[0], "ann"), contracts.ReasonAllow, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var during func() // the next look at the clock, which is under the session's lock and before the judgement
			w := newWorld(t, selling(t), func(o *helm.Options) {
				o.Now = func() time.Time {
					if f := during; f != nil {
						during = nil
						f()
					}
					return atNoon
				}
			})
			w.governed = true
			calls := func(when string, want contracts.ReasonCode) {
				t.Helper()
				d, r := w.under(chain)
				ran := w.runs.Swap(0) == 1
				if d.Reason != want || d.Allowed() != (want == contracts.ReasonAllow) || ran != d.Allowed() || r.Entry == nil || !d.Allowed() && !strings.Contains(d.Why, c.says) {
					t.Errorf("%s: %s (%s), ran: %v", when, d.Reason, d.Why, ran)
				}
			}
			calls("before", contracts.ReasonAllow)
			during = func() { w.end(c.event, c.by) }
			calls("between judgement and place", c.reason)
			if during != nil {
				t.Error("nothing was revoked")
			}
			calls("behind it", c.reason)
			if err := w.k.Close(); err != nil {
				t.Fatal(err)
			}
			w.open()
			calls("after a restart", c.reason)
			report := w.mustVerify()
			if report.Allows+report.Denials != 4 || report.Replay.Replayed != 4 {
				t.Errorf("%+v", report)
			}
			if c.name == "the parent" { // to build the other implementation takes long
				w.mustAgree(report)
			}
		})
	}
}
