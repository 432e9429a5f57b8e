package helmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
)

// A Result is how a call of a [World] came out. Its methods fail the test, and go on, if it came
// out otherwise: once for each Result, since what follows is of the same cause.
type Result struct {
	b        *bench
	intent   helm.Intent
	decision helm.Decision
	receipt  helm.Receipt
	runs     [][]byte
	told     bool // a failure
}

// Allow holds the call to have been allowed: it ran, and what it returned was released, be that an
// output or the tool's own error.
func (r *Result) Allow() *Result {
	r.b.t.Helper()
	return r.want("verdict", "ALLOW", r.decision.Verdict.String())
}

// Deny holds the call to have been denied for a reason. So is one that ran and whose output was
// withheld.
func (r *Result) Deny(reason contracts.ReasonCode) *Result {
	r.b.t.Helper()
	got := r.decision.Verdict.String() + " " + string(r.decision.Reason)
	return r.want("verdict", "DENY "+string(reason), got)
}

// By holds the rule that decided to be this one: its layer, bundle and id, like P1:bank:pay. "" is
// none.
func (r *Result) By(rule string) *Result {
	r.b.t.Helper()
	none := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	return r.want("rule", none(rule), none(r.decision.Record.Rule))
}

// Ran holds what runs for the tool to have run so often in the call: 0 or 1.
func (r *Result) Ran(times int) *Result {
	r.b.t.Helper()
	return r.want("ran", fmt.Sprint(times), fmt.Sprint(len(r.runs)))
}

// Output holds the released output to be this JSON. If that is not strict JSON, the output is these
// bytes.
func (r *Result) Output(want string) *Result {
	r.b.t.Helper()
	form := canonical([]byte(want))
	if bytes.Equal(form, r.receipt.Output) {
		return r
	}
	if testing.Verbose() {
		return r.want("output", string(form), string(r.receipt.Output))
	}
	got := "none"
	if r.receipt.Output != nil {
		got = fmt.Sprintf("another of %d bytes (go test -v shows both)", len(r.receipt.Output))
	}
	return r.want("output", fmt.Sprintf("%d bytes", len(form)), got)
}

// canonical returns the canonical form of JSON, and what is none as it is.
func canonical(b []byte) []byte {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: 128}); err != nil {
		return b
	}
	return tree.Root().Append(nil)
}

// Approve signs the request that the call was denied with, by keys that [New] was given, and makes
// the call again.
func (r *Result) Approve(keys ...string) *Result {
	r.b.t.Helper()
	q := r.decision.Pending
	if q == nil {
		return r.want("approval", "a request", "none")
	}
	in := r.intent
	for _, name := range keys {
		key, ok := r.b.keys[name]
		if !ok {
			r.b.t.Fatalf("helmtest: no key %s: pass helmtest.Key to New", name)
		}
		e, err := q.Approve(key)
		if err != nil {
			r.b.t.Fatalf("helmtest: %v", err)
		}
		in.Approvals = append(in.Approvals[:len(in.Approvals):len(in.Approvals)], e)
	}
	return r.b.guard(in)
}

// want fails the test if the call came out otherwise.
func (r *Result) want(what, wanted, got string) *Result {
	r.b.t.Helper()
	if wanted != got && !r.told {
		r.told = true
		r.b.t.Errorf("%s", r.block(fmt.Sprintf("%s: want %s, got %s", what, wanted, got), testing.Verbose()))
	}
	return r
}

// block is a failure: the call, what differs, how the call came out and the steps that decided.
func (r *Result) block(differs string, values bool) string {
	d := &r.decision
	rule := d.Record.Rule
	if rule == "" {
		rule = "no rule"
	}
	was := fmt.Sprintf("\tit was %v %s at condition %d, %s, ran %d times",
		d.Verdict, d.Reason, d.Record.Condition, rule, len(r.runs))
	lines := []string{r.intent.Tool + " " + r.called(values), "\t" + differs, was}
	if d.Why != "" {
		lines = append(lines, "\twhy: "+d.Why)
	}
	for _, s := range r.b.steps(d.Record.ID, values) {
		lines = append(lines, "\t\t"+s)
	}
	if d.Reason == contracts.ReasonContractDrift && r.b.idle(r.intent.Tool) {
		lines = append(lines, "\tits stub returns null, which the policy refuses: say what runs by World.Tool")
	}
	return strings.Join(lines, "\n")
}

func (b *bench) idle(tool string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools[tool] == nil
}

// steps returns those that decided a call.
func (b *bench) steps(id string, values bool) (lines []string) {
	policies := []*guardian.Policy{b.policy}
	err := explained.Calls(context.Background(), b.store, b.kernel.Trust(), policies, values,
		func(d *contracts.DecisionRecord, trace guardian.Trace) {
			if d.ID == id {
				lines = explained.Decisive(trace, b.policy.Documents())
			}
		})
	if err != nil {
		return []string{err.Error()}
	}
	return lines
}

// called shows the arguments: their values, or the pointers and types of what the tool's schema
// names. A key that it does not name may be a value in the wrong place, so it is not shown.
func (r *Result) called(values bool) string {
	args := r.intent.Args
	if values {
		return string(args)
	}
	var tree crypto.Tree
	if err := tree.Parse(args, crypto.Limits{Bytes: len(args), Depth: 64}); err != nil {
		return fmt.Sprintf("with %d bytes that are not strict JSON", len(args))
	}
	var schema map[string]any
	for _, t := range r.b.policy.Tools() {
		if t.Name == r.intent.Tool {
			_ = json.Unmarshal(t.Input, &schema) // a tool that is not declared names no key
		}
	}
	var list []string
	shapes(tree.Root(), schema, "", &list)
	if len(list) == 0 {
		return tree.Root().Kind().String() + " without members"
	}
	return strings.Join(list, ", ")
}

// shapes adds the pointer and type of each member.
func shapes(v crypto.Value, schema map[string]any, at string, list *[]string) {
	properties, _ := schema["properties"].(map[string]any)
	unknown := 0
	for it := v.Iter(); it.Next(); {
		key, x := string(it.Key()), it.Value()
		below, known := properties[key].(map[string]any)
		if !known {
			unknown++
			continue
		}
		at := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if x.Kind() == crypto.Object && x.Len() > 0 {
			shapes(x, below, at, list)
			continue
		}
		*list = append(*list, at+" "+x.Kind().String())
	}
	if unknown > 0 {
		*list = append(*list, fmt.Sprintf("%d members of %q that the schema does not name", unknown, at))
	}
}
