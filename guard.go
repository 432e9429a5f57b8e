package helm

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// Guard judges a call, runs it if it is admissible, and records both. Its result is the last word:
// do not run the tool yourself.
//
// The signed permission is durable before the driver runs, and the receipt before the output is
// released. Each judged call leaves exactly one receipt, a denial too. A repeat of a bound
// idempotency key leaves none, nor does a call to a sealed or closed kernel. Any failure to sign or
// to store seals the kernel: every later call is KERNEL_SEALED, and the next [New] over the store
// reads and settles the log.
//
// Under the context of a kernel that was narrowed from k, the call is one of that kernel: see
// [Kernel.Context].
//
// A repeat of a bound idempotency key, by the same caller and with the same tool and arguments,
// runs nothing and is not judged again. It gets the first outcome with its released output, even if
// a budget that is spent, an overlay or a policy that was swapped in would deny the call now. The
// key asks whether the effect took place, and a denial would be the wrong answer.
//
// If the store is slower than the calls, at most 1,024 decisions are signed ahead of it, with at
// most 64 MiB of arguments. Further calls wait, first come, first served, until there is room or
// ctx ends. A call whose ctx ends there is DENY FAIL_CLOSED_ERROR, [ErrDenied] and the context's
// error. It did not run, it leaves no receipt because it had no place in the log, and the kernel
// goes on. Once there is room, an ended context is a denial that is recorded. Once its decision is
// signed a call waits for the store, whatever its context says, because a signed decision may
// become durable. Once that is durable the driver is called. Its receipt waits for no room.
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
	c.k, c.ctx = k, ctx
	c.receive(in)
	d, r := c.guard()
	d.tool = c.inputs.Tool
	if d.Why == "" && d.Reason != contracts.ReasonAllow {
		d.Why = whyOf(d.Reason)
	}
	var e Event
	observed := k.shared.options.Observe != nil
	if observed {
		e = c.event(&d, &r)
	}
	c.free()
	if observed {
		k.shared.observe(ctx, e)
	}
	return d, r
}

var (
	errOrphan = errors.New("helm: the context is of no kernel: what Narrow gave was nil")
	errStale  = errors.New("helm: another stack judges now, or under another trust state")
)

const whyFull = "the context ended while the call waited for room in the log: nothing was recorded"

// sealed returns the decision of a kernel that takes no calls, because of cause.
func sealed(cause error) Decision {
	why := "the kernel is sealed: a failure could not be recorded"
	switch {
	case cause == errNoKernel:
		why = "there is no kernel"
	case cause == errOrphan:
		why = "the context is of no kernel"
	case errors.Is(cause, errClosed):
		why = "the kernel was closed"
	}
	return Decision{Reason: contracts.ReasonKernelSealed, Why: why, cause: cause}
}

// guard takes a call that was received to its outcome.
func (c *call) guard() (Decision, Receipt) {
	if c.orphan {
		return sealed(errOrphan), Receipt{}
	}
	c.policy = c.k.current()
	limits, _ := c.policy.Limits(c.inputs.Tool)
	if err := c.k.enter(limits.Timeout); err != nil {
		return sealed(err), Receipt{}
	}
	defer c.release()
	defer c.k.leave()
	c.applyPin()
	c.parse()
	p := c.decide()
	// Again if need be: it is later, and other calls went first.
	for p.closing != nil || p.full || p.stale || c.unconfirmed(p) {
		switch {
		case p.closing != nil:
			c.awaitClose(p.closing)
		case p.stale:
			c.follow()
			if !c.again() {
				return Decision{Reason: contracts.ReasonFailClosedError, Why: whyMoved}, Receipt{}
			}
			if c.held != c.weight() {
				c.release()
			}
		case !c.queue():
			reason := contracts.ReasonFailClosedError
			return Decision{Reason: reason, Why: whyFull, cause: contextError(c.ctx)}, Receipt{}
		}
		p = c.decide()
	}
	switch {
	case p.repeats != nil:
		return c.repeat(p)
	case p.unread != nil:
		why := "the session cannot be read from the store"
		return Decision{Reason: contracts.ReasonFailClosedError, Why: why, cause: p.unread}, Receipt{}
	case p.slot == nil:
		return sealed(p.err), Receipt{}
	case p.d.Record.Verdict == contracts.Deny:
		return c.deny(p)
	}
	return c.perform(p)
}

// decide judges the call and signs the decision while holding the session lock. It never waits for
// the admission queue or for a session that is closing; it sets p.full or p.closing instead.
func (c *call) decide() *placement {
	sh := c.k.shared
	s, err := c.lockSession()
	defer s.mu.Unlock()
	p := &placement{session: s, unread: err}
	if err != nil {
		return p
	}
	if p.closing = c.mustAwait(s); p.closing != nil {
		return p
	}
	if p.err = sh.log.Err(); p.err != nil { // sealed while the call came here
		return p
	}
	c.state = sh.trust.Load()
	c.inputs.State.Trust = c.state.Digest()
	if p.stale = !c.k.judgesBy(c.policy, c.state); p.stale {
		return p
	}
	c.stamp(sh.clock(s)) // read after the state, so that no call is earlier than the event that made it
	c.judge(p)
	if p.repeats != nil {
		return p
	}
	c.denyUnrepresentable(p)
	if p.full = !c.admit(); p.full {
		return p
	}
	c.place(p)
	return p
}

// lockSession locks the session that the call's entries belong to: the one asked for or, if that is
// closed or has no legal name, @refused.
//
// The error says that what others have written in the session cannot be read.
func (c *call) lockSession() (*session, error) {
	sh := c.k.shared
	if c.legal {
		s := sh.session(c.inputs.Session)
		s.mu.Lock()
		if err := sh.catchUp(s); err != nil || !s.chain.Closed() {
			return s, err
		}
		s.mu.Unlock() // never two sessions at once
	}
	s := sh.session(contracts.SessionRefused)
	s.mu.Lock()
	return s, nil
}

// mustAwait returns the channel that the call must wait for, if its session is closing: new calls
// wait until it is closed or their context ends. Calls from inside the session go on, because
// closing waits for them. The caller holds the session's lock.
func (c *call) mustAwait(s *session) <-chan struct{} {
	if s.closing == nil || c.context.calls.inside(s) || ended(c.done) {
		return nil
	}
	return s.closing
}

// awaitClose waits until the session has closed, or is not closing any more, or the context ends.
func (c *call) awaitClose(closing <-chan struct{}) {
	c.release()
	c.shed()
	select {
	case <-closing:
	case <-c.done:
	}
	c.reread()
}

// stamp sets the call's time. If the clock failed or the context ended, or too many goroutines of
// the tool were abandoned, the call is refused.
func (c *call) stamp(at contracts.Time, err error) {
	c.inputs.Time = at
	if err != nil {
		c.fail(err.Error(), err)
	}
	select {
	case <-c.done:
		c.fail("the context ended", nil) // its own error is asked for when no lock is held
	default:
	}
	if err := c.k.shared.abandoned.Check(c.inputs.Tool); err != nil {
		c.fail(err.Error(), err)
	}
}

// judge decides the call: condition 0 in its published order, then the guardian.
func (c *call) judge(p *placement) {
	refuse := func(reason contracts.ReasonCode, why string) {
		p.d.Record, p.d.Why = c.policy.Refuse(c.inputs, reason), why
	}
	c.forget(p)
	c.priors.session, c.priors.parents = p.session, c.ancestors
	f, raw := &c.flaws, c.inputs.ArgsForm != ""
	bound := p.session.bindings[c.inputs.Idempotency]
	switch {
	case f.malformed != "":
		refuse(contracts.ReasonIntentMalformed, f.malformed)
	case !raw && p.session.chain.Session() == contracts.SessionRefused:
		refuse(contracts.ReasonSessionClosed, "the session is closed")
	case !raw && c.state.Frozen():
		refuse(contracts.ReasonSystemFrozen, "the system is frozen")
	case !raw && bound != nil && bound.matches(&c.inputs):
		p.repeats, p.pending = bound, bound.pending
	case !raw && bound != nil:
		refuse(contracts.ReasonIdempotencyConflict, "idempotency: bound to another call")
	case !raw && f.fault != "":
		p.faulty = true
		refuse(contracts.ReasonFailClosedError, f.fault)
	default:
		p.decided = true
		record, state, why := c.policy.Decide(&c.inputs, c.state, &c.priors)
		p.d.Record, p.d.Pending, c.inputs.State = record, why.Pending, state
		switch {
		case record.Verdict == contracts.Allow:
		case raw:
			p.d.Why = f.syntax
		case c.wraps(record.Reason):
			p.d.Why = "wraps a sandboxed driver: bind the module itself"
		default:
			p.d.Why = why.String()
		}
	}
	p.d.Reason = p.d.Record.Reason
}

// forget drops the state that an earlier judgement of the call has read. A call that the kernel
// refuses itself has read none.
func (c *call) forget(p *placement) {
	c.inputs.State = contracts.SessionState{Trust: c.inputs.State.Trust}
	c.priors.unread, p.d.Pending = nil, nil
}

// denyUnrepresentable denies arguments that the guardian let past their schema, if the Go type of a
// wrapped function cannot hold them. No policy could replay that, so the log has the kernel's own
// refusal of the request.
func (c *call) denyUnrepresentable(p *placement) {
	past := p.d.Record.Verdict == contracts.Allow || p.d.Record.Condition > 2 ||
		p.d.Reason == contracts.ReasonDestinationNotAllowed || p.d.Reason == contracts.ReasonArgsCanonicalization
	if why := c.flaws.unrepresentable; why != "" && past {
		c.forget(p)
		p.d.Record = c.policy.Refuse(c.inputs, contracts.ReasonIntentMalformed)
		p.d.Reason, p.d.Why = contracts.ReasonSchemaViolation, why
	}
}

// admit holds room in the admission queue for the call's decision, unless the call holds some. It
// reports false if there is none.
func (c *call) admit() bool {
	if c.held == 0 {
		if weight := c.weight(); c.k.shared.admission.TryAcquire(weight) {
			c.held = weight
		}
	}
	return c.held > 0
}

// queue waits for room. It reports false if the context ended first. If the kernel was sealed first
// it reports true: decide says so.
//
// A caller waiting for admission holds no lock and no log slot. An admitted caller waits only for
// the signer, the store and per-entry locks, so it always makes progress. Receipts need no room,
// because every run is recorded.
func (c *call) queue() bool {
	sh, weight := c.k.shared, c.weight()
	c.shed()
	if !sh.admission.Acquire(weight, c.done, sh.log.Sealed()) {
		return sh.log.Err() != nil
	}
	c.held = weight
	c.reread()
	return true
}

// weight returns the room that the call's decision takes.
func (c *call) weight() int {
	n := len(c.buffers.args)
	e := &c.inputs.Envelopes
	for _, list := range [...][]contracts.Envelope{e.Approvals, e.Attestations, e.Delegation} {
		for _, envelope := range list {
			n += len(envelope)
		}
	}
	return 1 + n>>16
}

// release returns the call's room to the admission queue, if it holds any.
func (c *call) release() {
	if c.held > 0 {
		c.k.shared.admission.Release(c.held)
		c.held = 0
	}
}

// place takes the decision's place in the log, its reservation with it, and has it signed there. An
// ALLOW is counted in, and the session's next call is judged after it.
func (c *call) place(p *placement) {
	r := &c.reserved
	r.charges, r.nonces, r.lost = p.d.Record.Charges, nil, false
	if p.d.Record.Verdict == contracts.Allow && len(p.d.Record.Approvals) > 0 {
		r.nonces = noncesOf(&c.buffers.reader, c.inputs.Envelopes.Approvals, p.d.Record.Approvals)
	}
	c.drafts.decision = p
	sh := c.k.shared
	d := proofgraph.Draft{
		Chain:   p.session.chain,
		Time:    c.inputs.Time,
		Parents: c.parents,
		Take:    c.drafts.take,
		Write:   c.drafts.write,
	}
	if sh.joined {
		c.join(&d, p)
	}
	slot, err := sh.put(p.session, d)
	switch {
	case err == errStale, err == proofgraph.ErrMoved, err == proofgraph.ErrClosed && sh.joined,
		err == proofgraph.ErrUnknownParent: // that was let go of meanwhile
		p.stale = true
	case err != nil:
		p.err = err
		sh.log.Seal(err)
	default:
		p.slot = slot
		if p.d.Record.Verdict == contracts.Allow {
			if !sh.joined || !unasked(p.session.chain.Session()) { // who leads the log may read it
				p.session.past.Allow(&p.d.Record, c.inputs.Time, r.nonces)
			}
			p.pending = p.session.start(&c.inputs, slot)
		}
		if p.d.Record.Verdict == contracts.Allow && sh.joined {
			p.session.leave(slot, &p.d.Record)
		}
	}
}

// reserve is called when the call's entry takes its place in the log, and no other can take one
// meanwhile. So charges are in the log in the order in which they were made, whatever the number of
// callers. A call is stale if its policy or the trust state changed since it was judged: an entry
// after a policy entry is judged by that policy, and one after a trust event under the state it
// made. It is stale too if a call of another session has consumed one of its approvals.
func (c *call) reserve(at proofgraph.Place) error {
	sh, r := c.k.shared, &c.reserved
	if !c.k.judgesBy(c.policy, c.state) {
		return errStale
	}
	if sh.joined && !c.holds(at.Header().Time) {
		return errStale
	}
	if len(r.nonces) > 0 && sh.used.has(r.nonces...) {
		return errStale
	}
	r.lost = len(r.charges) > 0 && !sh.ledger.Reserve(r.charges, c.inputs.State.Budgets)
	if !r.lost && len(r.nonces) > 0 {
		sh.used.add(r.nonces)
	}
	return nil
}

// denyLostReservation re-judges a call whose budget was taken by a concurrent call, using the
// balances seen when its slot was assigned. The result is always a denial in the same slot.
func (c *call) denyLostReservation(p *placement) {
	frozen := frozenBalances{&c.priors, c.inputs.State.Budgets}
	record, state, why := c.policy.Decide(&c.inputs, c.state, frozen)
	c.inputs.State = state
	if record.Verdict == contracts.Allow { // a fault of ours: nothing was reserved
		c.forget(p)
		record, why.What = c.policy.Refuse(c.inputs, contracts.ReasonFailClosedError), "a budget was lost and found"
	}
	p.d.Record, p.d.Reason, p.d.Why = record, record.Reason, why.String()
}

// compose returns the record of the decision, made on what was reserved, for its place in the log.
func (c *call) compose(at proofgraph.Place) (*contracts.Statement, error) {
	p, b := c.drafts.decision, c.buffers
	if c.k.shared.joined {
		c.inputs.Time = at.Header().Time
		p.entry = contracts.Statement{} // of an earlier try
	}
	c.k.shared.mark(p.session, at.Index(), c.ancestors, brought{})
	if c.reserved.lost {
		c.denyLostReservation(p)
	}
	b.document = c.inputs.Append(b.document[:0]) // the store copies what it keeps
	h := at.Header()
	p.d.Record.Seal(h.Session, h.Seq, crypto.Sum(b.document))
	if p.d.Record.Verdict == contracts.Allow {
		p.entry.Decision = &p.d.Record
	} else {
		p.denial = receipts.Denied(&p.d.Record)
		p.entry.Receipt = &p.denial
	}
	if !c.k.shared.options.Keep.DropInputs {
		at.Keep(b.document)
	}
	return &p.entry, nil
}

// awaitDurable waits until the decision is durable. It takes no room in the queue then.
func (c *call) awaitDurable(slot *proofgraph.Slot) error {
	err := slot.Wait()
	c.release()
	return err
}

// repeat returns the first outcome of an idempotency key to a call that is the same. It writes
// nothing.
func (c *call) repeat(p *placement) (Decision, Receipt) {
	c.release()
	c.repeated = true
	if p.pending == nil && c.k.shared.joined {
		if d, r, ok := c.awaitElsewhere(p); !ok {
			return d, r
		}
	}
	if p.pending == nil {
		trust := c.state
		if c.k.shared.joined { // the key of the kernel that ran it may be new
			trust = c.k.shared.trust.Load()
		}
		return p.repeats.recall(context.WithoutCancel(c.ctx), c.priors.from, trust)
	}
	if c.context.calls.holds(p.session, c.inputs.Idempotency) { // it would wait for itself
		why := "idempotency: the key of the call that this one is made from"
		return Decision{Reason: contracts.ReasonIdempotencyConflict, Why: why}, Receipt{}
	}
	c.shed()
	if d, r, ok := p.pending.await(c.done); ok {
		return d, r
	}
	why := "idempotency: the first call still runs"
	return Decision{Reason: contracts.ReasonToolCanceled, Why: why, cause: contextError(c.ctx)}, Receipt{}
}

// deny returns a denial once it is durable.
func (c *call) deny(p *placement) (Decision, Receipt) {
	d := p.d
	if d.Pending != nil {
		d.Args = bytes.Clone(c.buffers.args) // the next call reuses them
	}
	switch {
	case c.priors.unread != nil:
		d.cause = c.priors.unread
	case p.faulty && c.flaws.cause != nil:
		d.cause = c.flaws.cause
	case p.faulty:
		d.cause = contextError(c.ctx)
	}
	if err := c.awaitDurable(p.slot); err != nil {
		d.cause = err
		return d, Receipt{}
	}
	return d, Receipt{Record: p.denial, Entry: p.slot.Entry(), Index: p.slot.Index()}
}

// perform runs a call that is permitted, if the permission becomes durable, and records its
// outcome. Whatever happens, panics and the end of the goroutine included, the session and the
// repeats that wait for this call are told, and a call without a receipt seals the kernel.
func (c *call) perform(p *placement) (d Decision, r Receipt) {
	d = p.d
	d.Reason = contracts.ReasonFailClosedError
	log := c.k.shared.log
	defer func() {
		if r.Entry == nil {
			log.Seal(errUnrecorded)
		}
		p.session.finish(p.run.call, p.pending, c.inputs.Idempotency, d, r)
	}()
	defer contain.Error(&d.cause, "recording the call")
	if d.cause = c.awaitDurable(p.slot); d.cause != nil {
		return d, r
	}
	d.Reason = contracts.ReasonReceiptNotStored
	o := c.run(p)
	slot, receipt, err := c.conclude(p, &o)
	if err == nil {
		err = slot.Wait()
	}
	if err != nil {
		log.Seal(err)
		d.cause = err
		return d, r
	}
	d.Verdict, d.Reason, d.cause = receipt.Verdict, receipt.Reason, o.Err
	r = Receipt{Record: *receipt, Entry: slot.Entry(), Index: slot.Index()}
	switch receipt.Reason {
	case contracts.ReasonAllow:
		r.Output = o.Output
	case contracts.ReasonToolError:
		r.Output = o.Output
		d.toolError, d.cause = foreign(o.Err), nil
	default:
		d.Why = p.run.why(receipt.Reason)
	}
	return d, r
}

// event returns the event of the call.
func (c *call) event(d *Decision, r *Receipt) Event {
	e := Event{
		Tool:    c.inputs.Tool,
		Session: c.inputs.Session,
		ID:      d.Record.ID,
		Verdict: d.Verdict,
		Reason:  d.Reason,
		Why:     d.Why,
		Rule:    d.Record.Rule,
		Index:   r.Index,
		Repeat:  c.repeated,
		Took:    c.took,
	}
	if c.policy != nil {
		_, e.Declared = c.policy.Limits(c.inputs.Tool)
	}
	if r.Entry == nil {
		e.Err = d.cause
	}
	return e
}

var calls = sync.Pool{New: func() any {
	c := &call{buffers: new(buffers)}
	c.drafts.take, c.drafts.write = c.reserve, c.compose
	c.drafts.receipt.bind()
	return c
}}

// maxScratch is how much memory a call may leave to the next one.
const maxScratch = 64 << 10

// free makes the call ready to be used again.
func (c *call) free() {
	b := c.buffers
	if cap(b.raw)+cap(b.args)+cap(b.spare)+cap(b.document) > 4*maxScratch || len(b.raw) > maxScratch {
		return
	}
	b.raw, b.args, b.spare, b.document = b.raw[:0], b.args[:0], b.spare[:0], b.document[:0]
	*c = call{
		parents:   c.parents[:0],
		ancestors: c.ancestors[:0],
		drafts:    c.drafts.empty(),
		buffers:   b,
	}
	calls.Put(c)
}
