package guardian

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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

func publicOf(t testing.TB, name string) crypto.PublicKey {
	return keyOf(t, name).Public().(crypto.PublicKey)
}

// trusted is a state in which ann and bob delegate the rights of a clerk, ann those of an owner too, carl those of a guest, the agent, who
// holds a key himself, none; and dora answers for clerks, but delegates nothing.
func trusted(t testing.TB) *registry.State {
	t.Helper()
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: publicOf(t, name), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root), key("ann", registry.Delegator, "clerk", "owner"), key("bob", registry.Delegator, "clerk"),
		key("carl", registry.Delegator, "guest"), key("agent", registry.Delegator), key("dora", registry.Approver, "clerk"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Initial(publicOf(t, "kernel"), publicOf(t, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// after is the state after an event of the roots.
func after(t testing.TB, s *registry.State, e contracts.TrustEvent) *registry.State {
	t.Helper()
	e.Origin, e.Version = "example.test/log", s.Version()+1
	signed, err := contracts.TrustRecord{Event: e}.Sign(keyOf(t, "root"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := contracts.ParseTrust(signed)
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Apply(record, e.Origin, 7)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// by signs a grant with the key of any name. What it leaves out holds from an hour ago for another hour, for pay.
func by(t testing.TB, signer string, g contracts.Delegation) contracts.Envelope {
	t.Helper()
	if g.NotBefore == 0 {
		g.NotBefore = noon.Add(-3600e9)
	}
	if g.Expires == 0 {
		g.Expires = noon.Add(3600e9)
	}
	if g.Only == nil {
		g.Only = []string{"pay"}
	}
	g.Nonce = "n"
	e, err := g.Sign(keyOf(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// chained signs grants, the root's first, each by its delegator and made from the one before it; they come out as they are presented.
func chained(t testing.TB, grants ...contracts.Delegation) []contracts.Envelope {
	t.Helper()
	var chain []contracts.Envelope
	for i, g := range grants {
		if i > 0 {
			parent := chain[0].Digest()
			g.Parent = &parent
		}
		chain = append([]contracts.Envelope{by(t, g.Delegator, g)}, chain...)
	}
	return chain
}

// shop sells to clerks, and to ann what is dear.
const shop = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "shop", "version": 1},
	"tools": {
		"pay": {"effect": "write", "scope": [{"arg": "/path", "within": "/srv"}], "input": {"type": "object", "required": ["to", "amount", "path", "n"], "properties": {
			"to": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}, "path": {"type": "string"}, "n": {"type": "array", "items": {"type": "number"}}}}},
		"look": {"effect": "read", "input": {"type": "object", "properties": {"note": {"type": "string"}}}}
	},
	"rules": [
		{"id": "dear", "deny": "pay", "when": {"arg": "/amount", "gt": 1000}, "unless": {"caller": "id", "eq": "ann", "absent": false}},
		{"id": "agents", "deny": "look", "when": {"caller": "id", "prefix": "agent", "absent": false}},
		{"id": "clerks", "allow": ["pay", "look"], "when": {"caller": "roles", "has": "clerk"}}
	]
}`

const paid = `{"amount":5,"n":[1,2],"path":"/srv/a","to":"x"}`

// An agent without rights of his own calls under a grant of ann's, or of bob's made from it: everything that is wrong with it denies.
func TestDelegation(t *testing.T) {
	state, p := trusted(t), mustCompile(t, shop)
	type d = contracts.Delegation
	direct, passed := d{Delegator: "ann", Delegate: "agent"}, []d{{Delegator: "ann", Delegate: "bob", Depth: 1}, {Delegator: "bob", Delegate: "agent"}}
	with := func(change func(g []d)) []contracts.Envelope { // the leaf is g[1]
		g := slices.Clone(passed)
		change(g)
		return chained(t, g...)
	}
	asks := func(link int, text string) []contracts.Envelope {
		return with(func(g []d) { g[link].When = value(t, text) })
	}
	allow := want{contracts.ReasonAllow, 8, "P1:shop:clerks"}
	invalid := want{contracts.ReasonDelegationInvalid, 6, ""}
	outside := want{contracts.ReasonDelegationScopeViolation, 6, ""}
	errs := want{contracts.ReasonFailClosedError, 6, ""}
	other := chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 1, Expires: noon + 1})
	revoked := func(e contracts.Envelope, delegator string) *registry.State {
		digest := e.Digest()
		return after(t, state, contracts.TrustEvent{Type: "undelegate", Delegation: &digest, Delegator: delegator})
	}
	without := func(name string) *registry.State {
		id := crypto.KeyID(publicOf(t, name))
		return after(t, state, contracts.TrustEvent{Type: "revoke", ID: &id, Why: "a test"})
	}
	good := chained(t, passed...)
	cases := []struct {
		name  string
		chain []contracts.Envelope
		args  string
		in    func(*contracts.Inputs)
		state *registry.State
		want  want
		says  string
	}{
		{"no grant", nil, "", nil, nil, want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"a grant", chained(t, direct), "", nil, nil, allow, ""},
		{"a grant passed on", good, "", nil, nil, allow, ""},
		{"no roles of his own", good, "", func(in *contracts.Inputs) { in.Caller.Roles = nil }, nil, allow, ""},
		{"at the first instant", with(func(g []d) { g[0].NotBefore, g[1].NotBefore = noon, noon }), "", nil, nil, allow, ""},
		{"at the last", with(func(g []d) { g[0].Expires, g[1].Expires = noon+1, noon+1 }), "", nil, nil, allow, ""},

		{"for another caller", good, "", func(in *contracts.Inputs) { in.Caller.ID = "agent 2" }, nil, invalid, "not for the caller"},
		{"for the delegator", good, "", func(in *contracts.Inputs) { in.Caller.ID = "ann" }, nil, invalid, "not for the caller"},
		{"another case", good, "", func(in *contracts.Inputs) { in.Caller.ID = "Agent" }, nil, invalid, "not for the caller"},
		{"anonymous", good, "", func(in *contracts.Inputs) { in.Caller = contracts.Caller{} }, nil, invalid, "not for the caller"},
		{"the parent alone", good[1:], "", nil, nil, invalid, "not for the caller"},
		{"leaf expired", with(func(g []d) { g[1].Expires = noon }), "", nil, nil, invalid, "grant 0 has expired"},
		{"parent expired", with(func(g []d) { g[0].Expires = noon }), "", nil, nil, invalid, "grant 1 has expired"},
		{"leaf not yet", with(func(g []d) { g[1].NotBefore = noon + 1 }), "", nil, nil, invalid, "grant 0 does not hold yet"},
		{"parent not yet", with(func(g []d) { g[0].NotBefore = noon + 1 }), "", nil, nil, invalid, "grant 1 does not hold yet"},
		{"not to be passed on", with(func(g []d) { g[0].Depth = 0 }), "", nil, nil, invalid, "grant 1 may not be passed on"},
		{"passed on too far", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 1}, d{Delegator: "bob", Delegate: "carl", Depth: 9}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil, invalid, "grant 2 may not"},
		{"the inner one too far", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 9}, d{Delegator: "bob", Delegate: "carl"}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil, invalid, "grant 1 may not"},
		{"as far as may be", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 2}, d{Delegator: "bob", Delegate: "carl", Depth: 1}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil, allow, ""},
		{"no parent", good[:1], "", nil, nil, invalid, "has a parent"},
		{"another parent", []contracts.Envelope{good[0], other[0]}, "", nil, nil, invalid, "grant 1: not the parent"},
		{"swapped", []contracts.Envelope{good[1], good[0]}, "", nil, nil, invalid, "grant 1"},
		{"of another chain", append(slices.Clone(good), other...), "", nil, nil, invalid, "grant 2"},
		{"signed by the delegate", []contracts.Envelope{by(t, "agent", direct)}, "", nil, nil, invalid, "not the delegator who signed"},
		{"made by the delegate", chained(t, d{Delegator: "agent", Delegate: "agent"}), "", nil, nil, want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"passed on by somebody else", with(func(g []d) { g[1].Delegator = "carl" }), "", nil, nil, invalid, "grant 1: not for the delegator"},
		{"by an approver", chained(t, d{Delegator: "dora", Delegate: "agent"}), "", nil, nil, invalid, "KEY"},
		{"by a stranger", chained(t, d{Delegator: "a stranger", Delegate: "agent"}), "", nil, nil, invalid, "KEY"},
		{"by the kernel", chained(t, d{Delegator: "kernel", Delegate: "agent"}), "", nil, nil, invalid, "KEY"},
		{"no state", good, "", nil, new(registry.State), invalid, "KEY"},
		{"a revoked key", good, "", nil, without("bob"), invalid, "grant 0: KEY"},
		{"a revoked root", good, "", nil, without("ann"), invalid, "grant 1: KEY"},
		{"a key of no link", good, "", nil, without("carl"), allow, ""},
		{"a revoked leaf", good, "", nil, revoked(good[0], "bob"), invalid, "grant 0: it was revoked"},
		{"a revoked parent", good, "", nil, revoked(good[1], "ann"), invalid, "grant 1: it was revoked"},
		{"another revoked", good, "", nil, revoked(other[0], "ann"), allow, ""},
		{"seventeen", slices.Repeat(good[:1], 17), "", nil, nil, invalid, "17 grants"},
		{"no envelope", []contracts.Envelope{[]byte(`{}`)}, "", nil, nil, invalid, "grant 0"},
		{"nothing", []contracts.Envelope{nil}, "", nil, nil, invalid, "grant 0"},

		{"another tool", with(func(g []d) { g[1].Only = []string{"look"} }), "", nil, nil, outside, "grant 0 does not cover the tool"},
		{"another tool of the parent", with(func(g []d) { g[0].Only = []string{"look", "pay.all"} }), "", nil, nil, outside, "grant 1 does not cover the tool"},
		{"no tool", with(func(g []d) { g[1].Only = []string{} }), "", nil, nil, outside, "grant 0"},
		{"of several", with(func(g []d) { g[0].Only = []string{"look", "pay"} }), "", nil, nil, allow, ""},
		{"when", asks(1, `{"arg":"/amount","le":5}`), "", nil, nil, allow, ""},
		{"not when", asks(1, `{"arg":"/amount","lt":5}`), "", nil, nil, outside, "grant 0 does not cover the call"},
		{"not when, of the parent", asks(0, `{"arg":"/to","in":["y"]}`), "", nil, nil, outside, "grant 1 does not cover the call"},
		{"when of the present caller", asks(0, `{"all":[{"caller":"id","eq":"agent","absent":false},{"caller":"roles","has":"bot"},{"caller":"tenant","eq":"acme","absent":false}]}`), "", nil, nil, allow, ""},
		{"not of the delegator", asks(0, `{"caller":"id","eq":"ann","absent":false}`), "", nil, nil, outside, "grant 1"},
		{"nor by his roles", asks(1, `{"caller":"roles","has":"clerk"}`), "", nil, nil, outside, "grant 0"},
		{"in time", asks(0, `{"time":"utc","in":["Wed 12:00-12:01"]}`), "", nil, nil, allow, ""},
		{"out of time", asks(0, `{"time":"utc","in":["Wed 12:01-24:00"]}`), "", nil, nil, outside, "grant 1"},
		{"of elements", asks(0, `{"every":"/n","that":{"gt":0}}`), "", nil, nil, allow, ""},
		{"of other elements", asks(0, `{"some":"/n","that":{"gt":2}}`), "", nil, nil, outside, "grant 1"},
		{"the scope before an error", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 1, When: value(t, `{"arg":"/to","host":"a.b"}`)}, d{Delegator: "bob", Delegate: "agent", Only: []string{}}),
			strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil, outside, "grant 0"},
		{"when errs", asks(1, `{"arg":"/to","host":"a.b"}`), strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil, errs, "/to: grant 0: "},
		{"when errs under not", asks(0, `{"not":{"arg":"/to","host":"a.b"}}`), strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil, errs, "/to: grant 1: "},
		{"what is absent", asks(0, `{"arg":"/note","eq":"a","absent":true}`), "", nil, nil, allow, ""},
		{"what is absent and asked for", asks(0, `{"arg":"/note","eq":"a","absent":false}`), "", nil, nil, outside, "grant 1"},
		{"absent in vain", asks(0, `{"arg":"/to","eq":"x","absent":false}`), "", nil, nil, allow, ""},

		{"no such argument", asks(1, `{"arg":"/amout","le":5}`), "", nil, nil, invalid, `grant 0: /when/arg: no "/amout" in the input of pay`},
		{"of another tool", asks(0, `{"arg":"/x","le":5}`), "", nil, nil, invalid, "grant 1: /when/arg"},
		{"not said what absent is", asks(0, `{"arg":"/note","eq":"a"}`), "", nil, nil, invalid, "may be missing"},
		{"another type", asks(0, `{"arg":"/to","le":5}`), "", nil, nil, invalid, "grant 1: /when/le"},
		{"empty", asks(0, `{}`), "", nil, nil, invalid, "grant 1: /when"},
		{"two operators", asks(0, `{"arg":"/to","eq":"x","prefix":"x"}`), "", nil, nil, invalid, "two operators"},
		{"unknown operator", asks(0, `{"arg":"/to","equals":"x"}`), "", nil, nil, invalid, "unknown key"},
		{"any of nothing", asks(0, `{"any":[]}`), "", nil, nil, invalid, "a list of 0"},
		{"too deep", asks(0, strings.Repeat(`{"not":`, 9)+`{"arg":"/to","eq":"x"}`+strings.Repeat(`}`, 9)), "", nil, nil, invalid, "nested"},
		{"a list", asks(0, `{"arg":"/to","in":{"list":"payees"}}`), "", nil, nil, invalid, "no list"},
		{"finds", asks(0, `{"arg":"/to","finds":"x"}`), "", nil, nil, invalid, "finds where a true answer permits more"},
		{"prefix of a path", asks(0, `{"arg":"/path","prefix":"/srv"}`), "", nil, nil, invalid, "prefix on what scope declares"},
		{"prefix of a word", asks(0, `{"arg":"/to","prefix":"x"}`), "", nil, nil, allow, ""},
		{"a session's labels", asks(0, `{"session":"labels","has":"pii"}`), "", nil, nil, invalid, "session in a grant"},
		{"a session's taint", asks(0, `{"not":{"session":"tainted","eq":true}}`), "", nil, nil, invalid, "session in a grant"},
		{"a session's calls", asks(0, `{"any":[{"session":"calls","lt":3}]}`), "", nil, nil, invalid, "session in a grant"},
		{"a receipt", asks(0, `{"receipt":"look"}`), "", nil, nil, invalid, "receipt in a grant"},
		{"a source", asks(0, `{"arg":"/to","from":["user"]}`), "", nil, nil, invalid, "from in a grant"},
		{"a fact", asks(0, `{"fact":"payee","eq":"x"}`), "", nil, nil, invalid, "fact in a grant"},
		{"an item of an element", asks(0, `{"every":"/n","that":{"session":"tainted","eq":false}}`), "", nil, nil, invalid, "session in a grant"},
		{"invalid before scope", with(func(g []d) { g[0].Only, g[1].When = []string{}, value(t, `{}`) }), "", nil, nil, invalid, "grant 0: /when"},
		{"not asked of a tool outside", with(func(g []d) { g[0].Only, g[0].When = []string{"look"}, value(t, `{"arg":"/x","eq":1}`) }), "", nil, nil, outside, "grant 1 does not cover the tool"},

		{"what the delegator may not", chained(t, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil, want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"what the caller alone may", chained(t, d{Delegator: "carl", Delegate: "agent"}), "", func(in *contracts.Inputs) { in.Caller.Roles = []string{"clerk"} }, nil, want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"what the delegator alone may", good, strings.Replace(paid, "5", "1001", 1), nil, nil, allow, ""},
		{"what bob may not", chained(t, d{Delegator: "bob", Delegate: "agent"}), strings.Replace(paid, "5", "1001", 1), nil, nil, want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"}, "denies"},
		{"what ann may not pass through bob", chained(t, d{Delegator: "bob", Delegate: "ann", Depth: 1}, d{Delegator: "ann", Delegate: "agent"}), strings.Replace(paid, "5", "1001", 1), nil, nil, want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"}, "denies"},
		{"the rules before the leaf's caller", chained(t, d{Delegator: "bob", Delegate: "nobody"}), strings.Replace(paid, "5", "1001", 1), nil, nil, want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"}, "denies"},
	}
	if len(cases) < 80 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.args == "" {
				c.args = paid
			}
			in := inputs(t, "pay", c.args)
			in.Caller.ID, in.Caller.Roles = "agent", []string{"bot"}
			in.Envelopes.Delegation = c.chain
			if c.in != nil {
				c.in(&in)
			}
			if c.state == nil {
				c.state = state
			}
			r, why := c.want.of(t, p, in, c.state)
			contains(t, why.String(), c.says)
			if (r.Delegation == nil) != (c.chain == nil) || r.Delegation != nil && *r.Delegation != c.chain[0].Digest() {
				t.Errorf("delegation %v", r.Delegation)
			}
			if !reflect.DeepEqual(r.Caller, in.Caller) {
				t.Errorf("judged for %+v", r.Caller)
			}
			if d, _ := p.Decide(&in, c.state, onlyLedger{new(Ledger)}); !reflect.DeepEqual(d, r) {
				t.Errorf("decided: %+v", d)
			}
		})
	}
}

// of is check in a trust state.
func (w want) of(t testing.TB, p *Policy, in contracts.Inputs, s *registry.State) (contracts.DecisionRecord, Why) {
	t.Helper()
	r, why := p.Judge(in, s)
	if got := (want{r.Reason, r.Condition, r.Rule}); got != w || bool(r.Verdict) != (w.reason == contracts.ReasonAllow) {
		t.Errorf("got %v %v, want %v (%s)", r.Verdict, got, w, why)
	}
	return r, why
}

// What other documents say of the present caller or of the delegator, no grant takes back.
func TestDelegationAndLayers(t *testing.T) {
	state := trusted(t)
	chain := chained(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})
	barred := `,"rules":[{"id":"no","deny":"pay"}]`
	deny := func(of string) string { return `,"rules":[{"id":"no","deny":"pay",` + of + `}]` }
	allow := want{contracts.ReasonAllow, 8, "P1:shop:clerks"}
	overlaid, floored := want{contracts.ReasonPolicyViolation, 5, "P2:o:no"}, want{contracts.ReasonCeilingViolation, 8, "P0:f:no"}
	is := func(id string) string { return `{"caller":"id","eq":"` + id + `","absent":false}` }
	for _, c := range []struct {
		name, doc string
		want      want
	}{
		{"nothing", overlay("o", ""), allow},
		{"an overlay for the caller", overlay("o", `,"for":{"caller":"agent"}`+barred), overlaid},
		{"an overlay for the delegator", overlay("o", `,"for":{"caller":"ann"}`+barred), overlaid},
		{"an overlay for another", overlay("o", `,"for":{"caller":"bob"}`+barred), allow},
		{"an overlay for the caller elsewhere", overlay("o", `,"for":{"caller":"agent","tenant":"other"}`+barred), allow},
		{"an overlay for the caller here", overlay("o", `,"for":{"caller":"agent","tenant":"acme","session":"main"}`+barred), overlaid},
		{"an overlay for nobody", overlay("o", `,"for":{"tenant":"other"}`+barred), allow},
		{"an overlay's only, for the caller", overlay("o", `,"for":{"caller":"agent"},"only":"look"`), want{contracts.ReasonPolicyViolation, 5, "P2:o:only"}},
		{"an overlay's end, for the delegator", overlay("o", `,"for":{"caller":"ann"},"expires":"2026-07-15T12:00:00Z"`), want{contracts.ReasonPolicyViolation, 5, "P2:o:expires"}},
		{"an overlay against the delegator", overlay("o", deny(`"when":`+is("ann"))), overlaid},
		{"an overlay but for the delegator", overlay("o", deny(`"unless":`+is("ann"))), allow},
		{"an overlay by the delegator's roles", overlay("o", deny(`"when":{"caller":"roles","has":"owner"}`)), overlaid},
		{"a floor against the caller", floor("f", deny(`"when":`+is("agent"))), floored},
		{"a floor but for the delegator", floor("f", deny(`"unless":`+is("ann"))), floored},
		{"a floor against the delegator", floor("f", deny(`"when":`+is("ann"))), allow},
		{"a floor by the caller's roles", floor("f", deny(`"when":{"caller":"roles","has":"bot"}`)), floored},
		{"a floor by the delegator's roles", floor("f", deny(`"when":{"caller":"roles","has":"owner"}`)), allow},
		{"an overlay that compares", overlay("o", deny(`"when":{"arg":"/to","eq":{"caller":"id"},"absent":false}`)), allow},
	} {
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation = "agent", []string{"bot"}, chain
		t.Run(c.name, func(t *testing.T) { c.want.of(t, mustCompile(t, shop, c.doc), in, state) })
	}
	// Slots that hold the caller are read anew for each of the two: before 5 for the one, at 5 for the other, at 8 for the one again.
	p := mustCompile(t, shop, floor("f", deny(`"when":{"arg":"/to","ne":{"caller":"id"},"absent":false}`)),
		overlay("o", deny(`"when":{"arg":"/to","eq":{"caller":"id"},"absent":false}`)+`,"budgets":[{"id":"b","tools":"pay","limit":9,"per":"caller","window":"day","cost":1,"when":`+is("agent")+`}]`))
	for to, want := range map[string]want{"agent": allow, "ann": overlaid, "x": floored} {
		in := inputs(t, "pay", strings.Replace(paid, `"x"`, `"`+to+`"`, 1))
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation = "agent", []string{"bot"}, chain
		if r, _ := p.Decide(&in, state, onlyLedger{new(Ledger)}); len(in.State.Budgets) != 1 || in.State.Budgets[0].Of != "agent" || r.Verdict == contracts.Allow && r.Charges[0].Of != "agent" {
			t.Errorf("%s: charged %+v", to, in.State.Budgets)
		}
		want.of(t, p, in, state)
	}
	// A budget of an overlay that is for the delegator is charged to the caller.
	for of, n := range map[string]int{"ann": 1, "agent": 1, "bob": 0} {
		p := mustCompile(t, shop, overlay("o", `,"for":{"caller":"`+of+`"},"budgets":[{"id":"b","tools":"pay","limit":9,"per":"caller","window":"day","cost":1}]`))
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Envelopes.Delegation = "agent", chain
		if r, _ := p.Decide(&in, state, onlyLedger{new(Ledger)}); len(r.Charges) != n || n > 0 && r.Charges[0].Of != "agent" {
			t.Errorf("for %s: %+v", of, r)
		}
	}
}

// The grants of a chain share the visits of the decision, and what their patterns become is bounded.
func TestDelegationWork(t *testing.T) {
	state := trusted(t)
	long := `{"amount":5,"n":[` + strings.Repeat("1,", 3999) + `1],"path":"/srv/a","to":"x"}`
	each := func(n int) string {
		return `{"all":[` + strings.Repeat(`{"every":"/n","that":{"gt":0}},`, n-1) + `{"every":"/n","that":{"gt":0}}]}`
	}
	judge := func(p *Policy, grants ...contracts.Delegation) (contracts.DecisionRecord, Why) {
		in := inputs(t, "pay", long)
		in.Caller.ID, in.Envelopes.Delegation = "agent", chained(t, grants...)
		return p.Judge(in, state)
	}
	two := func(a, b string) []contracts.Delegation {
		return []contracts.Delegation{{Delegator: "ann", Delegate: "bob", Depth: 1, When: value(t, a)}, {Delegator: "bob", Delegate: "agent", When: value(t, b)}}
	}
	p, floored := mustCompile(t, shop), mustCompile(t, shop, floor("f", `,"rules":[{"id":"no","deny":"pay","when":{"some":"/n","that":{"lt":0}}}]`))
	for _, c := range []struct {
		p      *Policy
		a, b   string
		reason contracts.ReasonCode
		at     int
	}{
		{p, each(1), each(1), contracts.ReasonAllow, 8},
		{p, each(1), each(2), contracts.ReasonFailClosedError, 6}, // 3 times 4,001, and what the scope and the rules tested
		{p, each(2), each(1), contracts.ReasonFailClosedError, 6},
		{floored, each(1), `{"arg":"/to","eq":"x"}`, contracts.ReasonAllow, 8},
		{floored, each(1), each(1), contracts.ReasonFailClosedError, 8},
	} {
		if r, why := judge(c.p, two(c.a, c.b)...); r.Reason != c.reason || r.Condition != c.at {
			t.Errorf("%s at %d (%s), want %s at %d", r.Reason, r.Condition, why, c.reason, c.at)
		}
	}
	matches := func(pattern string) string {
		return fmt.Sprintf(`{"any":[{"arg":"/to","eq":"x"},{"arg":"/to","regex":%q}]}`, pattern)
	}
	for _, c := range []struct {
		a, b string
		ok   bool
	}{
		{matches(`[A-Z]{2}[0-9A-Z]{13,32}`), matches(`(?i)a{900}`), true},
		{matches(`a{1000}b{1000}c{1000}d{1000}`), `{"arg":"/to","eq":"x"}`, true},
		{matches(`a{1000}b{1000}c{1000}d{1000}e{1000}`), matches(`a{1000}b{1000}c{1000}d{1000}e{1000}f`), false},
		{matches(`(` + strings.Repeat("a", 1000) + `){1000}`), `{"arg":"/to","eq":"x"}`, false},
		{`{"arg":"/to","eq":"x"}`, matches(`((a{10}){10}b{100}){10}` + strings.Repeat(`\pL`, 300)), false},
		{`{"arg":"/to","eq":"x"}`, matches(`(`), false},
	} {
		r, why := judge(p, two(c.a, c.b)...)
		if ok := r.Reason == contracts.ReasonAllow; ok != c.ok || !ok && (r.Reason != contracts.ReasonDelegationInvalid || r.Condition != 6) {
			t.Errorf("%.60s, %.60s: %s (%s)", c.a, c.b, r.Reason, why)
		}
	}
	// Sixteen grants are as many as there may be.
	var grants []contracts.Delegation
	for i := range contracts.MaxListed {
		grants = append(grants, contracts.Delegation{Delegator: []string{"ann", "bob"}[i%2], Delegate: []string{"bob", "ann"}[i%2], Depth: 16})
	}
	grants[len(grants)-1].Delegate = "agent"
	if r, why := judge(p, grants...); r.Verdict != contracts.Allow {
		t.Errorf("sixteen grants: %s (%s)", r.Reason, why)
	}
}
