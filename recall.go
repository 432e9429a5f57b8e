package helm

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// recall reads a first outcome back. Its output is there only if outputs are kept. The store is not trusted to have kept what was signed, and
// what it hands out must be the very entries of that call: those of others are signed, too.
func (c *call) recall(o *once) (d Decision, r Receipt) {
	var err error
	if trouble := contained("Options.Store", func() { d, r, err = c.reread(o) }); trouble != nil {
		err = trouble
	}
	if err != nil {
		return Decision{Reason: contracts.ReasonOutputNotKept, cause: err}, Receipt{}
	}
	if d.Reason == contracts.ReasonToolError {
		d.own = fmt.Errorf("helm: %s: the tool failed, when this call was first made; its error was not kept", c.inputs.Tool)
	}
	if d.Reason != contracts.ReasonAllow {
		return d, r
	}
	var output []byte
	if trouble := contained("Options.Store", func() { output, err = c.options.Store.Blob(context.WithoutCancel(c.ctx), *r.Record.OutputHash) }); trouble != nil {
		err = trouble
	}
	switch {
	case err == nil && crypto.Sum(output) == *r.Record.OutputHash:
		r.Output = output
		return d, r
	case errors.Is(err, proofgraph.ErrNoBlob):
		d.Why, err = "the first call's output was not kept: Options.Keep.Outputs keeps outputs", nil
	}
	d.Verdict, d.Reason, d.cause = contracts.Deny, contracts.ReasonOutputNotKept, err
	return d, r
}

// reread takes decision and receipt from the store.
func (c *call) reread(o *once) (d Decision, r Receipt, err error) {
	entry, err := c.entry(context.WithoutCancel(c.ctx), o.decision)
	if err != nil {
		return d, r, err
	}
	if d.Record, err = receipts.OpenDecision(entry, c.state, o.decision); err != nil {
		return d, r, err
	}
	if r.Entry, err = c.entry(context.WithoutCancel(c.ctx), o.receipt); err != nil {
		return d, r, err
	}
	if r.Record, err = receipts.Open(r.Entry, c.state, o.receipt); err != nil {
		return d, r, err
	}
	d.Verdict, d.Reason, r.Index = r.Record.Verdict, r.Record.Reason, o.receipt
	return d, r, nil
}

// entry reads the one that was written at that index.
func (k *Kernel) entry(ctx context.Context, index uint64) (contracts.Entry, error) {
	for e, err := range k.options.Store.Entries(ctx, index, index+1) {
		if err != nil {
			return nil, err
		}
		if at, ok := k.log.Lookup(e.Hash()); !ok || at != index {
			return nil, errors.New("the store's entry is not the one that was written there")
		}
		return e, nil
	}
	return nil, errors.New("the store lacks the entry")
}
