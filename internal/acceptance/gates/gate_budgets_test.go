package gates

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Condition 3: the budgets suffice.

const budgetBundle = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  pay:
    effect: write
    input: {type: object, required: [amount], properties: {amount: {type: number}, to: {type: string, default: bob}}}
rules:
  - {id: all, allow: pay}
budgets:
  - {id: money, tools: pay, limit: 1000, per: tenant, window: day, cost: {arg: /amount, scale: 2}}
  - {id: calls, tools: pay, limit: 4, per: caller, window: hour, cost: 1}
  - {id: talk, tools: pay, limit: 5, per: session, window: session, cost: 1}
`

func gateBudgets() gate {
	who := func(id, tenant string) helm.Caller { return helm.Caller{ID: id, Tenant: tenant} }
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "pay", Args: []byte(`{"amount":1}`), Session: "s",
			Caller: who("ann", "acme")}, []string{budgetBundle})
		s.good.Driver = s.World
		return s
	}
	unclear := func(k kind, name, budget string, f func(in *helm.Intent)) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonBudgetError, rule: "P1:bank:" + budget,
			change: altered(f)}
	}
	amount := func(k kind, name, amount string) attack {
		return unclear(k, "an amount: "+name, "money",
			func(in *helm.Intent) { in.Args = []byte(`{"amount":` + amount + `}`) })
	}
	exceeded := func(k kind, name, budget string, do func(s *target, in helm.Intent) answer) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonBudgetExceeded, rule: "P1:bank:" + budget, do: do,
			ends: true}
	}
	// spend makes n calls.
	spend := func(s *target, n int, f func(i int, in *helm.Intent)) {
		for i := range n {
			s.admit(func(in *helm.Intent) { f(i, in) })
		}
	}
	// of one caller
	calls := func(i int, in *helm.Intent) { in.Session = fmt.Sprint("s", i) }
	// of one tenant
	money := func(i int, in *helm.Intent) { calls(i, in); in.Caller.ID = fmt.Sprint("c", i) }
	// of one session
	talk := func(i int, in *helm.Intent) { in.Caller = who(fmt.Sprint("c", i), fmt.Sprint("t", i)) }
	// all but the tenant
	fresh := func(in *helm.Intent) { in.Session, in.Caller = "fresh", who(in.Caller.ID+"2", in.Caller.Tenant) }
	return gate{name: "3 the budgets", stage: stage, spared: map[kind]string{
		null:    "an amount that is null is no number: SCHEMA_VIOLATION",
		retyped: "an amount that is a text is no number: SCHEMA_VIOLATION",
	}, attacks: []attack{
		unclear(omitted, "caller", "calls", func(in *helm.Intent) { in.Caller.ID = "" }),
		unclear(omitted, "tenant", "money", func(in *helm.Intent) { in.Caller.Tenant = "" }),
		unclear(omitted, "session", "talk", kerneltest.InSession("")),
		unclear(elsewhere, "the session of those that have none", "talk", kerneltest.InSession("main")),
		unclear(emptied, "caller and tenant", "money", func(in *helm.Intent) { in.Caller = helm.Caller{} }),
		amount(plain, "below zero", "-1"),
		amount(plain, "a part of a cent", "4.355"),
		amount(plain, "hardly anything", "1e-300"),

		{kind: oversize, name: "more than is left", reason: contracts.ReasonBudgetExceeded, rule: "P1:bank:money",
			change: arguments(`{"amount":9.01}`)},
		{kind: oversize, name: "more than there ever is", reason: contracts.ReasonBudgetExceeded, rule: "P1:bank:money",
			change: arguments(`{"amount":1e6}`)},
		{kind: oversize, name: "more than can be counted", reason: contracts.ReasonBudgetExceeded,
			rule: "P1:bank:money", change: arguments(`{"amount":1e300}`)},
		exceeded(replayed, "a call too many", "calls", func(s *target, in helm.Intent) answer {
			spend(s, 3, calls)
			return s.guard(in)
		}),
		exceeded(replayed, "a call too many, after a restart", "calls", func(s *target, in helm.Intent) answer {
			spend(s, 3, calls)
			s.Reopen()
			return s.guard(in)
		}),
		exceeded(replayed, "a call too many, after a version that changes nothing", "calls",
			func(s *target, in helm.Intent) answer {
				spend(s, 3, calls)
				s.swapTo(strings.Replace(budgetBundle, "version: 1", "version: 2", 1))
				return s.guard(in)
			}),
		exceeded(replayed, "a call too many, the tool of the others having failed", "calls",
			func(s *target, in helm.Intent) answer {
				return afterThree(s, in, kerneltest.NoOutput(kerneltest.ErrTool))
			}),
		exceeded(elsewhere, "a caller's last calls, in another session", "calls",
			func(s *target, in helm.Intent) answer {
				spend(s, 3, calls)
				in.Session = "another"
				return s.guard(in)
			}),
		exceeded(elsewhere, "a caller's last calls, with another role", "calls",
			func(s *target, in helm.Intent) answer {
				spend(s, 3, calls)
				in.Session, in.Caller.Roles = "another", append([]string{"bystander"}, in.Caller.Roles...)
				return s.guard(in)
			}),
		exceeded(elsewhere, "a tenant's money, by another caller in another session", "money",
			func(s *target, in helm.Intent) answer {
				spend(s, 9, money)
				fresh(&in)
				return s.guard(in)
			}),
		exceeded(elsewhere, "a session's calls, by another caller of another tenant", "talk",
			func(s *target, in helm.Intent) answer {
				spend(s, 4, talk)
				in.Caller = who("eve", "umbrella")
				return s.guard(in)
			}),
		exceeded(elsewhere, "a tenant's money, by a narrowed kernel", "money", func(s *target, in helm.Intent) answer {
			spend(s, 9, money)
			fresh(&in)
			return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nonly: [pay]\n"), in)
		}),
		exceeded(raced, "the last three calls, by sixteen at once", "calls", func(s *target, in helm.Intent) answer {
			return s.race(in, 16, 3, calls)
		}),
		exceeded(panicking, "what a tool that panicked was charged", "calls", func(s *target, in helm.Intent) answer {
			return afterThree(s, in,
				func(context.Context, contracts.Call) (executor.Result, error) { panic("give it back") })
		}),
		exceeded(plain, "the same hour, at its end", "calls", func(s *target, in helm.Intent) answer {
			spend(s, 3, calls)
			s.ahead.Store(int64(time.Hour - time.Millisecond))
			return s.guard(in)
		}),
	}}
}

// afterThree makes the call after three others ran a driver that does as tool.
func afterThree(s *target, in helm.Intent, tool kerneltest.Tool) answer {
	s.T.Helper()
	others := in
	others.Driver = doing{s.World, tool}
	for range 3 {
		s.guard(others)
	}
	assert.EqualValues(s.T, 3, s.Runs.Swap(0), "runs of the others")
	return s.guard(in)
}
