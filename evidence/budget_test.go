package evidence

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/receipts"
)

// budgetPolicy has a budget of each kind: of calls, of what they cost, of a session; one gives back what a failed call was charged.
var budgetPolicy = strings.Replace(strings.Replace(testPolicy(3), `"default":10,"type":"integer"`, `"default":10,"type":"number"`, 1), `"rules":[`, `"budgets":[`+
	`{"cost":1,"id":"reads","limit":3,"per":"caller","tools":["fs.read"],"window":"day"},`+
	`{"cost":{"arg":"/lines","scale":1},"id":"lines","limit":1000,"per":"all","refund":"error","tools":"fs.read","window":"month"},`+
	`{"cost":1,"id":"task","limit":9,"per":"session","tools":"fs.*","window":"session","when":{"caller":"roles","has":"reader"}}],"rules":[`, 1)

var budgetNames = strings.Fields("g p a1 a2 b1 f1 f2 b2 b3 b4 w1 w2 i1 i2 e1 o")

// budgetLog is a log whose calls are charged.
func budgetLog(t testing.TB) *maker {
	t.Helper()
	m := newMaker(t)
	m.use(budgetPolicy)
	other := contracts.Caller{ID: "eve", Roles: []string{"reader"}}
	read := func(session, args string, who contracts.Caller) ask {
		return ask{session: session, tool: "fs.read", args: args, who: who}
	}
	a1 := m.allowed(read("s1", `{"path":"/srv/a"}`, reader))
	a1.ran(`{"text":"a"}`)
	b1 := m.allowed(read("s2", `{"lines":0.5,"path":"/srv/b"}`, reader))
	f1 := m.allowed(read("s1", `{"path":"/srv/b"}`, reader))
	f1.failed(contracts.ReasonToolError)
	b1.ran(`{"text":"b"}`)
	m.denied(contracts.ReasonBudgetExceeded, read("s2", `{"path":"/srv/b"}`, reader))           // b3
	m.denied(contracts.ReasonBudgetError, read("s2", `{"lines":0.55,"path":"/srv/b"}`, reader)) // b4
	m.allowed(read("s1", `{"path":"/srv/c"}`, other)).end(receipts.Result{Reason: contracts.ReasonContractDrift, Output: []byte(`{"txt":"c"}`), Form: "jcs"}, true)
	m.allowed(read("s1", `{"path":"/srv/d"}`, other)).failed(contracts.ReasonToolTimeout)
	m.denied(contracts.ReasonPolicyViolation, read("s1", `{"path":"/srv/secret"}`, other)) // e1: peeked at, and not charged
	m.allowed(read("s1", `{"path":"/srv/e"}`, other))                                      // o
	m.checkpoint()
	if n, err := m.store.Size(t.Context()); err != nil || int(n) != len(budgetNames) {
		t.Fatalf("%d entries, %d names, %v", n, len(budgetNames), err)
	}
	return m
}

// Charges, settlements and the balances in the inputs verify and replay; whoever changes one is found, as the catalogue says by what.
func TestBudgets(t *testing.T) {
	m := budgetLog(t)
	pack := m.pack()
	o := Options{Trust: m.trust, Origin: testOrigin}
	r, err := verifyBytes(t, pack, o)
	if err != nil || !r.Success(Logged) || r.Replay.Replayed != 9 || r.Replay.NotReplayable+r.Replay.Differing != 0 || len(r.Open) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	charge := func(n *node, budget string) object {
		for _, c := range n.d()["charges"].([]any) {
			if c := c.(object); c["budget"] == "P1:files:"+budget {
				return c
			}
		}
		t.Fatal("no charge")
		return nil
	}
	settled := func(n *node, i int) object { return n.p()["settled"].([]any)[i].(object) }
	balance := func(m *model, n *node, budget string, change func(object)) {
		m.inputs(n, func(in object) {
			for _, b := range in["state"].(object)["budgets"].([]any) {
				if b := b.(object); b["budget"] == "P1:files:"+budget {
					change(b)
				}
			}
		})
	}
	spent := func(n int) func(object) { return func(b object) { b["spent"] = n } }
	for _, x := range []struct {
		id   string
		cut  func(m *model, the func(string) *node)
		want error
	}{
		{"R26", func(m *model, the func(string) *node) {
			charge(the("b1"), "reads")["before"] = 0
			balance(m, the("b1"), "reads", spent(0))
		}, ErrBudget},
		{"R26 in another order", func(m *model, the func(string) *node) {
			charge(the("b1"), "reads")["before"], charge(the("f1"), "reads")["before"] = 2, 1
			balance(m, the("b1"), "reads", spent(2))
			balance(m, the("f1"), "reads", spent(1))
		}, ErrBudget},
		{"R26 of an open call, which no receipt settles and nobody can replay", func(m *model, the func(string) *node) {
			c := charge(the("o"), "reads")
			c["before"] = numberOf(m, c["before"]) - 1
			delete(m.blobs, the("o").d()["inputsHash"].(string))
		}, ErrBudget},
		{"R28", func(m *model, the func(string) *node) { // the last call of its session, so no balance follows
			delete(the("o").d(), "charges")
		}, ErrReplay},
		{"R29", func(m *model, the func(string) *node) { charge(the("a1"), "reads")["limit"] = 20 }, ErrReplay},
		{"R29 of another", func(m *model, the func(string) *node) {
			charge(the("o"), "reads")["of"], charge(the("o"), "reads")["before"] = "zoe", 0
			balance(m, the("o"), "reads", func(b object) { b["of"], b["spent"] = "zoe", 0 })
		}, ErrReplay},
		{"R30", func(m *model, the func(string) *node) { settled(the("a2"), 1)["amount"] = 0 }, ErrBudget},
		{"R30 indeterminate", func(m *model, the func(string) *node) { settled(the("i2"), 1)["amount"] = 0 }, ErrBudget},
		{"R30 another budget", func(m *model, the func(string) *node) { settled(the("a2"), 1)["budget"] = "P1:files:writes" }, ErrBudget},
		{"a refund where the budget gives none", func(m *model, the func(string) *node) { // nobody is charged to it afterwards
			settled(the("f2"), 1)["amount"] = 0
		}, ErrReplay},
		{"no refund where the budget gives one", func(m *model, the func(string) *node) {
			settled(the("f2"), 0)["amount"] = 100
			for i, name := range strings.Fields("w1 i1 o") {
				charge(the(name), "lines")["before"] = 205 + 100*i
				balance(m, the(name), "lines", spent(205+100*i))
			}
		}, ErrReplay},
		{"a denial's balance is not read", func(m *model, the func(string) *node) {
			m.inputs(the("b3"), func(in object) { in["state"].(object)["budgets"] = in["state"].(object)["budgets"].([]any)[1:] })
		}, ErrReplay},
		{"a denial's balances are not there", func(m *model, the func(string) *node) {
			m.inputs(the("b3"), func(in object) { delete(in["state"].(object), "budgets") })
		}, ErrReplay},
		{"a denial with enough", func(m *model, the func(string) *node) { balance(m, the("b3"), "reads", spent(2)) }, ErrReplay},
		{"a balance that nobody read", func(m *model, the func(string) *node) {
			m.inputs(the("b4"), func(in object) {
				in["state"].(object)["budgets"] = []any{object{"budget": "P1:files:lines", "spent": 5, "window": "total"}}
			})
		}, ErrReplay},
		{"a balance beside the charges", func(m *model, the func(string) *node) {
			m.inputs(the("o"), func(in object) {
				s := in["state"].(object)
				s["budgets"] = append([]any{object{"budget": "P0:x:y", "spent": 5, "window": "total"}}, s["budgets"].([]any)...)
			})
		}, ErrReplay},
	} {
		t.Run(x.id, func(t *testing.T) {
			ranRow(t, strings.Fields(x.id)[0])
			m := takeApart(t, pack)
			x.cut(m, func(name string) *node { return m.nodes[slices.Index(budgetNames, name)] })
			r, err := verifyBytes(t, m.build(), o)
			mustRefuse(t, r, err, x.want)
		})
	}
}

// TestOracleBudgets has the second implementation verify the log of budgets, and spoil whatever it can of charges, settlements and balances.
func TestOracleBudgets(t *testing.T) {
	race.Alone(t)
	o := newOracle(t, "a log of budgets, and its mutations (TestBudgets has its own)")
	m := budgetLog(t)
	pack := m.pack()
	o.agrees(pack, m.trust)
	about := regexp.MustCompile("charge|^settled|^inputs-balance")
	refused := 0
	for x := range o.spoil(pack, about.MatchString, seedK1, seedL) {
		if x.pack == nil {
			t.Logf("%s finds nothing", x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, Options{Trust: m.trust, Origin: testOrigin})
		var e *Error
		if !errors.As(err, &e) || e.Check.Error() != x.check {
			t.Errorf("%s: %v, want %s", x.name, err, x.check)
		}
		refused++
	}
	if refused < 20 {
		t.Errorf("only %d mutations were refused", refused)
	}
}

// fold folds the charges of a pack's entries, whatever else is in them, and gives their number.
func fold(t *testing.T, pack []byte) (charges int, err error) {
	t.Helper()
	var l past.Ledger
	open := map[contracts.Digest][]contracts.Charge{}
	for _, x := range untar(t, pack) {
		if x.name != members[entriesMember] {
			continue
		}
		for line := range bytes.Lines(x.body) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			var r contracts.Reader
			sealed, unread := r.Open(line)
			if unread != nil {
				t.Fatal(unread)
			}
			st, unread := sealed.Statement()
			if unread != nil {
				t.Fatal(unread)
			}
			switch {
			case st.Decision != nil:
				err = errors.Join(err, l.Charge(st.Decision.Charges))
				open[contracts.Entry(line).Hash()] = st.Decision.Charges
				charges += len(st.Decision.Charges)
			case st.Receipt != nil && st.Receipt.Decision == nil:
				err = errors.Join(err, l.Settle(open[st.Receipt.DecisionHash], st.Receipt.Settled, st.Receipt.Reason))
			}
		}
	}
	return charges, err
}

// TestOracleCharges folds the charges of the second implementation's own packs, of which this version refuses other things by name; and of
// what it makes of them when it spoils what the check BUDGET looks at.
func TestOracleCharges(t *testing.T) {
	o := newOracle(t, "the charges of packs which it makes (TestBudgets has its own)")
	name := filepath.Join(o.dir, "gen.tar")
	if said, status := o.run("gen", name); status != 0 {
		t.Fatal(said)
	}
	pack, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := fold(t, pack); err != nil || n < 6 {
		t.Fatalf("%d charges, %v", n, err)
	}
	about := regexp.MustCompile("^charge|^settled")
	n := 0
	for x := range o.spoil(pack, about.MatchString, seedG1, seedG2) {
		if x.check != "BUDGET" {
			continue
		}
		if _, err := fold(t, x.pack); x.pack == nil || err == nil {
			t.Errorf("%s folds", x.name)
		}
		n++
	}
	if n < 10 {
		t.Errorf("only %d were spoiled", n)
	}
}
