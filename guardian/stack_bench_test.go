package guardian

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A full stack is a thousand tools with three rules each, of which the last allows, and what is
// asked for of everything else that a call may be judged by. What a tool has, all have.
type full struct {
	scope, layers     bool
	budgets, requires string // insides of lists, of the bundle
}

func (f full) compile(b *testing.B) *Policy {
	b.Helper()
	const n = 1000
	var tools, rules []string
	for i := range n {
		name := fmt.Sprintf("tool.%d", i)
		text := toolText(name, `"path":{"type":"string"},"n":{"type":"number"}`, "path", "n")
		if f.scope {
			text = strings.TrimSuffix(text, "}") + `,"scope":[{"arg":"/path","within":["/srv/data","/srv/more"]}]}`
		}
		tools = append(tools, text)
		rules = append(rules,
			fmt.Sprintf(`{"id":"a%d","deny":"%s","when":{"arg":"/n","gt":1000}},{"id":"b%d","deny":"%s","when":{"arg":"/path","eq":"/etc/passwd"}},`+
				`{"id":"c%d","allow":"%s","when":{"caller":"roles","has":"editor"}}`, i, name, i, name, i, name))
	}
	bundle := bundle("b", strings.Join(tools, ","), strings.Join(rules, ","))
	docs := []string{strings.TrimSuffix(bundle, "}") + `,"budgets":[` + f.budgets + `],"requires":[` + f.requires +
		`]}`}
	if f.layers {
		docs = append(docs,
			floor("f",
				`,"profile":{"effects":["read"],"connectors":["b"]},"ceilings":{"args":"64KiB","depth":8,"timeout":"10s","risk":"medium"},"expires":"2099-01-01T00:00:00Z",`+
					`"only":"tool.*","rules":[{"id":"nights","deny":{"effects":["read"]},"unless":{"time":"utc","in":["Mon-Sun 06:00-20:00"]}}]`),
			overlay("o",
				`,"for":{"session":"chat"},"only":"tool.*","expires":"2099-01-01T00:00:00Z","rules":[{"id":"dots","deny":"tool.*","when":{"arg":"/n","lt":0}}]`))
	}
	return mustCompile(b, append(docs, ungated)...)
}

const (
	daily   = `{"id":"daily","tools":["tool.*"],"limit":1000000000,"per":"caller","window":"day","cost":1,"refund":"error"}`
	monthly = `{"id":"monthly","tools":["tool.*"],"limit":1000000000,"per":"tenant","window":"month","cost":{"arg":"/n","scale":2}}`

	unlessEditor = `{"id":"asked","tools":["tool.*"],"unless":{"caller":"roles","has":"editor"},"all":[{"approval":{"roles":["owner"]}}]}`
	looked       = `{"id":"looked","tools":["tool.0"],"all":[{"receipt":"tool.1","max_age":"30m"}]}`
	lookedThere  = `{"id":"looked","tools":["tool.0"],"all":[{"receipt":"tool.1","max_age":"30m","same":["/path"]}]}`
)

// looking is a past in which every receipt that is asked for was there a minute ago.
type looking struct{ onlyLedger }

var entry contracts.Digest

func (looking) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	return contracts.PriorReceipt{Entry: &entry, Same: same, Time: noon - 60_000, Tool: tool}, nil
}

// BenchmarkDecision is one hot tool with what a stack has step by step, and Decide, so that
// balances are read from a ledger.
func BenchmarkDecision(b *testing.B) {
	for _, x := range []struct {
		name    string
		stack   full
		charges int
		callers int
		id      string
	}{
		{"manifest", full{}, 0, 1, "%d"},
		{"scope", full{scope: true}, 0, 1, "%d"},
		{"layers", full{layers: true}, 0, 1, "%d"},
		{"budget", full{budgets: daily}, 1, 1, "caller-%d"},
		{"budget, a long id", full{budgets: daily}, 1, 1, "https://issuer.example/realms/acme/users/%d"},
		{"budget, 10000 callers", full{budgets: daily}, 1, 10_000, "caller-%d"},
		{"two budgets", full{budgets: daily + "," + monthly}, 2, 1, "caller-%d"},
		{"scope, layers", full{scope: true, layers: true}, 0, 1, "%d"},
		{"requirement, not asked", full{requires: unlessEditor}, 0, 1, "%d"},
		{"receipt", full{requires: looked}, 0, 1, "%d"},
		{"receipt, same", full{requires: lookedThere}, 0, 1, "%d"},
		{"scope, layers, budget", full{scope: true, layers: true, budgets: daily}, 1, 1, "caller-%d"},
		{"scope, layers, two budgets", full{scope: true, layers: true, budgets: daily + "," + monthly}, 2, 1,
			"caller-%d"},
		{"all", full{true, true, daily, unlessEditor}, 1, 1, "caller-%d"},
		{"all, receipt", full{true, true, daily, unlessEditor + "," + looked}, 1, 1, "caller-%d"},
	} {
		b.Run(x.name, func(b *testing.B) {
			p := x.stack.compile(b)
			past := looking{onlyLedger{new(past.Ledger)}}
			in := inputs(b, "tool.0", `{"path":"/srv/data/report.txt","n":7}`)
			in.Session = "chat"
			ins := make([]contracts.Inputs, x.callers)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range ins {
				ins[i] = in
				ins[i].Caller.ID = fmt.Sprintf(x.id, r.IntN(x.callers))
				if d, why := judgeBy(p, &ins[i], nil, past); d.Verdict != contracts.Allow ||
					len(d.Charges) > 0 && !past.Reserve(d.Charges, ins[i].State.Budgets) {
					b.Fatal(why)
				}
			}
			decide(b, p, ins, func(in *contracts.Inputs) bool {
				d, state, _ := p.Decide(in, nil, past)
				return d.Verdict == contracts.Allow && len(d.Charges) == x.charges && len(state.Budgets) == x.charges &&
					(x.charges == 0 || d.Charges[0].Before > 0)
			})
		})
	}
}
