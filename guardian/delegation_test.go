package guardian

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

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

// An agent without rights of its own calls under a grant of ann's, or of bob's made from it:
// everything that is wrong with it denies.
func TestDelegation(t *testing.T) {
	t.Parallel()
	state, p := trusted(t), mustCompile(t, shop)
	type d = contracts.Delegation
	direct, passed := d{Delegator: "ann", Delegate: "agent"},
		[]d{{Delegator: "ann", Delegate: "bob", Depth: 1}, {Delegator: "bob", Delegate: "agent"}}
	with := func(change func(g []d)) []contracts.Envelope { // the leaf is g[1]
		g := slices.Clone(passed)
		change(g)
		return chained(t, g...)
	}
	asks := func(link int, text string) []contracts.Envelope {
		return with(func(g []d) { g[link].When = valueOf(t, text) })
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
		{"at the first instant", with(func(g []d) { g[0].NotBefore, g[1].NotBefore = noon, noon }), "", nil, nil, allow,
			""},
		{"at the last", with(func(g []d) { g[0].Expires, g[1].Expires = noon+1, noon+1 }), "", nil, nil, allow, ""},

		{"for another caller", good, "", func(in *contracts.Inputs) { in.Caller.ID = "agent 2" }, nil, invalid,
			"not for the caller"},
		{"for the delegator", good, "", func(in *contracts.Inputs) { in.Caller.ID = "ann" }, nil, invalid,
			"not for the caller"},
		{"another case", good, "", func(in *contracts.Inputs) { in.Caller.ID = "Agent" }, nil, invalid,
			"not for the caller"},
		{"anonymous", good, "", func(in *contracts.Inputs) { in.Caller = contracts.Caller{} }, nil, invalid,
			"not for the caller"},
		{"the parent alone", good[1:], "", nil, nil, invalid, "not for the caller"},
		{"leaf expired", with(func(g []d) { g[1].Expires = noon }), "", nil, nil, invalid, "grant 0 has expired"},
		{"parent expired", with(func(g []d) { g[0].Expires = noon }), "", nil, nil, invalid, "grant 1 has expired"},
		{"leaf not yet", with(func(g []d) { g[1].NotBefore = noon + 1 }), "", nil, nil, invalid,
			"grant 0 does not hold yet"},
		{"parent not yet", with(func(g []d) { g[0].NotBefore = noon + 1 }), "", nil, nil, invalid,
			"grant 1 does not hold yet"},
		{"not to be passed on", with(func(g []d) { g[0].Depth = 0 }), "", nil, nil, invalid,
			"grant 1 may not be passed on"},
		{"passed on too far", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 1},
			d{Delegator: "bob", Delegate: "carl", Depth: 9}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil,
			invalid, "grant 2 may not"},
		{"the inner one too far", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 9},
			d{Delegator: "bob", Delegate: "carl"}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil, invalid,
			"grant 1 may not"},
		{"as far as may be", chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 2},
			d{Delegator: "bob", Delegate: "carl", Depth: 1}, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil,
			allow, ""},
		{"no parent", good[:1], "", nil, nil, invalid, "has a parent"},
		{"another parent", []contracts.Envelope{good[0], other[0]}, "", nil, nil, invalid, "grant 1: not the parent"},
		{"swapped", []contracts.Envelope{good[1], good[0]}, "", nil, nil, invalid, "grant 1"},
		{"of another chain", append(slices.Clone(good), other...), "", nil, nil, invalid, "grant 2"},
		{"signed by the delegate", []contracts.Envelope{by(t, "agent", direct)}, "", nil, nil, invalid,
			"not the delegator who signed"},
		{"made by the delegate", chained(t, d{Delegator: "agent", Delegate: "agent"}), "", nil, nil,
			want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"passed on by somebody else", with(func(g []d) { g[1].Delegator = "carl" }), "", nil, nil, invalid,
			"grant 1: not for the delegator"},
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

		{"another tool", with(func(g []d) { g[1].Only = []string{"look"} }), "", nil, nil, outside,
			"grant 0 does not cover the tool"},
		{"another tool of the parent", with(func(g []d) { g[0].Only = []string{"look", "pay.all"} }), "", nil, nil,
			outside, "grant 1 does not cover the tool"},
		{"no tool", with(func(g []d) { g[1].Only = []string{} }), "", nil, nil, outside, "grant 0"},
		{"of several", with(func(g []d) { g[0].Only = []string{"look", "pay"} }), "", nil, nil, allow, ""},
		{"when", asks(1, `{"arg":"/amount","le":5}`), "", nil, nil, allow, ""},
		{"not when", asks(1, `{"arg":"/amount","lt":5}`), "", nil, nil, outside, "grant 0 does not cover the call"},
		{"not when, of the parent", asks(0, `{"arg":"/to","in":["y"]}`), "", nil, nil, outside,
			"grant 1 does not cover the call"},
		{"when of the present caller",
			asks(0, `{"all":[{"caller":"id","eq":"agent","absent":false},{"caller":"roles","has":"bot"},{"caller":"tenant","eq":"acme","absent":false}]}`), "", nil, nil, allow, ""},
		{"not of the delegator", asks(0, `{"caller":"id","eq":"ann","absent":false}`), "", nil, nil, outside,
			"grant 1"},
		{"nor by his roles", asks(1, `{"caller":"roles","has":"clerk"}`), "", nil, nil, outside, "grant 0"},
		{"in time", asks(0, `{"time":"utc","in":["Wed 12:00-12:01"]}`), "", nil, nil, allow, ""},
		{"out of time", asks(0, `{"time":"utc","in":["Wed 12:01-24:00"]}`), "", nil, nil, outside, "grant 1"},
		{"of elements", asks(0, `{"every":"/n","that":{"gt":0}}`), "", nil, nil, allow, ""},
		{"of other elements", asks(0, `{"some":"/n","that":{"gt":2}}`), "", nil, nil, outside, "grant 1"},
		{"the scope before an error",
			chained(t, d{Delegator: "ann", Delegate: "bob", Depth: 1, When: valueOf(t, `{"arg":"/to","host":"a.b"}`)},
				d{Delegator: "bob", Delegate: "agent", Only: []string{}}),
			strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil, outside, "grant 0"},
		{"when errs", asks(1, `{"arg":"/to","host":"a.b"}`), strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil,
			errs, "/to: grant 0: "},
		{"when errs under not", asks(0, `{"not":{"arg":"/to","host":"a.b"}}`),
			strings.Replace(paid, `"x"`, `"no host"`, 1), nil, nil, errs, "/to: grant 1: "},
		{"what is absent", asks(0, `{"arg":"/note","eq":"a","absent":true}`), "", nil, nil, allow, ""},
		{"what is absent and asked for", asks(0, `{"arg":"/note","eq":"a","absent":false}`), "", nil, nil, outside,
			"grant 1"},
		{"absent in vain", asks(0, `{"arg":"/to","eq":"x","absent":false}`), "", nil, nil, allow, ""},

		{"no such argument", asks(1, `{"arg":"/amout","le":5}`), "", nil, nil, invalid,
			`grant 0: /when/arg: no "/amout" in the input of pay`},
		{"of another tool", asks(0, `{"arg":"/x","le":5}`), "", nil, nil, invalid, "grant 1: /when/arg"},
		{"not said what absent is", asks(0, `{"arg":"/note","eq":"a"}`), "", nil, nil, invalid, "may be missing"},
		{"another type", asks(0, `{"arg":"/to","le":5}`), "", nil, nil, invalid, "grant 1: /when/le"},
		{"empty", asks(0, `{}`), "", nil, nil, invalid, "grant 1: /when"},
		{"two operators", asks(0, `{"arg":"/to","eq":"x","prefix":"x"}`), "", nil, nil, invalid, "two operators"},
		{"unknown operator", asks(0, `{"arg":"/to","equals":"x"}`), "", nil, nil, invalid, "unknown key"},
		{"any of nothing", asks(0, `{"any":[]}`), "", nil, nil, invalid, "a list of 0"},
		{"too deep", asks(0, strings.Repeat(`{"not":`, 9)+`{"arg":"/to","eq":"x"}`+strings.Repeat(`}`, 9)), "", nil,
			nil, invalid, "nested"},
		{"a list", asks(0, `{"arg":"/to","in":{"list":"payees"}}`), "", nil, nil, invalid, "no list"},
		{"finds", asks(0, `{"arg":"/to","finds":"x"}`), "", nil, nil, invalid,
			"finds where a true answer permits more"},
		{"prefix of a path", asks(0, `{"arg":"/path","prefix":"/srv"}`), "", nil, nil, invalid,
			"prefix on what scope declares"},
		{"prefix of a word", asks(0, `{"arg":"/to","prefix":"x"}`), "", nil, nil, allow, ""},
		{"a session's labels", asks(0, `{"session":"labels","has":"pii"}`), "", nil, nil, invalid,
			"session in a grant"},
		{"a session's taint", asks(0, `{"not":{"session":"tainted","eq":true}}`), "", nil, nil, invalid,
			"session in a grant"},
		{"a session's calls", asks(0, `{"any":[{"session":"calls","lt":3}]}`), "", nil, nil, invalid,
			"session in a grant"},
		{"a receipt", asks(0, `{"receipt":"look"}`), "", nil, nil, invalid, "receipt in a grant"},
		{"a source", asks(0, `{"arg":"/to","from":["user"]}`), "", nil, nil, invalid, "from in a grant"},
		{"a fact", asks(0, `{"fact":"payee","eq":"x"}`), "", nil, nil, invalid, "fact in a grant"},
		{"an item of an element", asks(0, `{"every":"/n","that":{"session":"tainted","eq":false}}`), "", nil, nil,
			invalid, "session in a grant"},
		{"invalid before scope", with(func(g []d) { g[0].Only, g[1].When = []string{}, valueOf(t, `{}`) }), "", nil,
			nil, invalid, "grant 0: /when"},
		{"not asked of a tool outside",
			with(func(g []d) { g[0].Only, g[0].When = []string{"look"}, valueOf(t, `{"arg":"/x","eq":1}`) }), "", nil,
			nil, outside, "grant 1 does not cover the tool"},

		{"what the delegator may not", chained(t, d{Delegator: "carl", Delegate: "agent"}), "", nil, nil,
			want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"what the caller alone may", chained(t, d{Delegator: "carl", Delegate: "agent"}), "",
			func(in *contracts.Inputs) { in.Caller.Roles = []string{"clerk"} }, nil,
			want{contracts.ReasonNoPolicyDefined, 5, ""}, "no rule"},
		{"what the delegator alone may", good, strings.Replace(paid, "5", "1001", 1), nil, nil, allow, ""},
		{"what bob may not", chained(t, d{Delegator: "bob", Delegate: "agent"}), strings.Replace(paid, "5", "1001", 1),
			nil, nil, want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"}, "denies"},
		{"what ann may not pass through bob", chained(t, d{Delegator: "bob", Delegate: "ann", Depth: 1},
			d{Delegator: "ann", Delegate: "agent"}), strings.Replace(paid, "5", "1001", 1), nil, nil,
			want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"}, "denies"},
		{"the rules before the leaf's caller", chained(t, d{Delegator: "bob", Delegate: "nobody"}),
			strings.Replace(paid, "5", "1001", 1), nil, nil, want{contracts.ReasonPolicyViolation, 5, "P1:shop:dear"},
			"denies"},
	}
	require.True(t, len(cases) >= 80, "%d cases", len(cases))
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
			assert.True(t, (r.Delegation == nil) == (c.chain == nil) && (r.Delegation == nil ||
				*r.Delegation == c.chain[0].Digest()), "delegation %v", r.Delegation)
			assert.Equal(t, in.Caller, r.Caller, "judged for")
			if d, _ := judgeBy(p, &in, c.state, onlyLedger{new(past.Ledger)}); !reflect.DeepEqual(d, r) {
				t.Errorf("decided: %+v", d)
			}
		})
	}
}
