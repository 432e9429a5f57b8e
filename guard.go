package helm

import (
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// Guard judges a call, runs it if it is admissible, and records both. What it answers is the last word: do not run the tool yourself.
//
// The signed permission is durable before the driver runs, and the receipt before the output is released. Each judged call leaves exactly
// one receipt, a denial too; a repeat of a bound idempotency key, and a call to a sealed or closed kernel, leave none. Any failure to sign
// or to store seals the kernel: every later call is KERNEL_SEALED, and the next [New] over the store reads and settles what is there.
//
// Under the context of a kernel that was narrowed from k it is a call of that one: see [Kernel.Context].
//
// A repeat of a bound idempotency key, by the same caller and with the same tool and arguments, runs nothing and is not judged again: it gets
// the first outcome, released output and all, also where a budget that is spent, an overlay or a policy that was swapped in would deny the
// call now. That the effect took place is what the key asks, and a denial would be the wrong answer.
//
// Where the store is slower than the calls, at most 1,024 decisions are signed ahead of it, with at most 64 MiB of arguments. Further calls
// wait, first come first served, until there is room or ctx ends. One whose context ends there is DENY FAIL_CLOSED_ERROR, [ErrDenied] and
// the context's error, and leaves no receipt, for there was no place in the log to be had; it did not run, and the kernel goes on. With room
// an ended context is a denial that is recorded. Once its decision is signed a call waits for the store, whatever its context says: what is
// signed may become durable. And once that is durable, the driver is called, and its receipt waits for no room.
func (k *Kernel) Guard(ctx context.Context, in Intent) (Decision, Receipt) {
	if k.none() {
		d := sealed(errNoKernel)
		if d.tool = in.Tool; !contracts.IsTool(in.Tool) {
			d.tool = contracts.Hashed(in.Tool)
		}
		return d, Receipt{}
	}
	if ctx == nil {
		ctx = context.Background()
	}
	c := calls.Get().(*call)
	defer c.free()
	c.Kernel, c.ctx = k, ctx
	d, r := c.guard(in)
	d.tool = c.inputs.Tool
	c.report(&d, &r)
	return d, r
}

// guard is Guard but for the observer, who may close the kernel.
func (c *call) guard(in Intent) (Decision, Receipt) {
	c.receive(in)
	if c.orphan {
		return sealed(errOrphan), Receipt{}
	}
	c.policy = c.current()
	limits, _ := c.policy.Limits(c.inputs.Tool)
	if err := c.enter(limits.Timeout); err != nil {
		return sealed(err), Receipt{}
	}
	defer c.leave()
	defer c.vacate()
	c.fit()
	c.parse()
	return c.proceed()
}

const whyFull = "the context ended while the call waited for room in the log: nothing was recorded"

func sealed(cause error) Decision {
	return Decision{Reason: contracts.ReasonKernelSealed, cause: cause}
}

func (c *call) report(d *Decision, r *Receipt) {
	e := Event{Tool: c.inputs.Tool, Session: c.inputs.Session, ID: d.Record.ID, Verdict: d.Verdict, Reason: d.Reason, Why: d.Why, Index: r.Index, Repeat: c.repeated}
	if r.Entry == nil {
		e.Err = d.cause
	}
	c.observe(c.ctx, e)
}

// An answer is what the call got under its session's lock: a signed judgement, or the call that it repeats.
type answer struct {
	session *session
	record  contracts.DecisionRecord
	why     string
	reason  contracts.ReasonCode // as the caller is told; the record's but for misfits
	pending *contracts.ApprovalRequest
	faulty  bool             // denied for the call's fault
	full    bool             // there is no room for it: nothing was signed
	stale   bool             // another stack judges now, or under another trust state: nothing was signed
	slot    *proofgraph.Slot // nil: the kernel is sealed, and err says why
	entry   contracts.Statement
	denial  contracts.Receipt
	started bool     // an ALLOW was signed, and counted in
	call    *running // once it runs
	limits  guardian.Limits
	drift   guardian.Why // where the output left its pinned schema
	err     error        // the judgement could not be signed
	first   *once        // the call that this one repeats
	flight  *flight      // of the first, or of this one if it has a key
}

// proceed gives a call its answer and carries it out.
func (c *call) proceed() (Decision, Receipt) {
	a := c.answer()
	for a.full || a.stale {
		if a.stale {
			c.renew()
		} else if !c.queue() {
			return Decision{Reason: contracts.ReasonFailClosedError, Why: whyFull, cause: contextError(c.ctx)}, Receipt{}
		}
		a = c.answer() // anew: it is later, and others went before
	}
	switch {
	case a.first != nil:
		c.vacate()
		c.repeated = true
		return c.repeat(a)
	case a.slot == nil:
		return sealed(a.err), Receipt{}
	}
	d := Decision{Reason: a.reason, Why: a.why, Record: a.record, Pending: a.pending}
	if a.record.Verdict == contracts.Allow {
		return c.perform(a, d)
	}
	switch {
	case c.unread != nil:
		d.cause = c.unread
	case a.faulty && c.cause != nil:
		d.cause = c.cause
	case a.faulty:
		d.cause = contextError(c.ctx)
	}
	if a.err == nil {
		a.err = c.commit(a.slot)
	}
	if a.err != nil {
		d.cause = a.err
		return d, Receipt{}
	}
	return d, Receipt{Record: a.denial, Entry: a.slot.Entry(), Index: a.slot.Index()}
}

// commit waits until the decision is durable. It stands in the queue no more then.
func (c *call) commit(s *proofgraph.Slot) error {
	err := s.Wait()
	c.vacate()
	return err
}

// answer judges the call and signs the judgement, under the lock of the session that its entries stand in. It waits for no room.
func (c *call) answer() *answer {
	s := c.home()
	defer s.mu.Unlock()
	a := &answer{session: s}
	if a.err = c.log.Err(); a.err != nil { // while the call came here
		return a
	}
	c.state = c.trust.Load()
	c.inputs.State.Trust = c.state.Digest()
	if a.stale = c.stands() != nil; a.stale {
		return a
	}
	c.stamp(s)
	if c.judge(s, a); a.first != nil {
		return a
	}
	c.refit(a)
	if a.full = !c.admitted(); a.full {
		return a
	}
	c.charges, c.nonces = a.record.Charges, nil
	if a.record.Verdict == contracts.Allow {
		c.nonces = noncesOf(&c.reader, c.inputs.Envelopes.Approvals, a.record.Approvals)
	}
	if a.slot, a.err = c.log.Place(s.chain, c.inputs.Time, c.parents, c.taken); a.err != nil {
		a.slot = nil
		if a.stale = a.err == errMoved; !a.stale {
			c.log.Seal(a.err)
		}
		return a
	}
	defer a.slot.Void(errUnsigned)
	if c.lost {
		c.yield(a)
	}
	c.scratch = c.inputs.Append(c.scratch[:0]) // a store copies what it keeps
	inputs := c.scratch
	h := a.slot.Header()
	a.record.Seal(h.Session, h.Seq, crypto.Sum(inputs))
	st := &a.entry
	if a.record.Verdict == contracts.Allow {
		st.Decision = &a.record
	} else {
		a.denial = receipts.Denied(&a.record)
		st.Receipt = &a.denial
	}
	if c.options.Keep.DropInputs {
		a.err = a.slot.Sign(st)
	} else {
		a.err = a.slot.Sign(st, inputs)
	}
	if a.err == nil && a.record.Verdict == contracts.Allow {
		s.past.Allow(&a.record, c.inputs.Time, c.nonces)
		a.started, a.flight = true, s.start(&c.inputs, a.slot.Index())
	}
	return a
}
