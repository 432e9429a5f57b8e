package helm

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// run makes the permit of a durable permission and spends it.
func (c *call) run(p *placement) (o executor.Outcome) {
	defer func() {
		if x := recover(); x != nil { // not the driver's, which the executor contains
			o = executor.Outcome{Reason: contracts.ReasonToolPanic, Err: contain.Describe("running the tool", x)}
		}
		if o.Reason == contracts.ReasonFailClosedError {
			// The executor called nothing: a fault of ours, of which the log must not say less.
			o.Reason = contracts.ReasonToolPanic
		}
	}()
	in := &c.inputs
	permitted := contracts.Call{Tool: in.Tool, Args: c.buffers.args, Session: in.Session, Caller: in.Caller}
	permit, err := executor.Admit(p.slot, permitted)
	if err != nil {
		return executor.Outcome{Reason: contracts.ReasonToolPanic, Err: err}
	}
	x := &p.run
	x.limits, _ = c.policy.Limits(in.Tool)
	decision := contracts.Ref{Index: p.slot.Index(), Hash: p.slot.Hash()}
	ctx := newDriverContext(c.ctx, c.context, c.k, p.session, in, decision)
	x.call = &ctx.call
	l := executor.Limits{Timeout: x.limits.Timeout, Output: x.limits.Output}
	if c.policy.HasOutput(in.Tool) {
		policy, tool := c.policy, in.Tool
		l.Check = func(output crypto.Value) bool {
			why, ok := policy.CheckOutput(tool, output)
			if !ok {
				x.drift = why.String()
				return false
			}
			x.facts, _ = policy.Facts(tool, output)
			return true
		}
	}
	if c.k.shared.options.Observe != nil {
		began := time.Now()
		defer func() { c.took = max(time.Since(began), 1) }() // a run is never 0
	}
	if c.bound.Cell != nil {
		o = executor.RunCell(ctx, permit, c.bound.Cell, l)
	} else {
		o = executor.Run(ctx, permit, c.bound.driver, l)
	}
	if o.Late != nil {
		o.Late(c.late(p))
	}
	return o
}

// sandbox returns what the receipt says of the sandbox that the call was judged by, if there was
// one: the gas that is known to have been used, and at most what was granted. Of a run that nobody
// metered to its end none is known.
func (c *call) sandbox(o *executor.Outcome) *contracts.SandboxUse {
	in := c.inputs.Sandbox
	if in == nil {
		return nil
	}
	use := &contracts.SandboxUse{Grants: in.GrantsHash(), Module: in.Module, Profile: in.Profile}
	if in.Grants == nil || o.Reason == contracts.ReasonToolPanic {
		return use
	}
	use.Gas = in.Grants.Filled().Gas
	if o.Reason != contracts.ReasonGasExhausted {
		use.Gas = min(use.Gas, o.Gas)
	}
	return use
}

// An execution has the details of a run that its outcome lacks.
type execution struct {
	call   *runningCall // nil until the driver is called
	limits guardian.Limits
	drift  string // where the output left its pinned schema
	facts  []byte // the facts document of the output; nil if the tool declares no facts
}

// signals returns the threat signals in an output that is released, if the policy of the decision
// has them looked for.
func (c *call) signals(o *executor.Outcome) ([]string, error) {
	tool, released := c.inputs.Tool, o.Reason == contracts.ReasonAllow || o.Reason == contracts.ReasonToolError
	switch {
	case !released || o.Form == "" || !c.policy.ScansOutputs(tool):
		return nil, nil
	case o.Form == "raw":
		return c.policy.RawSignals(tool, o.Output), nil
	}
	var tree crypto.Tree
	if err := tree.Parse(o.Output, crypto.Limits{Bytes: len(o.Output), Depth: crypto.MaxDepth}); err != nil {
		return nil, err
	}
	return c.policy.Signals(tool, tree.Root()), nil
}

// why returns the place of the fault in a run that has no output.
func (x *execution) why(reason contracts.ReasonCode) string {
	switch reason {
	case contracts.ReasonOutputExhausted:
		return fmt.Sprintf("output: longer than the tool's limit of %d bytes", x.limits.Output)
	case contracts.ReasonToolTimeout:
		return fmt.Sprintf("the tool's time limit of %v is over", x.limits.Timeout)
	case contracts.ReasonContractDrift:
		return cmp.Or(x.drift, "output: not the JSON that its pinned schema is of")
	}
	return ""
}

// whyOf returns what is known of a reason by itself, for an answer that nothing else says more of.
func whyOf(reason contracts.ReasonCode) string {
	switch reason {
	case contracts.ReasonFailClosedError:
		return "the permission could not be signed or stored"
	case contracts.ReasonReceiptNotStored:
		return "the receipt could not be signed or stored"
	case contracts.ReasonToolError:
		return "the tool returned an error, or called its output failed"
	case contracts.ReasonToolPanic:
		return "the tool panicked, ended its goroutine, or returned a value without a JSON form"
	case contracts.ReasonToolCanceled:
		return "the caller's context ended while the tool ran"
	case contracts.ReasonGasExhausted, contracts.ReasonTimeExhausted, contracts.ReasonMemoryExhausted:
		return "the limit of the tool's sandbox"
	case contracts.ReasonOutcomeUnknown:
		return "the process that ran the tool ended before it could record how"
	case contracts.ReasonOutputNotKept:
		return "the first call's outcome cannot be read"
	}
	return reason.Meaning()
}

// late counts the goroutine of a driver that was abandoned. It returns a function that counts it
// out and tells the observer, if it ends after all.
func (c *call) late(p *placement) func(executor.Result, error) {
	sh, end := c.k.shared, c.k.shared.abandoned.Add(c.inputs.Tool)
	e := Event{Tool: c.inputs.Tool, Session: c.inputs.Session, ID: p.d.Record.ID, Late: true, Declared: true}
	return func(executor.Result, error) {
		end()
		sh.observe(context.Background(), e)
	}
}

// A keptModule is the module that a receipt names, if modules are kept.
type keptModule struct {
	name  contracts.Digest
	bytes []byte
	first bool // the receipt is the first of this process, in the order of the log, that names it
}

// module returns the module that the receipt is to bring to the store, or nil.
func (c *call) module() *keptModule {
	sh, in := c.k.shared, c.inputs.Sandbox
	if !sh.options.Keep.Modules || in == nil || in.Grants == nil || cell.Module(c.bound.Cell) == nil {
		return nil
	}
	return &keptModule{name: in.Module, bytes: cell.Module(c.bound.Cell)}
}

// conclude signs the receipt of a run while holding the session lock.
func (c *call) conclude(p *placement, o *executor.Outcome) (*proofgraph.Slot, *contracts.Receipt, error) {
	sh, s, decision := c.k.shared, p.session, p.slot.Hash()
	result := receipts.Result{Reason: o.Reason, Output: o.Output, Form: o.Form, Sandbox: c.sandbox(o)}
	if len(p.d.Record.Charges) > 0 {
		result.Refunds = c.policy.Refunds(c.inputs.Tool, o.Reason)
	}
	var err error
	if o.Reason == contracts.ReasonAllow && p.run.facts != nil {
		result.Facts = p.run.facts
		if _, err = contracts.ParseFacts(result.Facts); err != nil {
			return nil, nil, err
		}
	}
	if result.Signals, err = c.signals(o); err != nil {
		return nil, nil, err
	}
	receipt, err := receipts.Build(&p.d.Record, decision, result)
	if err != nil {
		return nil, nil, err
	}
	r := &c.drafts.receipt
	r.statement.Receipt, r.charges = receipt, p.d.Record.Charges
	r.parents = append(r.parent[:0], decision)
	r.blobs = r.blob[:0]
	if sh.options.Keep.Outputs && receipt.OutputHash != nil {
		r.blobs = append(r.blobs, o.Output)
	}
	if receipt.FactsHash != nil { // facts are always kept: later judgements ask for them
		r.blobs = append(r.blobs, result.Facts)
	}
	r.module = c.module()
	if receipt.Outcome != contracts.Withheld { // nothing of it was released
		r.taints, r.labels = c.policy.Marks(receipt.Tool, receipt.Signals)
	}
	r.decision = p.slot.Index()
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := sh.record(s, r)
	if err == nil && sh.joined && !s.returned(p.slot.Index()) { // it is read with the entries before it
		return slot, receipt, nil
	}
	if err == nil && receipt.Outcome == contracts.Executed {
		policy := c.k.current()
		for _, pointers := range policy.Compared(receipt.Tool) {
			s.past.Watch(receipt.Tool, pointers)
		}
		if s.chain.Session() != contracts.DefaultSession { // nothing asks the session "main" for receipts
			s.past.WatchFacts(receipt.Tool, policy.Asked(receipt.Tool))
			s.past.Execute(past.Run{
				Tool:     receipt.Tool,
				Decision: p.slot.Index(),
				Receipt:  slot.Index(),
				Entry:    slot.Hash(),
				Time:     s.chain.Time(),
			}, c.inputs.Args, past.Facts{Digest: receipt.FactsHash, Document: result.Facts})
		}
	}
	return slot, receipt, err
}
