package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/graph"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// why prints one entry: how it was decided, step by step, and the entries that led to it.
func why(a *app, c *cobra.Command, log source, name string) error {
	g, err := graph.Read(c.Context(), log)
	if err != nil {
		return err
	}
	at, err := g.Find(name)
	if err != nil {
		return wrongly(c, fmt.Errorf("--why: %w", err))
	}
	led, err := linesOf(c.Context(), log, g.Ancestors(at, graph.Causes))
	if err != nil {
		return err
	}
	x := led[len(led)-1] // its own: nothing later led to it
	causes := led[:len(led)-1]
	judged := at
	for _, cause := range causes {
		if cause.Hash == x.decision { // a receipt of a call that ran: its decision is another entry
			judged = cause.Index
		}
	}
	steps, record, lack := stepsOf(c.Context(), log, judged)
	if lack != nil && c.Context().Err() != nil {
		return lack
	}
	var text strings.Builder
	fmt.Fprintln(&text, a.text(x))
	v := struct {
		*line
		Caller    *contracts.Caller `json:"caller,omitempty"`
		Condition int               `json:"condition,omitempty"`
		Steps     guardian.Trace    `json:"steps"`
		Lacks     string            `json:"lacks,omitempty"`
		Causes    []*line           `json:"causes"`
	}{line: x, Steps: append(guardian.Trace{}, steps...), Causes: append([]*line{}, causes...)}
	if record != nil {
		v.Caller, v.Condition = &record.Caller, record.Condition
		fmt.Fprintf(&text, "caller %s", ascii(record.Caller.ID))
		if record.Caller.Tenant != "" {
			fmt.Fprintf(&text, " of %s", ascii(record.Caller.Tenant))
		}
		text.WriteByte('\n')
		text.WriteString(answerOf(record.Verdict, record.Reason, record.Rule, record.Condition, "", steps))
	}
	text.WriteString(stepsText(steps, nil))
	if lack != nil {
		v.Lacks = lack.Error()
		fmt.Fprintf(&text, "no steps: %s\n", ascii(v.Lacks))
	}
	if len(causes) > 0 {
		text.WriteString("\nWhat led to it:\n")
		for _, x := range causes {
			fmt.Fprintln(&text, "  "+a.text(x))
		}
	}
	return a.print(text.String(), v)
}

// linesOf returns the lines of a set of entries, in their order.
func linesOf(ctx context.Context, log source, set graph.Set) (list []*line, err error) {
	for i := range set.All() {
		for e, err := range log.Entries(ctx, i, i+1) {
			if err != nil {
				return nil, err
			}
			x, _, err := read(new(contracts.Reader), e)
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", i, err)
			}
			x.Index = i
			list = append(list, x)
		}
	}
	return list, nil
}

// errFound ends a walk at the entry that was looked for, and errLetGo one after it.
var (
	errFound = errors.New("found")
	errLetGo = errors.New("only the stub of this entry is left: the log let go of it")
)

// stepsOf judges the call of an entry again, and returns the steps and the record. The error says
// what the log lacks for that.
func stepsOf(ctx context.Context, log source, at uint64) (guardian.Trace, *contracts.DecisionRecord, error) {
	trust, err := began(ctx, log)
	if err != nil {
		return nil, nil, err
	}
	policies := map[contracts.Digest]*contracts.PolicyRecord{}
	var steps guardian.Trace
	var record *contracts.DecisionRecord
	see := func(index uint64, st *contracts.Statement, state *registry.State) error {
		if st.Policy != nil {
			p := *st.Policy
			policies[p.Policy] = &p
		}
		switch {
		case index < at:
			return nil
		case index > at:
			return errLetGo
		}
		if record = st.Judgement(); record == nil {
			return errors.New("nothing was judged in this entry")
		}
		if record.KernelsOwn() {
			return errors.New("the kernel refused this call itself, and no policy was asked")
		}
		policy, err := stack(ctx, log, policies[record.PolicyHash])
		if err != nil {
			return err
		}
		if steps, err = again(ctx, log, record, policy, state); err != nil {
			return err
		}
		return errFound
	}
	_, err = explained.Walk(ctx, readOnly{log}, trust, see)
	switch {
	case errors.Is(err, errFound):
		err = nil
	case err == nil: // it is the last
		err = errLetGo
	}
	return steps, record, err
}

// began returns the trust state that a log began with.
func began(ctx context.Context, log source) (*registry.State, error) {
	for e, err := range log.Entries(ctx, 0, 1) {
		if err != nil {
			return nil, err
		}
		_, st, err := read(new(contracts.Reader), e)
		if err != nil {
			return nil, err
		}
		if st == nil || st.Genesis == nil {
			break
		}
		b, err := log.Blob(ctx, st.Genesis.Trust)
		if err != nil {
			return nil, err
		}
		return registry.ParseState(b)
	}
	return nil, errors.New("the log has no genesis")
}

// stack returns the policy that an entry names.
func stack(ctx context.Context, log source, p *contracts.PolicyRecord) (*guardian.Policy, error) {
	if p == nil {
		return nil, errors.New("the log does not say which policy judged the call")
	}
	var docs []contracts.Document
	for _, r := range p.Documents {
		b, err := log.Blob(ctx, r.Digest)
		if err != nil {
			return nil, fmt.Errorf("policy %s:%s: %w", r.Layer, r.Name, err)
		}
		docs = append(docs, contracts.Document{Name: r.Layer + ":" + r.Name, Canonical: b})
	}
	return guardian.CompileFor(p.Engine, docs...)
}

// again judges a call by the policy that judged it.
func again(
	ctx context.Context, log source, d *contracts.DecisionRecord, policy *guardian.Policy, trust *registry.State,
) (guardian.Trace, error) {
	b, err := log.Blob(ctx, d.InputsHash)
	if errors.Is(err, proofgraph.ErrNoBlob) {
		return nil, errors.New("the inputs of the call were erased, or never kept")
	} else if err != nil {
		return nil, err
	}
	in, err := contracts.ParseInputs(b)
	if err != nil {
		return nil, err
	}
	record, _, steps := policy.Explain(*in, trust, guardian.ExplainOptions{})
	record.ID, record.InputsHash, record.PolicyDecisionHash = d.ID, d.InputsHash, d.PolicyDecisionHash
	if !record.Equal(d) {
		return nil, errors.New("judged again the call comes out otherwise: verify the log")
	}
	return steps, nil
}

// readOnly makes of what can be read a store to which nothing can be appended.
type readOnly struct{ source }

func (readOnly) Append(context.Context, proofgraph.Batch) error { return errors.New("read only") }

func (readOnly) Checkpoint(context.Context) ([]byte, error) { return nil, nil }
