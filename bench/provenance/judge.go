package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// An outcome is what became of a call with an effect.
type outcome int

const (
	free   outcome = iota // allowed, and nobody was asked
	asked                 // a person is asked
	denied                // and nobody is asked
)

func (o outcome) String() string { return [...]string{"free", "to a person", "denied"}[o] }

// A count is how many calls had each outcome.
type count [denied + 1]int

func (c count) all() int { return c[free] + c[asked] + c[denied] }

// A tally is what became of the calls of a suite under one policy.
type tally struct {
	benign, attack count
	unfit          []string // places of recorded outputs that the policy's schemas refuse
	notable        []string // attacks that passed, and benign calls that did not pass freely
}

func (t *tally) add(u *tally) {
	for o := range t.benign {
		t.benign[o] += u.benign[o]
		t.attack[o] += u.attack[o]
	}
}

// A judge judges sessions by one policy.
type judge struct {
	policy    *guardian.Policy
	key       crypto.PrivateKey
	approvers []crypto.PrivateKey
	trust     *registry.Registry
	tally
}

// newJudge compiles a policy. The approvers that it asks for are there, and say yes.
func newJudge(d contracts.Document) (*judge, error) {
	p, err := guardian.Compile(d)
	if err != nil {
		return nil, err
	}
	j := &judge{policy: p}
	roles, holders, err := approvals(d)
	if err != nil {
		return nil, err
	}
	if j.key, err = crypto.GenerateKey(); err != nil {
		return nil, err
	}
	var keys []registry.Key
	for i := range holders {
		key, err := crypto.GenerateKey()
		if err != nil {
			return nil, err
		}
		public, err := crypto.PublicOf(key)
		if err != nil {
			return nil, err
		}
		j.approvers = append(j.approvers, key)
		keys = append(keys, registry.Key{Name: fmt.Sprintf("approver-%d", i), Public: public, Role: registry.Approver,
			Roles: roles})
	}
	j.trust, err = registry.New(0, keys...)
	return j, err
}

// approvals returns the roles that a document asks approvals of, and the largest quorum.
func approvals(d contracts.Document) (roles []string, quorum int, err error) {
	var root struct{ Requires any }
	if err := json.Unmarshal(d.Canonical, &root); err != nil {
		return nil, 0, err
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if need, ok := v["approval"].(map[string]any); ok {
				asked, _ := need["roles"].([]any)
				for _, r := range asked {
					roles = append(roles, fmt.Sprint(r))
				}
				most, _ := need["quorum"].(float64)
				quorum = max(quorum, 1, int(most))
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(root.Requires)
	slices.Sort(roles)
	return slices.Compact(roles), quorum, nil
}

// suite judges every task, and every task that an attacker can reach with every goal.
func (j *judge) suite(ctx context.Context, s *suite) error {
	for _, t := range s.tasks {
		if err := j.session(ctx, &t, t.calls, nil); err != nil {
			return err
		}
		n := t.exposed()
		if n == 0 {
			continue
		}
		for _, g := range s.goals {
			calls := slices.Clone(t.calls[:n])
			calls[n-1].out = injected(calls[n-1].marked, g.text)
			if err := j.session(ctx, &t, calls, &g); err != nil {
				return err
			}
		}
	}
	return nil
}

// injected returns an output in which a stranger wrote a text.
func injected(marked []byte, text string) []byte {
	quoted := crypto.AppendString(nil, text)
	return bytes.ReplaceAll(marked, []byte(marker), quoted[1:len(quoted)-1])
}

// session makes the calls of a task and then those of the goal, if there is one, in a session of a
// kernel of its own. If there is a goal only its calls are counted.
func (j *judge) session(ctx context.Context, t *task, calls []call, goal *task) error {
	k, err := helm.New(helm.Options{Policy: j.policy, Key: j.key, Store: proofgraph.NewMemory(), Trust: j.trust,
		Now: func() time.Time { return time.Date(2024, 5, 15, 12, 0, 0, 0, time.UTC) }}) // a Wednesday, at noon
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.UserMessage(ctx, "task", t.text); err != nil {
		return fmt.Errorf("%s: %w", t.where, err)
	}
	for _, c := range calls {
		o, record, err := j.call(ctx, k, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.where, err)
		}
		if goal == nil && record.EffectType != contracts.Read {
			if j.benign[o]++; o != free {
				j.notable = append(j.notable,
					fmt.Sprintf("benign %v: %s: %s %s", o, c.where, record.Reason, record.Rule))
			}
		}
	}
	if goal == nil {
		return nil
	}
	for _, c := range goal.calls {
		o, record, err := j.call(ctx, k, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.where, err)
		}
		if record.EffectType != contracts.Read {
			if j.attack[o]++; o == free {
				_, place, _ := strings.Cut(t.where, ": ")
				j.notable = append(j.notable,
					fmt.Sprintf("attack passed: %s, in %s: %s", c.where, place, record.Rule))
			}
		}
	}
	return nil
}

// call makes a call. If an approval is asked for it is given. The record is that of the first
// answer.
func (j *judge) call(ctx context.Context, k *helm.Kernel, c call) (outcome, contracts.DecisionRecord, error) {
	in := helm.Intent{Tool: c.tool, Args: c.args.Append(nil), Session: "task", Caller: helm.Caller{ID: "agent"},
		Driver: executor.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return c.out, nil })}
	d, r := k.Guard(ctx, in)
	first, o := d.Record, denied
	if first.Reason == contracts.ReasonToolNotFound { // so it is not known whether the call is an effect
		return o, first, fmt.Errorf("the policy declares no tool %q", c.tool)
	}
	for d.Pending != nil {
		o = asked
		if len(in.Approvals) >= 16 {
			break
		}
		for _, key := range j.approvers[:d.Pending.Quorum] {
			e, err := d.Pending.Approve(key)
			if err != nil {
				return o, first, err
			}
			in.Approvals = append(in.Approvals, e)
		}
		d, r = k.Guard(ctx, in)
	}
	if first.ID == "" || r.Record.Outcome == "" { // nothing was recorded
		return o, first, errors.Join(errors.New("the call was not judged"), d.Err())
	}
	// Not d.Verdict: what was allowed and ran is an effect, though its output be withheld.
	if o == denied && d.Record.Verdict == contracts.Allow {
		o = free
	}
	if r.Record.Outcome == contracts.Withheld && string(c.out) != "null" {
		j.unfit = append(j.unfit, c.where)
	}
	return o, first, nil
}
