// Package explained judges the recorded calls of a log again, for those who ask what was evaluated:
// package policytest counts it, failures of policytest and helmtest print the steps that decided,
// and the command prints all of them.
package explained

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Walk returns the trust state at the end of a log that began with trust. It calls see, if it is
// not nil, for each entry with the state there, but for entries of which only stubs are left. It
// verifies nothing.
func Walk(
	ctx context.Context, log proofgraph.Store, trust *registry.State,
	see func(index uint64, st *contracts.Statement, state *registry.State) error,
) (*registry.State, error) {
	size, err := log.Size(ctx)
	if err != nil {
		return nil, err
	}
	origin, next := "", uint64(0)
	var r contracts.Reader
	for e, err := range log.Entries(ctx, 0, size) {
		if err != nil {
			return nil, err
		}
		index := next
		if next++; contracts.IsStub(e) {
			continue // of a call that ended
		}
		sealed, err := r.Open(e)
		if err != nil {
			return nil, err
		}
		st, err := sealed.Statement()
		if err != nil {
			return nil, err
		}
		if st.Genesis != nil {
			origin = st.Genesis.Origin
		}
		if see != nil {
			if err := see(index, st, trust); err != nil {
				return nil, err
			}
		}
		if st.Trust != nil {
			if trust, err = trust.Apply(st.Trust, origin, index); err != nil {
				return nil, err
			}
		}
	}
	return trust, nil
}

// Calls explains every call of a log that a policy judged, in their order, but for those of which
// only stubs are left. A call that none of the policies judged is an error, and so is a record that
// is another than the one in the log. Those of the kernel's own are left out.
func Calls(
	ctx context.Context, log proofgraph.Store, trust *registry.State, policies []*guardian.Policy, values bool,
	see func(*contracts.DecisionRecord, guardian.Trace),
) error {
	by := map[contracts.Digest]*guardian.Policy{}
	for _, p := range policies {
		by[p.Hash()] = p
	}
	var r contracts.Reader
	_, err := Walk(ctx, log, trust, func(_ uint64, st *contracts.Statement, state *registry.State) error {
		d := st.Judgement()
		if d == nil || d.KernelsOwn() {
			return nil
		}
		pol := by[d.PolicyHash]
		if pol == nil {
			return errors.New("a call was judged by a policy that is not known")
		}
		b, err := log.Blob(ctx, d.InputsHash)
		if err != nil {
			return err
		}
		in, err := r.Inputs(b)
		if err != nil {
			return err
		}
		again, _, trace := pol.Explain(*in, state, guardian.ExplainOptions{Values: values})
		again.ID, again.InputsHash, again.PolicyDecisionHash = d.ID, d.InputsHash, d.PolicyDecisionHash
		if !again.Equal(d) {
			return errors.New("another record of Explain than the one in the log")
		}
		see(d, trace)
		return nil
	})
	return err
}

// Decisive returns the steps that decided a call, with file and line in the documents: those of the
// last rule, or of the nearest if none matched.
func Decisive(trace guardian.Trace, documents []contracts.Document) (lines []string) {
	if len(trace) == 0 {
		return nil
	}
	rule := trace[len(trace)-1].Rule
	if nearest, ok := trace.Nearest(); ok {
		rule = nearest
	}
	for i := range trace {
		x := &trace[i]
		if x.Rule != rule {
			continue
		}
		line := fmt.Sprintf("%s %s: %v", placed(documents, x.Document, x.Pointer), x.Pointer, x.Result)
		for _, read := range x.Reads {
			line += fmt.Sprintf("; %s %s", read.Pointer, read.Type)
			if read.Value != nil {
				line += " " + string(read.Value)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// placed returns file:line of a place in a document.
func placed(documents []contracts.Document, name, pointer string) string {
	for i := range documents {
		if d := &documents[i]; d.Name == name {
			if pos := Position(d.Lines, pointer); pos.Line > 0 {
				return fmt.Sprintf("%s:%d", name, pos.Line)
			}
		}
	}
	return name
}

// Position returns that of a value or, if it has none, of the nearest one around it that has.
func Position(lines map[string]contracts.Pos, at string) contracts.Pos {
	for {
		if pos, ok := lines[at]; ok || at == "" {
			return pos
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
}
