package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/policytest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A question is a call to be explained.
type question struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Session string          `json:"session"`
	Time    *contracts.Time `json:"time"`
	Caller  struct {
		ID     string   `json:"id"`
		Tenant string   `json:"tenant"`
		Roles  []string `json:"roles"`
	} `json:"caller"`
}

func explain(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "explain FILE... --call JSON", Short: "judge one call, and print each step",
		Args: arguments(cobra.MinimumNArgs(1)),
		Long: "Judge one call by a stack, in a new log in which nothing was before, and print each step: condition,\n" +
			"place, rule, and what it came to. No tool runs. The answer is no if the call is denied.",
		Example: `helm policy explain bank.yaml --call '{"tool":"pay","args":{"sum":5},"caller":{"id":"ann"}}'`,
	}
	call := c.Flags().String("call", "", "`JSON` {tool, args, caller {id, tenant, roles}, session, time}; - is stdin")
	values := c.Flags().Bool("values", false, "print values of the call")
	c.RunE = func(c *cobra.Command, files []string) error {
		q, err := readCall(a, c, *call)
		if err != nil {
			return err
		}
		p, err := a.load(files)
		if err != nil {
			return err
		}
		verdict, trace, err := judge(c.Context(), p, q, *values)
		if err != nil {
			return err
		}
		return printSteps(a, p, verdict, trace)
	}
	return c
}

const callForm = `'{"tool":"pay","args":{"sum":5}}'`

// readCall reads the call strictly: a member that is misspelt would be one that is left out.
func readCall(a *app, c *cobra.Command, text string) (q question, err error) {
	b := []byte(text)
	if text == "-" {
		if b, err = a.read(text); err != nil {
			return q, err
		}
	}
	if len(b) == 0 {
		return q, wrongly(c, errors.New("the call is missing: --call "+callForm))
	}
	if err := strict(b, &q); err != nil {
		return q, wrongly(c, fmt.Errorf("--call: %w: it is one JSON object like %s", err, callForm))
	}
	if q.Tool == "" {
		return q, wrongly(c, errors.New("--call: it has no tool: it is like "+callForm))
	}
	if q.Session == "" {
		q.Session = "explain" // main, which all calls share, has no past
	}
	if len(q.Args) == 0 {
		q.Args = json.RawMessage("{}")
	}
	return q, nil
}

// judge has a kernel over a log in memory judge the call.
func judge(
	ctx context.Context, p *guardian.Policy, q question, values bool,
) (*policytest.CallVerdict, guardian.Trace, error) {
	store := proofgraph.NewMemory()
	k, err := kernelFor(p, store, q.Time)
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	trust := k.Trust()
	turn := policytest.Turn{Call: &policytest.Call{Tool: q.Tool, Args: string(q.Args), Recorded: true, Result: "null"}}
	verdicts, err := policytest.Replay{
		Guard: k.Guard, Policy: p, Session: q.Session, Sandbox: sandboxOf(p, q.Tool), Values: values,
		Caller: helm.Caller{ID: q.Caller.ID, Tenant: q.Caller.Tenant, Roles: q.Caller.Roles},
	}.Run(ctx, []policytest.Turn{turn})
	if err != nil {
		return nil, nil, err
	}
	var trace guardian.Trace
	v := &verdicts.Calls[0]
	err = explained.Calls(ctx, store, trust, []*guardian.Policy{p}, values,
		func(d *contracts.DecisionRecord, t guardian.Trace) {
			trace = t
			if d.Verdict == contracts.Allow { // what came of the run is no matter: it was none
				v.Verdict, v.Reason, v.Rule, v.Condition, v.Why = d.Verdict, d.Reason, d.Rule, d.Condition, ""
			}
		})
	return v, trace, err
}

// kernelFor returns a kernel that judges by a policy, now or always at one time.
func kernelFor(p *guardian.Policy, store proofgraph.Store, at *contracts.Time) (*helm.Kernel, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	roots, err := anyRoot()
	if err != nil {
		return nil, err
	}
	now := time.Now
	if at != nil {
		now = func() time.Time { return at.Time() }
	}
	return helm.New(helm.Options{Policy: p, Key: key, Trust: roots, Origin: "explain", Store: store, Now: now})
}

// anyRoot returns a trust state whose root could add the keys that a policy asks for.
func anyRoot() (*registry.Registry, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return nil, err
	}
	return registry.New(1, registry.Key{Name: "root", Public: public, Role: registry.Root})
}

// sandboxOf returns the least sandbox that a tool demands: the question is not what its driver
// would declare.
func sandboxOf(p *guardian.Policy, tool string) *contracts.SandboxInfo {
	info := &contracts.SandboxInfo{Profile: contracts.ProfilePure, Meter: 1, Grants: &contracts.Sandbox{}}
	for _, d := range p.Sandboxes(tool) {
		if d.Name == contracts.ProfileReported {
			return &contracts.SandboxInfo{Profile: contracts.ProfileReported}
		}
		if d.Args {
			info.Grants.Args = d.Grants.Args
		}
		if len(d.Modules) > 0 {
			info.Module = d.Modules[0]
		}
	}
	return info
}

func printSteps(a *app, p *guardian.Policy, v *policytest.CallVerdict, trace guardian.Trace) error {
	text := answerOf(v.Verdict, v.Reason, v.Rule, v.Condition, v.Why, trace) + stepsText(trace, p.Documents())
	value := map[string]any{"verdict": v.Verdict.String(), "reason": v.Reason, "rule": v.Rule, "condition": v.Condition,
		"why": v.Why, "steps": append(guardian.Trace{}, trace...)}
	if err := a.print(text, value); err != nil {
		return err
	}
	if v.Verdict != contracts.Allow {
		return errNo
	}
	return nil
}
