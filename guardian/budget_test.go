package guardian

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

const goodBudget = `{"cost": 1, "id": "b", "limit": 3, "per": "caller", "tools": ["pay"], "window": "day"}`

// bank is a bundle of one tool that costs its amount, with these budgets.
func bank(budgets string) string {
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"bank","version":1},"tools":{
		"pay":{"effect":"write","input":{"type":"object","required":["amount","mixed"],"properties":{"amount":{"type":"number"},"tip":{"type":"number"},
			"null":{"type":["number","null"]},"usual":{"type":"number","default":5},"note":{"type":"string"},"mixed":{"anyOf":[{"type":"number"},{"type":"string"}]}}}},
		"look":{"effect":"read","input":{"type":"object","properties":{}}}},
		"rules":[{"id":"all","allow":["pay","look"]}],"budgets":[` + budgets + `]}`
}

// spending is a floor or overlay with these budgets.
func spending(layer, name, more, budgets string) string {
	return `{"helm":"policy/v1","layer":"` + layer + `","name":"` + name + `","version":1` + more + `,"budgets":[` +
		budgets + `]}`
}

func TestBudgetRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, bank(goodBudget))
	for _, c := range readRefusals(t, "budget_refusals", 37) {
		require.Contains(t, goodBudget, c.old, "%s is not in the budget", c.old)
		p, err := Compile(document(t, "", bank(strings.Replace(goodBudget, c.old, c.new, 1))))
		at := "/budgets/0" + c.at
		if whole, ok := strings.CutPrefix(c.at, "+"); ok {
			at = whole
		}
		var e *LoadError
		assert.True(t, errors.As(err, &e) && p == nil && e.Pointer == at && strings.Contains(e.Error(), c.says) && e.Remedy != "",
			"%s: %v, want %s: %s", c.new, err, at, c.says)
	}
	var many []string
	for i := range contracts.MaxCharges + 1 {
		many = append(many, strings.Replace(goodBudget, `"b"`, fmt.Sprintf(`"b%d"`, i), 1))
	}
	mustCompile(t, bank(strings.Join(many[1:], ",")))
	_, err := Compile(document(t, "", bank(strings.Join(many, ","))))
	assert.True(t, err != nil && strings.Contains(err.Error(), "more than 8"), "nine budgets for a tool: %v", err)
}

// Windows begin where the calendar says in UTC, and balances are of whom per says.
func TestBudgetKeys(t *testing.T) {
	t.Parallel()
	at := contracts.TimeOf(time.Date(2028, 2, 29, 23, 59, 59, 999e6, time.UTC))
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		per, window string
		change      func(*contracts.Inputs)
		of, starts  string
		err         bool
	}{
		{"caller", "hour", nil, payer("ann", "acme"), "2028-02-29T23:00:00.000Z", false},
		{"tenant", "day", nil, "acme", "2028-02-29T00:00:00.000Z", false},
		{"tool", "month", nil, "pay", "2028-02-01T00:00:00.000Z", false},
		{"all", "total", nil, "", "total", false},
		{"session", "session", func(in *contracts.Inputs) { in.Session = "chat" }, "chat", "session", false},
		{"session", "total", func(in *contracts.Inputs) { in.Session = "chat" }, "chat", "total", false},
		{"session", "session", nil, "", "", true}, // main, where calls go that name none
		{"caller", "day", func(in *contracts.Inputs) { in.Caller.ID = "" }, "", "", true},
		{"tenant", "day", func(in *contracts.Inputs) { in.Caller.Tenant = "" }, "", "", true},
		{"caller", "day", func(in *contracts.Inputs) { in.Caller.Tenant = "" }, payer("ann", ""),
			"2028-02-29T00:00:00.000Z", false},
		{"caller", "total", func(in *contracts.Inputs) { in.Caller.ID = long }, contracts.Hashed(payer(long, "acme")),
			"total", false},
		{"caller", "total", func(in *contracts.Inputs) { in.Caller = contracts.Caller{ID: long[:115]} },
			payer(long[:115], ""), "total", false}, // 128 bytes in a JSON string
		{"caller", "total", func(in *contracts.Inputs) { in.Caller = contracts.Caller{ID: long[:116]} },
			contracts.Hashed(payer(long[:116], "")), "total", false},
		{"all", "hour", func(in *contracts.Inputs) { in.Caller = contracts.Caller{} }, "", "2028-02-29T23:00:00.000Z",
			false},
	} {
		p := mustCompile(t, bank(strings.NewReplacer("caller", c.per, "day", c.window).Replace(goodBudget)))
		in := inputs(t, "pay", `{"amount":1,"mixed":1,"usual":5}`)
		in.Time = at
		if c.change != nil {
			c.change(&in)
		}
		r, _ := judgeBy(p, &in, nil, onlyLedger{new(past.Ledger)})
		if c.err {
			assert.True(t, r.Reason == contracts.ReasonBudgetError && r.Rule == "P1:bank:b" && r.Condition == 3 &&
				r.Charges == nil && in.State.Budgets == nil, "%s: %+v", c.per, r)
			continue
		}
		want := []contracts.Charge{{Amount: 1, Budget: "P1:bank:b", Limit: 3, Of: c.of, Window: c.starts}}
		assert.True(t, slices.Equal(r.Charges, want) && slices.Equal(in.State.Budgets,
			[]contracts.Balance{{Budget: "P1:bank:b", Of: c.of, Window: c.starts}}), "%s %s: %s %+v %+v", c.per,
			c.window, r.Reason, r.Charges, in.State.Budgets)
	}
}

// payer is whom per: caller charges.
func payer(id, tenant string) string {
	if tenant == "" {
		return `{"id":"` + id + `"}`
	}
	return `{"id":"` + id + `","tenant":"` + tenant + `"}`
}

// Two people of one name in two tenants have a balance each, and so has one whose id looks like
// the canonical form of another.
func TestBalanceOfTenant(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bank(goodBudget))
	of := map[string]bool{}
	for _, c := range []contracts.Caller{
		{ID: "ann", Tenant: "acme"}, {ID: "ann", Tenant: "umbra"}, {ID: "ann"}, {ID: payer("ann", "acme")},
		{ID: payer("ann", "")}, {ID: `ann","tenant":"acme`},
	} {
		in := inputs(t, "pay", `{"amount":1,"mixed":1,"usual":5}`)
		in.Caller.ID, in.Caller.Tenant = c.ID, c.Tenant
		r, why := judgeBy(p, &in, nil, onlyLedger{new(past.Ledger)})
		require.Equal(t, contracts.ReasonAllow, r.Reason, why)
		require.Len(t, r.Charges, 1)
		require.False(t, of[r.Charges[0].Of], "%s pays for another", c)
		of[r.Charges[0].Of] = true
	}
}

// Errors come before balances, and the first document of the stack decides.
func TestBudgetOrder(t *testing.T) {
	t.Parallel()
	money := `{"id":"money","tools":["pay"],"limit":500,"per":"all","window":"total","cost":{"arg":"/amount","scale":2}}`
	mixed := `{"id":"mixed","tools":["pay"],"limit":500,"per":"all","window":"total","cost":{"arg":"/mixed"},"when":{"arg":"/note","eq":"mixed","absent":false}}`
	count := `{"id":"count","tools":["p*"],"limit":1,"per":"caller","window":"day","cost":1,"unless":{"caller":"roles","has":"boss"}}`
	erring := `{"id":"erring","tools":["pay"],"limit":500,"per":"all","window":"total","cost":1,"when":{"arg":"/mixed","gt":3}}`
	p := mustCompile(t, bank(money+","+mixed), spending("P0", "z", "",
		strings.ReplaceAll(count, `["p*"]`, `{"effects":["write"]}`)), spending("P0", "a", "", money+","+erring),
		spending("P2", "b", `,"for":{"session":"chat"}`, strings.Replace(count, `"day"`, `"total"`, 1)))
	balance := func(budget string, spent uint64) contracts.Balance {
		b := contracts.Balance{Budget: budget, Spent: spent, Window: "total"}
		if strings.HasSuffix(budget, "count") {
			b.Of = payer("ann", "acme")
		}
		if budget == "P0:z:count" {
			b.Window = "2026-07-15T00:00:00.000Z"
		}
		return b
	}
	for _, c := range []struct {
		args, session string
		spent         []contracts.Balance
		want          want
		charged       string
	}{
		{`{"amount":5,"mixed":1,"usual":5}`, "main", nil, want{contracts.ReasonAllow, 8, "P1:bank:all"},
			"P0:a:money=500 P0:z:count=1 P1:bank:money=500"},
		{`{"amount":5,"mixed":1,"usual":5}`, "chat", nil, want{contracts.ReasonAllow, 8, "P1:bank:all"},
			"P0:a:money=500 P0:z:count=1 P1:bank:money=500 P2:b:count=1"},
		{`{"amount":5.01,"mixed":1,"usual":5}`, "main", nil, want{contracts.ReasonBudgetExceeded, 3, "P0:a:money"}, ""},
		{`{"amount":5.001,"mixed":1,"usual":5}`, "main", nil, want{contracts.ReasonBudgetError, 3, "P0:a:money"}, ""},
		{`{"amount":-1,"mixed":1,"usual":5}`, "main", nil, want{contracts.ReasonBudgetError, 3, "P0:a:money"}, ""},
		{`{"amount":1e300,"mixed":1,"usual":5}`, "main", nil, want{contracts.ReasonBudgetExceeded, 3, "P0:a:money"},
			""},
		{`{"amount":0,"mixed":4,"usual":5}`, "main", nil, want{contracts.ReasonAllow, 8, "P1:bank:all"},
			"P0:a:erring=1 P0:a:money=0 P0:z:count=1 P1:bank:money=0"},
		{`{"amount":1,"mixed":"x","usual":5}`, "main", nil, want{contracts.ReasonFailClosedError, 3, ""}, ""},
		// though a:money is exceeded
		{`{"amount":9,"mixed":1.5,"note":"mixed","usual":5}`, "main", nil,
			want{contracts.ReasonBudgetError, 3, "P1:bank:mixed"}, ""},
		{`{"amount":1,"mixed":1,"usual":5}`, "main", []contracts.Balance{balance("P0:z:count", 1),
			balance("P1:bank:money", 500)}, want{contracts.ReasonBudgetExceeded, 3, "P0:z:count"}, ""},
		{`{"amount":1,"mixed":1,"usual":5}`, "main", []contracts.Balance{balance("P1:bank:money", 401)},
			want{contracts.ReasonBudgetExceeded, 3, "P1:bank:money"}, ""},
		{`{"amount":1,"mixed":1,"usual":5}`, "main", []contracts.Balance{balance("P1:bank:money", 400)},
			want{contracts.ReasonAllow, 8, "P1:bank:all"}, "P0:a:money=100 P0:z:count=1 P1:bank:money=100"},
		// a limit that was lowered
		{`{"amount":0,"mixed":1,"usual":5}`, "main", []contracts.Balance{balance("P1:bank:money", 501)},
			want{contracts.ReasonBudgetExceeded, 3, "P1:bank:money"}, ""},
		{`{"amount":1,"mixed":1,"usual":5}`, "chat", []contracts.Balance{balance("P2:b:count", 1)},
			want{contracts.ReasonBudgetExceeded, 3, "P2:b:count"}, ""},
	} {
		ledger := new(past.Ledger)
		for _, b := range c.spent {
			require.NoError(t,
				ledger.Charge([]contracts.Charge{{Amount: b.Spent, Budget: b.Budget, Limit: b.Spent, Of: b.Of,
					Window: b.Window}}))
		}
		in := inputs(t, "pay", c.args)
		in.Session = c.session
		r, why := judgeBy(p, &in, nil, onlyLedger{ledger})
		if got := (want{r.Reason, r.Condition, r.Rule}); got != c.want {
			t.Errorf("%s: %v, want %v: %s", c.args, got, c.want, why)
		}
		var charged []string
		for _, x := range r.Charges {
			charged = append(charged, fmt.Sprintf("%s=%d", x.Budget, x.Amount))
		}
		assert.Equal(t, c.charged, strings.Join(charged, " "), "%s: charges", c.args)
		again, _ := c.want.check(t, p, in) // from the balances in the inputs alone
		assert.Equal(t, string(r.Append(nil)), string(again.Append(nil)), "%s: judged again: %s", c.args,
			again.Append(nil))
		if len(in.State.Budgets) == 0 {
			continue
		}
		b, err := contracts.ParseInputs(in.Append(nil))
		assert.True(t, err == nil && len(b.State.Budgets) == len(in.State.Budgets), "%s: inputs: %v", c.args, err)
		in.State.Budgets = in.State.Budgets[1:]
		want{contracts.ReasonFailClosedError, 3, ""}.check(t, p, in)
	}
}

// A budget of a tool costs other tools nothing, and is refunded as it says.
func TestRefunds(t *testing.T) {
	t.Parallel()
	p := mustCompile(t,
		bank(strings.Replace(goodBudget, `"id"`, `"refund": "error", "id"`, 1)+","+strings.Replace(goodBudget, `"b"`,
			`"kept"`, 1)))
	in := inputs(t, "look", `{}`)
	r, _ := judgeBy(p, &in, nil, onlyLedger{new(past.Ledger)})
	assert.True(t, r.Verdict == contracts.Allow && r.Charges == nil && in.State.Budgets == nil, "look: %+v", r)
	got := p.Refunds("pay", contracts.ReasonToolError)
	assert.True(t, slices.Equal(got, []string{"P1:bank:b"}), "refunds %v", got)
	for _, r := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonToolPanic,
		contracts.ReasonToolTimeout, contracts.ReasonOutcomeUnknown} {
		got := p.Refunds("pay", r)
		assert.Nil(t, got, "%s: refunds", r)
	}
	got = p.Refunds("none", contracts.ReasonToolError)
	assert.Nil(t, got, "an undeclared tool")
}

// Budgets of a floor or overlay, added to a random stack: they deny, at condition 3, or change
// nothing but the charges. What was decided by the ledger follows from the inputs alone; whatever
// is charged keeps to its limit.
func TestBudgetsNeverAllow(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := stackGenerator{generator{rand.New(rand.NewPCG(51, 52))}}
	seen := map[contracts.ReasonCode]int{}
	for stacks := 0; stacks < 200; {
		docs := append(g.bundles(), g.floor("f"), g.overlay("o"))
		before := compiled(t, docs)
		if before == nil {
			continue
		}
		var budgets []string
		for i := range 1 + g.r.IntN(3) {
			b := fmt.Sprintf(`{"id":"b%d","tools":%s,"limit":%d,"per":%s,"cost":%s,"window":%s`, i,
				pick(g.generator, `"t"`, `"*"`, `{"effects":["read","write"]}`), g.r.IntN(12),
				pick(g.generator, `"all"`, `"caller"`, `"tool"`, `"all"`),
				pick(g.generator, `1`, `{"arg":"/n"}`, `{"arg":"/n","scale":1}`),
				pick(g.generator, `"hour"`, `"month"`, `"total"`))
			if g.r.IntN(2) == 0 {
				b += `,"when":` + g.predicate(1)
			}
			budgets = append(budgets, b+`}`)
		}
		keys := `,"budgets":[` + strings.Join(budgets, ",") + `]`
		after := mustCompile(t, append(docs, pick(g.generator, floor("money", keys), overlay("money", keys)))...)
		stacks++
		var ledger past.Ledger
		for range 30 {
			in := g.call(t, before)
			b, _ := before.judged(in, nil)
			a, why := judgeBy(after, &in, nil, onlyLedger{&ledger})
			again, _ := after.judged(in, nil)
			require.Equal(t, string(a.Append(nil)), string(again.Append(nil)), "%s\nfrom the inputs: %s", a.Append(nil),
				again.Append(nil))
			b.PolicyHash = a.PolicyHash
			charges := a.Charges
			a.Charges = nil
			switch same := string(a.Append(nil)) == string(b.Append(nil)); {
			case same && bool(a.Verdict) && !ledger.Reserve(charges, in.State.Budgets):
				t.Fatal("a charge that was judged to fit does not")
			case same:
			case bool(a.Verdict) || a.Condition != 3 || b.Condition < 3:
				t.Fatalf("%v at %d became %v at %d: %s", b.Reason, b.Condition, a.Reason, a.Condition, why)
			default:
				seen[a.Reason]++
			}
			for _, c := range charges {
				left := ledger.Spent(c)
				require.True(t, left <= c.Limit, "%s: %d of %d", c.Budget, left, c.Limit)
				seen[contracts.ReasonAllow]++
			}
		}
	}
	atLeast(t, seen, 20, []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonBudgetError,
		contracts.ReasonBudgetExceeded, contracts.ReasonFailClosedError})
}

// One policy, judging calls at both sides of midnight by turns: each is charged to its own day,
// also where the clock goes back.
func TestWindowOfCharges(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bank(goodBudget))
	midnight := contracts.TimeOf(time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC))
	var l past.Ledger
	for i := range 6 {
		in := inputs(t, "pay", `{"amount":1,"mixed":1,"usual":5}`)
		in.Time = midnight - contracts.Time(i%2)
		r, why := judgeBy(p, &in, nil, onlyLedger{&l})
		require.True(t, r.Verdict == contracts.Allow && len(r.Charges) == 1 &&
			r.Charges[0].Window == in.Time.String()[:len("2006-01-02")]+"T00:00:00.000Z" && l.Reserve(r.Charges,
			in.State.Budgets), "%v %s %+v", r.Reason, why, r.Charges)
		assert.Equal(t, uint64(i/2), r.Charges[0].Before, "call %d on a balance of", i)
	}
	for i := range 2 { // the limit is three
		in := inputs(t, "pay", `{"amount":1,"mixed":1,"usual":5}`)
		in.Time = midnight - contracts.Time(i)
		r, _ := judgeBy(p, &in, nil, onlyLedger{&l})
		assert.Equal(t, contracts.ReasonBudgetExceeded, r.Reason, "a fourth call")
	}
}
