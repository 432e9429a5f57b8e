package forge

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// Charges, settlements and the balances in the inputs verify and replay; a change of any one is
// found, as the catalogue says by what.
func TestBudgets(t *testing.T) {
	t.Parallel()
	m := BudgetLog(t)
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust, Origin: Origin}
	r, err := verifyBytes(t, pack, o)
	require.True(t, err == nil && r.Success(evidence.Logged) && r.Replay.Replayed == 9 &&
		r.Replay.NotReplayable+r.Replay.Differing == 0 && len(r.Open) == 1, "%+v, %v", r, err)
	charge := func(n *Node, budget string) Object {
		for _, c := range n.D()["charges"].([]any) {
			if c := c.(Object); c["budget"] == "P1:files:"+budget {
				return c
			}
		}
		t.Fatal("no charge")
		return nil
	}
	settled := func(n *Node, i int) Object { return n.P()["settled"].([]any)[i].(Object) }
	balance := func(m *Model, n *Node, budget string, change func(Object)) {
		m.inputs(n, func(in Object) {
			for _, b := range in["state"].(Object)["budgets"].([]any) {
				if b := b.(Object); b["budget"] == "P1:files:"+budget {
					change(b)
				}
			}
		})
	}
	spent := func(n int) func(Object) { return func(b Object) { b["spent"] = n } }
	for _, x := range []struct {
		id   string
		cut  func(m *Model, the func(string) *Node)
		want error
	}{
		{"R26", func(m *Model, the func(string) *Node) {
			charge(the("b1"), "reads")["before"] = 0
			balance(m, the("b1"), "reads", spent(0))
		}, errBudget},
		{"R26 in another order", func(m *Model, the func(string) *Node) {
			charge(the("b1"), "reads")["before"], charge(the("f1"), "reads")["before"] = 2, 1
			balance(m, the("b1"), "reads", spent(2))
			balance(m, the("f1"), "reads", spent(1))
		}, errBudget},
		{"R26 of an open call, which no receipt settles and nobody can replay", func(m *Model, the func(string) *Node) {
			c := charge(the("o"), "reads")
			c["before"] = numberOf(m, c["before"]) - 1
			delete(m.Blobs, the("o").D()["inputsHash"].(string))
		}, errBudget},
		{"R28", func(m *Model, the func(string) *Node) { // the last call of its session, so no balance follows
			delete(the("o").D(), "charges")
		}, errReplay},
		{"R29", func(m *Model, the func(string) *Node) { charge(the("a1"), "reads")["limit"] = 20 }, errReplay},
		{"R29 of another", func(m *Model, the func(string) *Node) {
			charge(the("o"), "reads")["of"], charge(the("o"), "reads")["before"] = "zoe", 0
			balance(m, the("o"), "reads", func(b Object) { b["of"], b["spent"] = "zoe", 0 })
		}, errReplay},
		{"R30", func(m *Model, the func(string) *Node) { settled(the("a2"), 1)["amount"] = 0 }, errBudget},
		{"R30 indeterminate", func(m *Model, the func(string) *Node) { settled(the("i2"), 1)["amount"] = 0 },
			errBudget},
		{"R30 another budget",
			func(m *Model, the func(string) *Node) { settled(the("a2"), 1)["budget"] = "P1:files:writes" },
			errBudget},
		// nothing is charged to it afterwards
		{"a refund where the budget gives none", func(m *Model, the func(string) *Node) {
			settled(the("f2"), 1)["amount"] = 0
		}, errReplay},
		{"no refund where the budget gives one", func(m *Model, the func(string) *Node) {
			settled(the("f2"), 0)["amount"] = 100
			for i, name := range strings.Fields("w1 i1 o") {
				charge(the(name), "lines")["before"] = 205 + 100*i
				balance(m, the(name), "lines", spent(205+100*i))
			}
		}, errReplay},
		{"a denial's balance is not read", func(m *Model, the func(string) *Node) {
			m.inputs(the("b3"),
				func(in Object) { in["state"].(Object)["budgets"] = in["state"].(Object)["budgets"].([]any)[1:] })
		}, errReplay},
		{"a denial's balances are not there", func(m *Model, the func(string) *Node) {
			m.inputs(the("b3"), func(in Object) { delete(in["state"].(Object), "budgets") })
		}, errReplay},
		{"a denial with enough", func(m *Model, the func(string) *Node) { balance(m, the("b3"), "reads", spent(2)) },
			errReplay},
		{"a balance that nobody read", func(m *Model, the func(string) *Node) {
			m.inputs(the("b4"), func(in Object) {
				in["state"].(Object)["budgets"] = []any{Object{"budget": "P1:files:lines", "spent": 5,
					"window": "total"}}
			})
		}, errReplay},
		{"a balance beside the charges", func(m *Model, the func(string) *Node) {
			m.inputs(the("o"), func(in Object) {
				s := in["state"].(Object)
				s["budgets"] = append([]any{Object{"budget": "P0:x:y", "spent": 5, "window": "total"}},
					s["budgets"].([]any)...)
			})
		}, errReplay},
	} {
		t.Run(x.id, func(t *testing.T) {
			ranRow(t, strings.Fields(x.id)[0])
			m := TakeApart(t, pack)
			x.cut(m, func(name string) *Node { return m.Nodes[slices.Index(budgetNames, name)] })
			r, err := verifyBytes(t, m.Build(), o)
			mustRefuse(t, r, err, x.want)
		})
	}
}

// TestOracleBudgets has the second implementation verify the log of budgets, and spoil whatever it
// can of charges, settlements and balances.
func TestOracleBudgets(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "logs of budgets, and their mutations (TestBudgets has its own)")
	words := regexp.MustCompile("charge|^settled|^inputs-balance")
	callers := strings.Fields(`charge-of-another-caller charge-of-an-id-alone charge-of-a-caller-without-tenant
		charge-of-no-caller charge-of-the-delegator-of-the-leaf charge-of-the-root-delegator-without-tenant
		charge-of-the-delegate`)
	ofCallers := func(name string) bool { return slices.Contains(callers, name) }
	for name, x := range map[string]struct {
		log     *Maker
		about   func(name string) bool
		idle    []string // find nothing
		refused int
	}{
		// there all calls have receipts with settlements
		"budgets": {BudgetLog(t), func(name string) bool { return words.MatchString(name) && !ofCallers(name) },
			[]string{"settled-without-charge"}, 29},
		"callers": {callersLog(t), ofCallers, nil, len(callers)},
	} {
		pack := x.log.Pack(evidence.Write)
		o.agrees(pack, x.log.Trust)
		refused := 0
		var idle []string
		for spoiled := range o.spoil(pack, x.about, SeedK1, SeedL) {
			if spoiled.pack == nil {
				idle = append(idle, spoiled.name)
				continue
			}
			_, err := verifyBytes(t, spoiled.pack, evidence.Options{Trust: x.log.Trust, Origin: Origin})
			var e *evidence.Error
			assert.True(t, errors.As(err, &e) && e.Check.Error() == spoiled.check, "%s: %v, want %s", spoiled.name, err,
				spoiled.check)
			refused++
		}
		assert.Equal(t, x.idle, idle, "%s: the mutations that find nothing", name)
		assert.True(t, refused >= x.refused, "%s: only %d mutations were refused", name, refused)
	}
}

// callersLog is a log in which nothing is charged to a balance per caller after a charge that could
// be another's: the balances of all others are what they were, and the charge is judged.
func callersLog(t *testing.T) *Maker {
	t.Helper()
	m := NewMaker(t)
	m.Use(BudgetPolicy)
	own := Ask{Session: "s1", Tool: "fs.read", Args: `{"path":"/srv/a"}`,
		Who: contracts.Caller{ID: "agent-7", Tenant: "acme", Roles: []string{"reader"}}}
	m.Allowed(own).Ran(`{"text":"a"}`)
	m.add(104, "bob", registry.Delegator, "reader")
	root := m.grant(SeedD, "ada", "bob", 1, nil, "fs.read")
	leaf := m.grant(104, "bob", "agent-7", 0, root, "fs.read")
	lent := own
	lent.Who.Roles, lent.With.Delegation = nil, []contracts.Envelope{leaf, root}
	m.Allowed(lent).Ran(`{"text":"a"}`)
	m.Checkpoint()
	return m
}

// fold folds the charges of a pack's entries, whatever else is in them, and returns their number.
func fold(t *testing.T, pack []byte) (charges int, err error) {
	t.Helper()
	var l past.Ledger
	open := map[contracts.Digest][]contracts.Charge{}
	for _, x := range Untar(t, pack) {
		if x.Name != "entries.jsonl" {
			continue
		}
		for line := range bytes.Lines(x.Body) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			var r contracts.Reader
			sealed, unread := r.Open(line)
			require.NoError(t, unread)
			st, unread := sealed.Statement()
			require.NoError(t, unread)
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

// TestOracleCharges folds the charges of the second implementation's own packs, of which this
// version refuses other things by name; and of what it makes of them when it spoils what the check
// BUDGET looks at.
func TestOracleCharges(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "the charges of packs which it makes (TestBudgets has its own)")
	pack := o.gen().Build()
	if n, err := fold(t, pack); err != nil || n < 6 {
		t.Fatalf("%d charges, %v", n, err)
	}
	about := regexp.MustCompile("^charge|^settled")
	n := 0
	for x := range o.spoil(pack, about.MatchString, seedG1, seedG2) {
		if x.check != "BUDGET" {
			continue
		}
		_, err := fold(t, x.pack)
		assert.True(t, x.pack != nil && err != nil, "%s folds", x.name)
		n++
	}
	assert.True(t, n >= 10, "only %d were spoiled", n)
}
