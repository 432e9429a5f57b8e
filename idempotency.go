package helm

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// A binding is the one call that an idempotency key stands for.
type binding struct {
	caller   contracts.Caller
	tool     string
	args     contracts.Digest
	decision uint64       // index of its decision
	receipt  uint64       // index of its receipt; 0 while it runs
	pending  *pendingCall // nil once it has its receipt
}

// A pendingCall is the outcome of a call that still runs, for the repeats that wait for it.
type pendingCall struct {
	done     chan struct{} // closed when decision and receipt are set
	decision Decision
	receipt  Receipt
}

// matches reports whether a call with these inputs repeats the bound one.
func (b *binding) matches(in *contracts.Inputs) bool {
	return b.tool == in.Tool && b.args == in.ArgsHash && b.caller.Equal(in.Caller)
}

// await waits for the outcome, which the caller may change. It reports false if done is closed
// before there is one.
func (p *pendingCall) await(done <-chan struct{}) (Decision, Receipt, bool) {
	select {
	case <-p.done:
	case <-done:
		select {
		case <-p.done: // it counts, even if the context has ended too
		default:
			return Decision{}, Receipt{}, false
		}
	}
	return p.decision.clone(), p.receipt.clone(), true
}

// recall reads the outcome of a bound call back. The output is there only if outputs are kept. The
// store is not trusted: it must return the very entries of that call, because the entries of other
// calls are signed too.
func (b *binding) recall(ctx context.Context, from logReader, trust *registry.State) (Decision, Receipt) {
	d, r, err := b.entries(ctx, from, trust)
	if err != nil {
		return Decision{Reason: contracts.ReasonOutputNotKept, cause: err}, Receipt{}
	}
	if d.Reason == contracts.ReasonToolError {
		const failed = "helm: %s: the tool failed, when this call was first made; its error was not kept"
		d.toolError = fmt.Errorf(failed, b.tool)
	}
	if r.Record.OutputHash == nil || d.Reason != contracts.ReasonAllow && d.Reason != contracts.ReasonToolError {
		return d, r
	}
	output, err := from.blob(ctx, *r.Record.OutputHash)
	switch {
	case err == nil && crypto.Sum(output) == *r.Record.OutputHash:
		r.Output = append([]byte{}, output...) // not nil, though it be the empty text
		return d, r
	case d.Reason == contracts.ReasonToolError:
		return d, r
	case errors.Is(err, proofgraph.ErrNoBlob):
		d.Why, err = "the first call's output was not kept: Options.Keep.Outputs keeps outputs", nil
	}
	d.Verdict, d.Reason, d.cause = contracts.Deny, contracts.ReasonOutputNotKept, err
	return d, r
}

// entries reads and verifies the decision and the receipt.
func (b *binding) entries(
	ctx context.Context, from logReader, trust *registry.State,
) (d Decision, r Receipt, err error) {
	defer contain.Error(&err, "Options.Store")
	decision, err := from.entry(ctx, b.decision)
	if err != nil {
		return d, r, err
	}
	if d.Record, err = receipts.OpenDecision(decision, trust, b.decision); err != nil {
		return d, r, err
	}
	if r.Entry, err = from.entry(ctx, b.receipt); err != nil {
		return d, r, err
	}
	if r.Record, err = receipts.Open(r.Entry, trust, b.receipt); err != nil {
		return d, r, err
	}
	d.Verdict, d.Reason, r.Index = r.Record.Verdict, r.Record.Reason, b.receipt
	return d, r, nil
}
