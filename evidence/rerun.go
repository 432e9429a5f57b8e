package evidence

import (
	"context"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/guardian"
)

const (
	rerunGas    = 1_000_000_000_000 // for all runs of a log, if Options.RerunGas is zero
	heldModules = 64 << 20          // bytes of modules; the latest is held in any case
	heldPages   = 2 << 30 >> 16     // of memory, granted to the runs that are under way
)

// A rerunner has calls run again that ran in a closed sandbox: the check RERUN. A run begins when
// its receipt is read, and several may be under way while the log is read on. Their results are
// taken in log order, on the goroutine that reads.
type rerunner struct {
	replay  *replayer
	ctx     context.Context // of the runs
	cancel  context.CancelFunc
	run     contracts.Rerun // nil: nothing is run
	limit   uint64          // gas of all runs
	gas     uint64          // of the runs so far, and of those that would have exceeded the limit
	workers int
	most    struct{ modules, pages int }
	queue   *inorder.Queue[rerun] // nil: nothing was to be run so far
	pages   int                   // granted to the runs in it
	modules map[contracts.Digest][]byte
	bytes   int // of modules
	report  Rerun
	bad     *Error // the first fault
	failed  *Error // the first call that could not be run
}

// A rerun is a call to be run again, and what it returned.
type rerun struct {
	call     contracts.Rerunnable
	policy   *guardian.Policy // that allowed the call; nil: there is no call
	index    uint64           // of the receipt
	was      result
	unpinned bool // no demand of the policy lists the module

	now           result
	held, metered bool
	err           error
}

// A result is what RERUN compares.
type result struct {
	reason contracts.ReasonCode
	gas    uint64
	form   string // of the output; "": there is none
	output contracts.Digest
}

func newRerunner(replay *replayer, o *Options, workers int) rerunner {
	q := rerunner{replay: replay, run: o.Rerun, limit: o.RerunGas, workers: workers}
	if q.limit == 0 {
		q.limit = rerunGas
	}
	q.most.modules, q.most.pages = heldModules, heldPages
	return q
}

// begin is called once, before calls are run again. After it end must be called.
func (q *rerunner) begin(ctx context.Context) { q.ctx, q.cancel = context.WithCancel(ctx) }

// end ends the runs that are under way, and returns when they have ended.
func (q *rerunner) end() {
	q.cancel()
	if q.queue != nil {
		q.queue.End()
	}
}

// again counts the receipt of a sandbox, and has its call run again if that can be. Blobs that were
// read earlier are no longer valid.
func (q *rerunner) again(x *contracts.Receipt, call *pending) *Error {
	r, s := q.replay, x.Sandbox
	switch {
	case q.run == nil, s == nil, s.Profile == contracts.ProfileReported:
		return nil
	case r.bad != nil, r.blobs.bad != nil: // the answer, whatever ran
		return nil
	case call.box != nil && !call.box.closed:
		q.report.Open++
		return nil
	case x.Outcome == contracts.Indeterminate,
		x.Reason == contracts.ReasonTimeExhausted, x.Reason == contracts.ReasonToolPanic:
		q.report.Ended++
		return nil
	}
	run, f := q.rerunnable(x, call)
	switch {
	case f != nil:
		return f
	case run == nil:
		q.report.NotKept++
		return nil
	}
	return q.push(run)
}

// rerunnable returns what a call is run again with, or nil if its inputs or its policy are not at
// hand.
func (q *rerunner) rerunnable(x *contracts.Receipt, call *pending) (*rerun, *Error) {
	r := q.replay
	if call.box == nil {
		return nil, nil // the inputs are not kept
	}
	p, f := r.stack(call.policy)
	if f != nil || p.policy == nil {
		return nil, f
	}
	in, f := r.reread.inputsOf(call.index, call.box.inputs)
	if f != nil || in == nil {
		return nil, f
	}
	run := &rerun{policy: p.policy, index: r.fold.size(), call: contracts.Rerunnable{
		Module:   in.Sandbox.Module,
		Meter:    in.Sandbox.Meter,
		Grants:   *in.Sandbox.Grants,
		Tool:     in.Tool,
		Args:     in.Args.Append(nil),
		Decision: x.DecisionHash,
		Time:     in.Time,
	}}
	run.was = result{reason: x.Reason, gas: x.Sandbox.Gas, form: x.OutputForm}
	if x.OutputHash != nil {
		run.was.output = *x.OutputHash
	}
	// As much as was used is enough. No module runs for nothing, and zero would stand for more.
	run.call.Grants.Gas = max(run.was.gas, 1)
	run.unpinned = !slices.ContainsFunc(p.policy.Sandboxes(in.Tool), func(d guardian.Demand) bool {
		return slices.Contains(d.Modules, in.Sandbox.Module)
	})
	run.call.Bytes, f = q.module(in.Sandbox.Module)
	return run, f
}

// module returns the bytes of a module, or nil if they are not there. The runs that are under way
// have those that are held.
func (q *rerunner) module(d contracts.Digest) ([]byte, *Error) {
	if b, ok := q.modules[d]; ok {
		return b, nil
	}
	b, _, f := q.replay.blobs.content(d, q.replay.blobs.far)
	if f != nil || b == nil {
		return nil, f
	}
	if q.bytes+len(b) > q.most.modules {
		if f := q.drain(); f != nil {
			return nil, f
		}
		q.modules, q.bytes = nil, 0
	}
	if q.modules == nil {
		q.modules = map[contracts.Digest][]byte{}
	}
	b = slices.Clone(b)
	q.modules[d] = b
	q.bytes += len(b)
	return b, nil
}

// push hands a call over to be run again, if that is within the gas of all runs. What was recorded
// counts, so that which calls are run does not depend on how they go.
func (q *rerunner) push(run *rerun) *Error {
	if run.call.Grants.Gas > q.limit-q.gas {
		q.gas = q.limit
		q.report.Over++
		return nil
	}
	q.gas += run.call.Grants.Gas
	if q.queue == nil {
		q.queue = inorder.New(q.workers, 2*q.workers, q.work, func() func(*rerun) { return q.work }, q.take)
	}
	pages := int(run.call.Grants.Memory)
	if q.pages > 0 && q.pages+pages > q.most.pages {
		if f := q.drain(); f != nil {
			return f
		}
	}
	q.pages += pages
	*q.queue.Next() = *run
	return ended(q.queue.Push())
}

// drain returns when no run is under way.
func (q *rerunner) drain() *Error {
	if q.queue == nil {
		return nil
	}
	return ended(q.queue.Drain())
}

// finish returns when nothing is run any more, with the first fault.
func (q *rerunner) finish() *Error {
	if f := q.drain(); f != nil {
		return f
	}
	if q.bad == nil {
		return q.failed
	}
	return q.bad
}

// ended returns the error of the queue: the context ended.
func ended(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{Check: ErrRerun, Entry: -1, What: "it was ended", Err: err}
}

// work runs a call again. It is called on any goroutine.
func (q *rerunner) work(run *rerun) {
	if run.policy == nil {
		return
	}
	got, err := q.run(q.ctx, run.call)
	run.held, run.metered, run.err = got.Held, got.Metered, err
	run.now = result{reason: got.Reason, gas: got.Gas}
	if got.Reason == contracts.ReasonAllow {
		run.release(got.Output)
	}
	run.call.Bytes, run.call.Args = nil, nil
}

// release does with an output what the executor does: it may be longer than the tool's limit, and
// not conform to the response schema that the tool pins. It is text if it is not strict JSON.
func (x *rerun) release(output []byte) {
	limits, _ := x.policy.Limits(x.call.Tool)
	pinned := x.policy.HasOutput(x.call.Tool)
	none := len(output) == 0
	if len(output) > limits.Output {
		x.now.reason = contracts.ReasonOutputExhausted
		return
	}
	if none {
		output = []byte("null")
	}
	var tree crypto.Tree
	conforms := false
	x.now.form = "raw"
	if tree.Parse(output, crypto.Limits{Bytes: len(output), Depth: crypto.MaxDepth}) == nil {
		x.now.form = "jcs"
		output = tree.Root().Append(nil)
		if len(output) > limits.Output && !none {
			x.now.reason, x.now.form = contracts.ReasonOutputExhausted, ""
			return
		}
		_, conforms = x.policy.CheckOutput(x.call.Tool, tree.Root())
	}
	if pinned && !conforms {
		x.now.reason = contracts.ReasonContractDrift
	}
	x.now.output = crypto.Sum(output)
}

// take compares the result of a run with the receipt. It is called in log order.
func (q *rerunner) take(run *rerun) error {
	x := *run
	*run = rerun{}
	q.pages -= int(x.call.Grants.Memory)
	switch field := x.differs(); {
	case x.policy == nil:
	case x.err != nil && q.ctx.Err() != nil:
		return q.ctx.Err()
	case x.err != nil && q.failed == nil:
		q.failed = &Error{Check: ErrRerun, Entry: int64(x.index), Field: "predicate.sandbox",
			What: "the call could not be run again", Err: x.err}
	case x.err != nil:
	case !x.held:
		q.report.NotKept++
	case !x.metered:
		q.report.OtherMeter++
	case field != "":
		q.report.Differing++
		if q.bad == nil {
			q.bad = errorAt(x.index, ErrRerun, "predicate."+field,
				"not what the module returns when the call is run again")
		}
	default:
		q.report.Same++
		if x.unpinned {
			q.report.Unpinned++
		}
	}
	return nil
}

// differs returns the first field in which the results differ.
func (x *rerun) differs() string {
	was, now := x.was, x.now
	switch {
	case was.reason != now.reason:
		return "reason"
	case was.form != now.form:
		return "outputForm"
	case was.output != now.output:
		return "outputHash"
	case was.gas != now.gas:
		return "sandbox.gas"
	}
	return ""
}
