package guardian

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// What other documents say of the present caller or of the delegator, no grant takes back.
func TestDelegationAndLayers(t *testing.T) {
	t.Parallel()
	state := trusted(t)
	chain := chained(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})
	barred := `,"rules":[{"id":"no","deny":"pay"}]`
	deny := func(of string) string { return `,"rules":[{"id":"no","deny":"pay",` + of + `}]` }
	allow := want{contracts.ReasonAllow, 8, "P1:shop:clerks"}
	overlaid, floored := want{contracts.ReasonPolicyViolation, 5, "P2:o:no"},
		want{contracts.ReasonCeilingViolation, 8, "P0:f:no"}
	is := func(id string) string { return `{"caller":"id","eq":"` + id + `","absent":false}` }
	for _, c := range []struct {
		name, doc string
		want      want
	}{
		{"nothing", overlay("o", ""), allow},
		{"an overlay for the caller", overlay("o", `,"for":{"caller":"agent"}`+barred), overlaid},
		{"an overlay for the delegator", overlay("o", `,"for":{"caller":"ann"}`+barred), overlaid},
		{"an overlay for another", overlay("o", `,"for":{"caller":"bob"}`+barred), allow},
		{"an overlay for the caller elsewhere", overlay("o", `,"for":{"caller":"agent","tenant":"other"}`+barred),
			allow},
		{"an overlay for the caller here",
			overlay("o", `,"for":{"caller":"agent","tenant":"acme","session":"main"}`+barred), overlaid},
		{"an overlay for nobody", overlay("o", `,"for":{"tenant":"other"}`+barred), allow},
		{"an overlay's only, for the caller", overlay("o", `,"for":{"caller":"agent"},"only":"look"`),
			want{contracts.ReasonPolicyViolation, 5, "P2:o:only"}},
		{"an overlay's end, for the delegator", overlay("o",
			`,"for":{"caller":"ann"},"expires":"2026-07-15T12:00:00Z"`),
			want{contracts.ReasonPolicyViolation, 5, "P2:o:expires"}},
		{"an overlay against the delegator", overlay("o", deny(`"when":`+is("ann"))), overlaid},
		{"an overlay but for the delegator", overlay("o", deny(`"unless":`+is("ann"))), allow},
		{"an overlay by the delegator's roles", overlay("o", deny(`"when":{"caller":"roles","has":"owner"}`)),
			overlaid},
		{"an overlay against his tenant", overlay("o", deny(`"when":{"caller":"tenant","eq":"acme","absent":false}`)),
			overlaid},
		{"an overlay but for his tenant", overlay("o", deny(`"unless":{"caller":"tenant","eq":"acme","absent":false}`)),
			allow},
		{"a floor against the caller", floor("f", deny(`"when":`+is("agent"))), floored},
		{"a floor but for the delegator", floor("f", deny(`"unless":`+is("ann"))), floored},
		{"a floor against the delegator", floor("f", deny(`"when":`+is("ann"))), allow},
		{"a floor by the caller's roles", floor("f", deny(`"when":{"caller":"roles","has":"bot"}`)), floored},
		{"a floor by the delegator's roles", floor("f", deny(`"when":{"caller":"roles","has":"owner"}`)), allow},
		{"an overlay that compares", overlay("o", deny(`"when":{"arg":"/to","eq":{"caller":"id"},"absent":false}`)),
			allow},
	} {
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation = "agent", []string{"bot"}, chain
		t.Run(c.name, func(t *testing.T) { c.want.of(t, mustCompile(t, shop, c.doc), in, state) })
	}
	// An overlay is not left by passing on what was granted: it is for the maker of a grant of the
	// chain.
	passed := chained(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 1},
		contracts.Delegation{Delegator: "bob", Delegate: "agent"})
	for of, want := range map[string]want{"ann": overlaid, "bob": overlaid, "agent": overlaid, "carl": allow} {
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation = "agent", []string{"bot"}, passed
		want.of(t, mustCompile(t, shop, overlay("o", `,"for":{"caller":"`+of+`"}`+barred)), in, state)
	}
	// Slots that hold the caller are read again for each of the two: before 5 for the one, at 5 for
	// the other, at 8 for the one again.
	p := mustCompile(t, shop, floor("f", deny(`"when":{"arg":"/to","ne":{"caller":"id"},"absent":false}`)),
		overlay("o",
			deny(`"when":{"arg":"/to","eq":{"caller":"id"},"absent":false}`)+
				`,"budgets":[{"id":"b","tools":"pay","limit":9,"per":"caller","window":"day","cost":1,"when":`+
				is("agent")+`}]`))
	for to, want := range map[string]want{"agent": allow, "ann": overlaid, "x": floored} {
		in := inputs(t, "pay", strings.Replace(paid, `"x"`, `"`+to+`"`, 1))
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation = "agent", []string{"bot"}, chain
		r, _ := judgeBy(p, &in, state, onlyLedger{new(past.Ledger)})
		of := payer("ann", "acme") // who lends the rights pays
		assert.True(t, len(in.State.Budgets) == 1 && in.State.Budgets[0].Of == of &&
			(r.Verdict != contracts.Allow || r.Charges[0].Of == of), "%s: charged %+v", to, in.State.Budgets)
		want.of(t, p, in, state)
	}
	// What is required is required of the caller; so is the approval asked for.
	needs := func(of, need string) string {
		return `,"requires":[{"id":"q","tools":"pay",` + of + `"all":[` + need + `]}]`
	}
	const look, boss = `{"receipt":"look"}`, `{"approval":{"roles":["owner"]}}`
	missing, ask := contracts.ReasonMissingRequirement, contracts.ReasonApprovalRequired
	for doc, end := range map[string]want{
		floor("f", needs("", look)):                               {missing, 4, "P0:f:q"},
		floor("f", needs(`"unless":`+is("ann")+`,`, look)):        {missing, 4, "P0:f:q"},
		floor("f", needs(`"unless":`+is("agent")+`,`, look)):      allow,
		overlay("o", `,"for":{"caller":"ann"}`+needs("", look)):   {missing, 4, "P2:o:q"},
		overlay("o", `,"for":{"caller":"agent"}`+needs("", look)): {missing, 4, "P2:o:q"},
		overlay("o", `,"for":{"caller":"bob"}`+needs("", look)):   allow,
		overlay("o", `,"for":{"caller":"ann"}`+needs("", boss)):   {ask, 4, "P2:o:q"},
		floor("f", needs("", boss)):                               {ask, 4, "P0:f:q"},
	} {
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Caller.Roles, in.Envelopes.Delegation, in.Session = "agent", []string{"bot"}, chain, "chat"
		r, why := judgeBy(mustCompile(t, shop, doc), &in, state, newTold())
		got := want{r.Reason, r.Condition, r.Rule}
		assert.True(t, got == end && (r.Reason == ask) == (why.Pending != nil) && (why.Pending == nil ||
			why.Pending.Caller.ID == "agent"), "%s: %v (%s), pending %+v", doc, got, why, why.Pending)
	}
	// A budget per caller of an overlay is charged to the delegator, whomever of the two it is for.
	for of, n := range map[string]int{"ann": 1, "agent": 1, "bob": 0} {
		p := mustCompile(t, shop,
			overlay("o",
				`,"for":{"caller":"`+of+
					`"},"budgets":[{"id":"b","tools":"pay","limit":9,"per":"caller","window":"day","cost":1}]`))
		in := inputs(t, "pay", paid)
		in.Caller.ID, in.Envelopes.Delegation = "agent", chain
		r, _ := judgeBy(p, &in, state, onlyLedger{new(past.Ledger)})
		assert.True(t, len(r.Charges) == n && (n <= 0 || r.Charges[0].Of == payer("ann", "acme")), "for %s: %+v", of, r)
	}
}

// The grants of a chain share the visits of the decision, and what their patterns become is
// bounded.
func TestDelegationWork(t *testing.T) {
	t.Parallel()
	state := trusted(t)
	long := `{"amount":5,"n":[` + strings.Repeat("1,", 3999) + `1],"path":"/srv/a","to":"x"}`
	each := func(n int) string {
		return `{"all":[` + strings.Repeat(`{"every":"/n","that":{"gt":0}},`, n-1) + `{"every":"/n","that":{"gt":0}}]}`
	}
	judge := func(p *Policy, grants ...contracts.Delegation) (contracts.DecisionRecord, Why) {
		in := inputs(t, "pay", long)
		in.Caller.ID, in.Envelopes.Delegation = "agent", chained(t, grants...)
		return p.judged(in, state)
	}
	two := func(a, b string) []contracts.Delegation {
		return []contracts.Delegation{{Delegator: "ann", Delegate: "bob", Depth: 1, When: valueOf(t, a)},
			{Delegator: "bob", Delegate: "agent", When: valueOf(t, b)}}
	}
	ruled := mustCompile(t, strings.Replace(shop, `{"id": "dear"`,
		`{"id": "bad", "deny": "pay", "when": {"some": "/n", "that": {"lt": 0}}}, {"id": "dear"`, 1))
	p, floored := mustCompile(t, shop), mustCompile(t, shop,
		floor("f", `,"rules":[{"id":"no","deny":"pay","when":{"some":"/n","that":{"lt":0}}}]`))
	for _, c := range []struct {
		p      *Policy
		a, b   string
		reason contracts.ReasonCode
		at     int
	}{
		{p, each(1), each(1), contracts.ReasonAllow, 8},
		// 3 times 4,001, and what the scope and the rules tested
		{p, each(1), each(2), contracts.ReasonFailClosedError, 6},
		{p, each(2), each(1), contracts.ReasonFailClosedError, 6},
		{ruled, each(1), `{"arg":"/to","eq":"x"}`, contracts.ReasonAllow, 8},
		{ruled, each(1), each(1), contracts.ReasonFailClosedError, 6},
		{floored, each(1), `{"arg":"/to","eq":"x"}`, contracts.ReasonAllow, 8},
		{floored, each(1), each(1), contracts.ReasonFailClosedError, 8},
	} {
		r, why := judge(c.p, two(c.a, c.b)...)
		assert.True(t, r.Reason == c.reason && r.Condition == c.at, "%s at %d (%s), want %s at %d", r.Reason,
			r.Condition, why, c.reason, c.at)
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
		ok := r.Reason == contracts.ReasonAllow
		assert.True(t, ok == c.ok && (ok || (r.Reason == contracts.ReasonDelegationInvalid && r.Condition == 6)),
			"%.60s, %.60s: %s (%s)", c.a, c.b, r.Reason, why)
	}
	// Sixteen grants are as many as there may be.
	var grants []contracts.Delegation
	for i := range contracts.MaxListed {
		grants = append(grants, contracts.Delegation{Delegator: []string{"ann", "bob"}[i%2],
			Delegate: []string{"bob", "ann"}[i%2], Depth: 16})
	}
	grants[len(grants)-1].Delegate = "agent"
	r, why := judge(p, grants...)
	assert.Equal(t, contracts.Allow, r.Verdict, "sixteen grants: %s (%s)", r.Reason, why)
}

// Grants make nobody wait: what a pattern may cost counts as visits, by its steps and by
// the length of what it is tested on.
func TestGrantsArePatient(t *testing.T) {
	t.Parallel()
	state := trusted(t)
	p := mustCompile(t,
		bundle("b",
			strings.Replace(toolText("pay", `"to":{"type":"string"},"list":{"type":"array","items":{"type":"string"}}`,
				"list", "to"), `"read"`, `"write"`, 1), `{"id":"a","allow":"pay"}`))
	slow, long := `(?:........){0,1000}!`, strings.Repeat("a", 1<<19)
	allow, failed := want{contracts.ReasonAllow, 8, "P1:b:a"}, want{contracts.ReasonFailClosedError, 6, ""}
	for _, c := range []struct {
		name, when, to, list string
		want                 want
	}{
		{"slow and long", `{"not":{"arg":"/to","finds":"` + slow + `"}}`, long, ``, failed},
		{"slow and long, whole", `{"not":{"arg":"/to","regex":".*` + slow + `"}}`, long, ``, failed},
		{"slow and short", `{"not":{"arg":"/to","finds":"` + slow + `"}}`, "abc", ``, allow},
		{"quick and long", `{"not":{"arg":"/to","finds":"b"}}`, long, ``, allow},
		{"slow beside long", `{"not":{"arg":"/to","finds":"` + slow + `"}}`, "abc", `"` + long + `"`, allow},
		{"slow, and much that is short", `{"every":"/list","that":{"not":{"item":"","finds":"` + slow + `"}}}`, "abc",
			`"` + strings.Repeat(strings.Repeat("a", 400)+`","`, 99) + `"`, failed},
		{"quick, and much that is short", `{"every":"/list","that":{"not":{"item":"","finds":"b"}}}`, "abc",
			`"` + strings.Repeat(strings.Repeat("a", 400)+`","`, 99) + `"`, allow},
	} {
		in := inputs(t, "pay", `{"list":[`+c.list+`],"to":"`+c.to+`"}`)
		in.Caller = contracts.Caller{ID: "agent"}
		in.Envelopes.Delegation = chained(t, contracts.Delegation{Delegator: "ann", Delegate: "agent",
			When: valueOf(t, c.when)})
		t.Run(c.name, func(t *testing.T) { c.want.of(t, p, in, state) })
	}
}
