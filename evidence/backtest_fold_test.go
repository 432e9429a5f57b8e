package evidence

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
)

// fixturePolicy is a policy of one tool, version, budgets and the like, and rules.
func fixturePolicy(version int, more, rules string) string {
	return fmt.Sprintf(`{"bundle":{"name":"shop","version":%d},"helm":"policy/v1","layer":"P1",%s`+
		`"rules":[%s{"allow":["buy","look"],"id":"all"}],"tools":{`+
		`"buy":{"effect":"write","input":{"properties":{"n":{"type":"integer"},"of":{"type":"string"}},`+
		`"required":["n"],"type":"object"}},`+
		`"look":{"effect":"read","input":{"properties":{"of":{"type":"string"}},"required":["of"],"type":"object"}}}}`,
		version, more, rules)
}

// money is a budget of so much, of what is bought.
func money(id string, limit int, more string) string {
	return fmt.Sprintf(`"budgets":[{"id":%q,"tools":["buy"],"limit":%d,"per":"all","window":"total",`+
		`"cost":{"arg":"/n"}%s}],`, id, limit, more)
}

const refunded = `,"refund":"error"`

// A fixture is a log in which one session buys.
type fixture struct{ *forge.Maker }

func newFixture(t testing.TB, docs ...string) fixture {
	m := forge.NewMaker(t)
	m.Use(docs...)
	return fixture{m}
}

func (s fixture) buy(n int) *forge.Called {
	return s.Call(forge.Ask{Session: "s1", Tool: "buy", Args: fmt.Sprintf(`{"n":%d}`, n), Who: forge.Reader})
}

// told is what a candidate changes, in brief, and what cannot be judged.
func (s fixture) told(docs ...string) string {
	s.Helper()
	s.Checkpoint()
	d, changes := backTested(s, s.Pack(Write), Options{Trust: s.Trust}, forge.Compiled(s, docs...))
	var lines []string
	for _, c := range changes {
		lines = append(lines, strings.TrimSuffix(brief(c), " P1:shop:all"))
	}
	for _, at := range d.Unjudged {
		lines = append(lines, fmt.Sprint("!", at))
	}
	return strings.Join(lines, "; ")
}

func (s fixture) tells(want string, docs ...string) {
	s.Helper()
	if got := s.told(docs...); got != want {
		s.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestBackTestBalances: what the candidate allows is charged to its own budgets, as the log went
// on.
func TestBackTestBalances(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	small := `{"deny":"buy","id":"small","when":{"arg":"/n","lt":5}},`
	over := " BUDGET_EXCEEDED P1:shop:new"
	plain := fixturePolicy(1, "", "")
	t.Run("what was allowed", func(t *testing.T) {
		s := newFixture(t, plain)
		for _, n := range []int{4, 4, 4, 1} { // 2, 4, 6, 8
			s.buy(n).Ran(`1`)
		}
		s.tells("", fixturePolicy(2, money("new", 13, ""), ""))
		s.tells("-8"+over, fixturePolicy(2, money("new", 12, ""), ""))
		s.tells("-6"+over, fixturePolicy(2, money("new", 11, ""), "")) // so that the last is not too much
	})
	t.Run("what failed then, and comes back or does not", func(t *testing.T) {
		s := newFixture(t, plain)
		s.buy(9).Failed(contracts.ReasonToolError) // 2
		s.buy(9).Failed(contracts.ReasonToolPanic) // 4
		s.buy(9).Ran(`1`)                          // 6
		s.tells("-6"+over, fixturePolicy(2, money("new", 18, ""), ""))
		s.tells("", fixturePolicy(2, money("new", 18, refunded), ""))
		s.tells("-6"+over, fixturePolicy(2, money("new", 17, refunded), ""))
	})
	t.Run("while calls are open", func(t *testing.T) {
		s := newFixture(t, plain)
		a := s.buy(9) // 2
		b := s.buy(9) // 3
		b.Failed(contracts.ReasonToolError)
		c := s.buy(9) // 5
		a.Failed(contracts.ReasonToolError)
		c.Ran(`1`)
		s.buy(9) // 8
		s.tells("-5"+over+"; -8"+over, fixturePolicy(2, money("new", 18, ""), ""))
		s.tells("", fixturePolicy(2, money("new", 18, refunded), ""))
		// what did not run refunds nothing
		s.tells("-3"+over+"; -5"+over, fixturePolicy(2, money("new", 17, refunded), ""))
	})
	t.Run("what the log gave back, and the candidate does not", func(t *testing.T) {
		s := newFixture(t, fixturePolicy(1, money("old", 20, refunded), ""))
		s.buy(15).Failed(contracts.ReasonToolError) // 2
		s.buy(15).Ran(`1`)                          // 4
		s.tells("-4 BUDGET_EXCEEDED P1:shop:old", fixturePolicy(2, money("old", 20, ""), ""))
		s.tells("", fixturePolicy(2, money("old", 20, refunded), ""))
		s.tells("", fixturePolicy(2, money("old", 30, ""), ""))
	})
	t.Run("what was denied then", func(t *testing.T) {
		s := newFixture(t, fixturePolicy(1, "", small))
		s.buy(4)          // 2
		s.buy(9).Ran(`1`) // 3
		s.tells("+2 ALLOW", plain)
		s.tells("+2 ALLOW", fixturePolicy(2, money("new", 13, refunded), ""))
		s.tells("+2 ALLOW; -3"+over, fixturePolicy(2, money("new", 12, refunded), ""))
	})
	t.Run("what is denied now", func(t *testing.T) {
		s := newFixture(t, plain)
		s.buy(4).Ran(`1`)                          // 2
		s.buy(4).Failed(contracts.ReasonToolError) // 4
		s.buy(9).Ran(`1`)                          // 6
		s.tells("-2 POLICY_VIOLATION P1:shop:small; -4 POLICY_VIOLATION P1:shop:small",
			fixturePolicy(2, money("new", 9, refunded), small))
	})
	t.Run("windows and people", func(t *testing.T) {
		s := newFixture(t, plain)
		day := strings.Replace(strings.Replace(money("new", 9, ""), "total", "day", 1), "all", "caller", 1)
		s.buy(9).Ran(`1`)                                                                                       // 2
		s.Call(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":9}`, Who: forge.Writer})                       // 4
		s.Call(forge.Ask{Session: "s1", Tool: "buy", Args: `{"n":9}`, Who: contracts.Caller{}})                 // 5
		s.Call(forge.Ask{Session: "s2", Tool: "buy", Args: `{"n":1}`, Who: forge.Reader, Drop: false}).Ran(`1`) // 6
		s.Now += 24 * 3_600_000
		s.buy(9).Ran(`1`) // 8
		s.tells("-5 BUDGET_ERROR P1:shop:new; -6"+over, fixturePolicy(2, day, ""))
	})
	t.Run("what people approved", func(t *testing.T) {
		asks := `"requires":[{"id":"asked","tools":["buy"],"when":{"arg":"/n","gt":5},"all":[` +
			`{"approval":{"roles":["lead"]}}]}],`
		s := newFixture(t, fixturePolicy(1, asks, ""))
		d := &forge.Fixture{Maker: s.Maker, Session: "s1", Who: forge.Reader}
		c := d.Denied(contracts.ReasonApprovalRequired, d.Ask("buy", `{"n":9}`))            // 2
		d.Allowed(d.Ask("buy", `{"n":9}`, d.Approve(forge.SeedA, *c.Why.Pending))).Ran(`1`) // 3
		s.buy(4).Ran(`1`)                                                                   // 5
		// people say yes again, and then it runs
		s.tells("?3 APPROVAL_INVALID P1:shop:asked", fixturePolicy(2, money("new", 13, "")+asks, ""))
		s.tells("?3 APPROVAL_INVALID P1:shop:asked; -5"+over, fixturePolicy(2, money("new", 12, "")+asks, ""))
		// nobody is asked for what cannot be
		s.tells("~2"+over+"; -3"+over, fixturePolicy(2, money("new", 8, "")+asks, ""))
		s.tells("+2 ALLOW; -3"+over+"; -5"+over, fixturePolicy(2, money("new", 9, ""), ""))
	})
}

// TestBackTestGone: a call that cannot be judged is taken to have gone as it did, with what it
// charged then to a budget that the candidate has.
func TestBackTestGone(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, gone := range map[string]func(m *forge.Model){
		"erased": func(m *forge.Model) { delete(m.Blobs, m.Nodes[2].D()["inputsHash"].(string)) },
		"another engine's": func(m *forge.Model) { // the first policy is
			otherEngineOf(m, m.Nodes[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, x := range []struct {
				reason contracts.ReasonCode
				limit  int
				want   string
			}{
				{contracts.ReasonAllow, 18, ""}, {contracts.ReasonAllow, 17, "-5 BUDGET_EXCEEDED P1:shop:old"},
				{contracts.ReasonToolError, 17, ""}, {contracts.ReasonToolError, 8, "-5 BUDGET_EXCEEDED P1:shop:old"},
			} {
				s := newFixture(t, fixturePolicy(1, money("old", 100, refunded), ""))
				if c := s.buy(9); x.reason == contracts.ReasonAllow { // 2
					c.Ran(`1`)
				} else {
					c.Failed(x.reason)
				}
				s.Use(fixturePolicy(2, money("old", 100, refunded), "")) // 4
				s.buy(9).Ran(`1`)                                        // 5
				s.Checkpoint()
				m := forge.TakeApart(t, s.Pack(Write))
				gone(m)
				d, changes := backTested(t, m.Build(), Options{Trust: s.Trust},
					forge.Compiled(t, fixturePolicy(3, money("old", x.limit, ""), "")))
				got := ""
				for _, c := range changes {
					got += brief(c)
				}
				assert.True(t, got == x.want && slices.Equal(d.Unjudged, []uint64{2}) &&
					slices.Equal(d.Report.Replay.Entries, d.Unjudged) && d.Judged == 1, "%s, limit %d: %s, %+v",
					x.reason, x.limit, got, d)
			}
		})
	}
}

// otherEngineOf has one policy entry be of another engine, and what it judged.
func otherEngineOf(m *forge.Model, n *forge.Node) {
	p := n.P()
	was := p["policy"]
	p["engine"] = forge.Object{"rules": 99, "threat": 7}
	p["policy"] = forge.HexOf(forge.Object{"documents": p["documents"], "engine": p["engine"]})
	for _, x := range m.Nodes {
		if d := x.D(); d != nil && d["policyHash"] == was {
			d["policyHash"] = p["policy"]
		}
	}
}

// TestBackTestStacks: each stack of a log is a candidate for what the others judged, and says again
// what it said.
func TestBackTestStacks(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	first, second := fixturePolicy(1, money("old", 20, ""), ""), fixturePolicy(2, money("old", 10, ""), "")
	task := `{"helm":"policy/v1","layer":"P2","name":"task","only":["look"]}`
	s := newFixture(t, first)
	s.buy(9).Ran(`1`) // 2
	s.Use(second)     // 4
	s.buy(1).Ran(`1`) // 5
	s.buy(1)          // 7, too much
	s.Use(first, task)
	s.buy(1) // 9
	s.tells("+7 ALLOW; +9 ALLOW", first)
	s.tells("~9 BUDGET_EXCEEDED P1:shop:old", second)
	// a candidate is the whole stack
	s.tells("-2 POLICY_VIOLATION P2:task:only; -5 POLICY_VIOLATION P2:task:only; ~7 POLICY_VIOLATION P2:task:only",
		first, task)
	s.tells("-2 BUDGET_EXCEEDED P1:shop:old; +7 ALLOW; +9 ALLOW", fixturePolicy(3, money("old", 8, ""), ""))

	s = newFixture(t, fixturePolicy(1, "", `{"deny":"buy","id":"small","when":{"arg":"/n","lt":5}},`))
	s.buy(4) // 2
	s.Use(second)
	s.buy(9).Ran(`1`)           // 4, which is too much only if the first had been allowed
	s.tells("+2 ALLOW", second) // what it said itself stands
	s.tells("+2 ALLOW; -4 BUDGET_EXCEEDED P1:shop:old", fixturePolicy(3, money("old", 10, ""), ""))
	s.Use(fixturePolicy(4, "", ""))
	s.buy(1) // 7, when 13 of 10 are spent
	s.tells("+2 ALLOW; -7 BUDGET_EXCEEDED P1:shop:old", second)
}

// TestBackTestMemory: a change takes 8 bytes, and none if no list is wanted; of charges are
// held those of open calls.
func TestBackTestMemory(t *testing.T) {
	race.Alone(t)
	const n = 1 << 20
	for _, lists := range []bool{true, false} {
		b := newBackTest(&newVerifier(t.Context(), Options{}).replay, nil, lists)
		base := heap()
		for i := range n {
			b.note(Judged{Condition: i % 100})
		}
		held := heap() - base
		assert.True(t, (!lists || (len(b.said) == 100 && held >= 8*n && held <= 11*n)) && (lists || held <= n/100),
			"%v: %d bytes for %d changes", lists, held, n)
		runtime.KeepAlive(b)
	}

	s := newFixture(t, fixturePolicy(1, "", `{"deny":"buy","id":"small","when":{"arg":"/n","lt":5}},`))
	for n := range 9 {
		if c := s.buy(n); n > 4 {
			c.Ran(`1`)
		}
	}
	s.buy(9)
	s.Checkpoint()
	pack := s.Pack(Write)
	v := newVerifier(t.Context(), Options{Trust: s.Trust})
	b := newBackTest(&v.replay, forge.Compiled(t, fixturePolicy(2, money("new", 100, ""), "")), false)
	if err := v.inPack(bytes.NewReader(pack), int64(len(pack))); err != nil || b.found.Allowed != 5 || len(b.spent) != 1 {
		t.Errorf("%+v, %d calls are held, %v", b.found, len(b.spent), err)
	}
}
