package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// A kernel over a proofgraph.Shared judges on what it remembers of the log, to which other kernels
// write too. The log compares this with what holds when it writes. If it does not hold the call is
// judged again, on what was read meanwhile.
//
// It holds the lock of a session until the entry is durable, so a session's calls of one process do
// not move each other. Sessions of which nothing is asked, "main" above all, are not read.

const (
	maxMoved = 16                    // how often a call is judged again
	poll     = 50 * time.Millisecond // between two looks at what another process has to do
	lateness = time.Second           // how long another process has, before others ask whether it is dead
)

const whyMoved = "the log moved each time that the call was judged, 16 times"

var errJoined = errors.New("the store is one that other kernels write to, and keeps every entry")

// guesses are what the log guesses by: see [proofgraph.Remembered].
type guesses struct{ *shared }

func (g guesses) Spent(b contracts.Balance) uint64 {
	return g.ledger.Spent(contracts.Charge{Budget: b.Budget, Of: b.Of, Window: b.Window})
}

func (g guesses) SetSpent(b contracts.Balance) { g.ledger.Set(b) }

func (g guesses) SetUsed(nonce string, used bool) {
	if used {
		g.used.add([]string{nonce})
	} else {
		g.used.remove(nonce)
	}
}

// unasked reports whether nothing is asked of the past of a session: it is not read.
func unasked(session string) bool {
	return session == contracts.DefaultSession || session == contracts.SessionRefused
}

// put places an entry of a session, whose lock the caller holds. In a session of which nothing is
// asked others may place theirs meanwhile.
func (sh *shared) put(s *session, d proofgraph.Draft) (*proofgraph.Slot, error) {
	if sh.joined && unasked(s.chain.Session()) {
		s.mu.Unlock()
		defer s.mu.Lock()
	}
	return sh.log.Place(d)
}

// openJoined opens the log in a shared store. It reads the session "", which says who may sign and
// what policies there are. Others it reads when something is asked of them.
func (sh *shared) openJoined(ctx context.Context, begin proofgraph.Options) (_ *priorLog, err error) {
	defer contain.Error(&err, "Options.Store")
	o, l := sh.options, sh.newPrior()
	if err := o.beginLast(ctx); err != nil {
		return nil, err
	}
	l.last, sh.archive = o.last, l.archive
	begin.Remembered = guesses{sh}
	search := func(ctx context.Context, hash contracts.Digest, below uint64) (uint64, error) {
		return sh.log.Search(ctx, hash, below)
	}
	sh.others = priormarks.NewJoined(o.Store.(proofgraph.Shared), search, logReader{store: o.Store}.fetch)
	l.policies.added = sh.others.Policy
	add := func(x proofgraph.Line) error {
		l.size = x.Index + 1
		_, err := l.line(&x)
		return err
	}
	sh.log, err = proofgraph.Open(ctx, o.Store, begin, func(x proofgraph.Line) error { return add(x) })
	if err != nil {
		return nil, err
	}
	add = func(x proofgraph.Line) error { return sh.kernelLine(l, &x) }
	if l.size, err = o.Store.Size(ctx); err != nil {
		return nil, err
	}
	if o.last != nil && o.last.Size > 0 {
		root, err := proofs.Root(ctx, o.Store, o.last.Size)
		if err == nil {
			err = o.last.Compare(root, l.trust)
		}
		if err != nil {
			return nil, fmt.Errorf("Options.Last: %w", err)
		}
	}
	if err := o.cosigned.Stored(ctx, o.Store); err != nil {
		return nil, fmt.Errorf("Options.Store: checkpoint: %w", err)
	}
	if err := o.checkSigners(l); err != nil {
		return nil, err
	}
	return l, sh.storeRequired(ctx, l)
}

// kernelLine folds an entry of the session "" that another kernel has written. The leader of the
// log calls it, before it writes anything else.
func (sh *shared) kernelLine(l *priorLog, x *proofgraph.Line) error {
	l.trust = sh.trust.Load() // with the events of this kernel
	before := l.trust
	if _, err := l.line(x); err != nil {
		return err
	}
	if l.trust == before {
		return nil
	}
	sh.trust.Store(l.trust)
	return sh.options.revokedSigner(l.trust, x.Index+1)
}

// catchUp reads what others have written in a session, whose lock the caller holds, if it is known
// that there is something.
func (sh *shared) catchUp(s *session) error {
	if !sh.joined || !s.chain.Unread() && s.unconsumed == nil {
		return nil
	}
	return sh.look(s)
}

// look reads what others have written in a session, whose lock the caller holds.
func (sh *shared) look(s *session) (err error) {
	name := s.chain.Session()
	if name == contracts.SessionKernel || unasked(name) {
		return nil
	}
	l := &priorLog{options: sh.options, trust: sh.trust.Load(), policies: sh.policies, open: s.away,
		sessions: map[string]*priorSession{name: &s.priorSession}, used: sh.used, fold: priormarks.New(),
		approved: s.unconsumed}
	read := func() error {
		return sh.log.Follow(context.Background(), s.chain, func(x proofgraph.Line) error {
			_, err := l.line(&x)
			return err
		})
	}
	err = read()
	if errors.Is(err, errNoKey) { // a trust event that was not read yet may have added it
		if err = sh.log.Refresh(context.Background()); err == nil {
			l.trust = sh.trust.Load()
			err = read()
		}
	}
	err = errors.Join(err, l.consume())
	s.unconsumed = l.approved // of inputs that could not be read
	if s.chain.Closed() {
		s.priorSession, s.away, s.unconsumed = priorSession{}, newOpenCalls(), nil
	}
	return err
}

// leave notes a call of this kernel that has no receipt yet.
func (s *session) leave(slot *proofgraph.Slot, d *contracts.DecisionRecord) {
	if name := s.chain.Session(); !unasked(name) {
		s.away.add(slot.Index(), openCall{slot.Hash(), name, d.PolicyHash, d.Tool, d.Idempotency, d.Charges, d})
	}
}

// returned notes the receipt of a call of this kernel. It reports false if there are entries before
// the receipt that were not read: then it is read with them.
func (s *session) returned(decision uint64) bool {
	if !unasked(s.chain.Session()) && s.chain.Unread() {
		return false
	}
	s.away.remove(decision)
	return true
}

// join says what an entry follows from.
func (r *recording) join(d *proofgraph.Draft) {
	d.Anywhere, d.AnyTime = !r.exact, !r.exact
	d.Settles, d.Others = r.decision, r.dead
	if r.statement.Receipt == nil {
		return
	}
	for i, c := range r.charges {
		if r.statement.Receipt.Settled[i].Amount != c.Amount { // it moves the balance
			d.Balances = append(d.Balances, balanceOf(c))
		}
	}
}

func balanceOf(c contracts.Charge) contracts.Balance {
	return contracts.Balance{Budget: c.Budget, Of: c.Of, Window: c.Window}
}

// join says what a decision follows from.
func (c *call) join(d *proofgraph.Draft, p *placement) {
	d.Anywhere = !p.decided || unasked(p.session.chain.Session())
	d.AnyTime = d.Anywhere
	d.Nonces = slices.Compact(slices.Sorted(slices.Values(c.reserved.nonces))) // two may approve one request
	for _, charge := range c.reserved.charges {
		d.Balances = append(d.Balances, balanceOf(charge))
	}
	if p.d.Record.Reason == contracts.ReasonBudgetExceeded {
		d.Balances = append(d.Balances, c.inputs.State.Budgets...)
	}
	if p.decided && unasked(p.session.chain.Session()) && len(c.inputs.Envelopes.Approvals) > 0 {
		d.Asks = c.presentedNonces()
	}
}

// presentedNonces returns the nonces of the requests that the presented approvals answer.
func (c *call) presentedNonces() (nonces []string) {
	for _, e := range c.inputs.Envelopes.Approvals {
		if a := approvalOf(&c.buffers.reader, e); a != nil {
			nonces = append(nonces, a.Request.Nonce)
		}
	}
	return nonces
}

// holds reports whether a call may be written as it was judged, at that time. A call that lost its
// budget is judged again if the log has moved since, and a denial for want of a budget if a balance
// has.
func (c *call) holds(at contracts.Time) bool {
	d := &c.drafts.decision.d.Record
	if c.reserved.lost {
		return false
	}
	if c.drafts.decision.decided && !c.judgedAlike(at) {
		return false
	}
	if d.Reason != contracts.ReasonBudgetExceeded {
		return true
	}
	return !slices.ContainsFunc(c.inputs.State.Budgets, func(b contracts.Balance) bool {
		return guesses{c.k.shared}.Spent(b) != b.Spent
	})
}

// judgedAlike reports whether a call is judged at that time, and by the nonces that are used now,
// as it was judged, and takes that judgement. Others may have used a nonce, or a call may have been
// taken to use it that was not written; and entries of others can move the time in a session of
// which nothing is asked.
func (c *call) judgedAlike(at contracts.Time) bool {
	p := c.drafts.decision
	if !unasked(p.session.chain.Session()) { // nothing else of it can be asked for without its lock
		return c.usedAsRecorded()
	}
	if at == c.inputs.Time && c.inputs.State.Used == nil {
		return true
	}
	in := c.inputs
	in.Time, in.State = at, contracts.SessionState{Trust: in.State.Trust}
	record, state, why := c.policy.Decide(&in, c.state, &c.priors)
	was := &p.d.Record
	if record.Verdict != was.Verdict || record.Reason != was.Reason || record.Rule != was.Rule ||
		!slices.EqualFunc(record.Charges, was.Charges, toOne) || !slices.Equal(record.Approvals, was.Approvals) ||
		!equalUsed(state.Used, c.inputs.State.Used) {
		return false
	}
	c.inputs.Time, c.inputs.State = at, state
	p.d.Record, p.d.Pending, c.reserved.charges = record, why.Pending, record.Charges
	return true
}

// toOne reports whether two charges are the same but for the balance before them.
func toOne(a, b contracts.Charge) bool {
	a.Before, b.Before = 0, 0
	return a == b
}

// usedAsRecorded reports whether all approvals that the call was judged to have used are used.
func (c *call) usedAsRecorded() bool {
	if c.inputs.State.Used == nil {
		return true
	}
	for _, e := range c.inputs.Envelopes.Approvals {
		if !slices.Contains(*c.inputs.State.Used, e.Digest()) {
			continue
		}
		if a := approvalOf(&c.buffers.reader, e); a == nil || !c.priors.Used(e.Digest(), &a.Request) {
			return false
		}
	}
	return true
}

func equalUsed(a, b *[]contracts.Digest) bool {
	return (a == nil) == (b == nil) && (a == nil || slices.Equal(*a, *b))
}

// unconfirmed reports whether a repeat has to be judged again: the outcome of another call is
// returned only after a commit of this kernel's own, which shows what trust events there are, and
// of a session that nobody has closed.
func (c *call) unconfirmed(p *placement) bool {
	sh := c.k.shared
	if !sh.joined || p.repeats == nil || c.flaws.confirmed {
		return false
	}
	closed, err := false, sh.log.Confirm(context.Background())
	if err == nil {
		p.session.mu.Lock()
		err = sh.look(p.session)
		closed = p.session.chain.Closed()
		p.session.mu.Unlock()
	}
	if err != nil {
		p.repeats, p.unread = nil, err
		return false
	}
	p.stale = closed || sh.trust.Load() != c.state
	c.flaws.confirmed = !p.stale
	return p.stale
}

// again reports whether the call may be judged once more. Over a shared store others can move the
// log for ever: then the call is denied, and if not even that finds a place, without a receipt.
func (c *call) again() bool {
	if !c.k.shared.joined {
		return true
	}
	if c.flaws.moved++; c.flaws.moved == maxMoved {
		c.fail(whyMoved, nil)
	}
	return c.flaws.moved <= 2*maxMoved
}

// awaitElsewhere waits for the receipt of the call that this one repeats, which another process
// runs. It reports true if the receipt is there.
func (c *call) awaitElsewhere(p *placement) (d Decision, r Receipt, ok bool) {
	sh, s := c.k.shared, p.session
	for waited := time.Duration(0); ; waited += poll {
		if waited > 0 && waited%lateness == 0 {
			if err := sh.settleDead(context.Background()); err != nil {
				return unanswered(err), Receipt{}, false
			}
		}
		s.mu.Lock()
		err := sh.look(s)
		there := p.repeats.receipt != 0
		s.mu.Unlock()
		switch {
		case err != nil:
			return unanswered(err), Receipt{}, false
		case there:
			if err := sh.log.Confirm(context.Background()); err != nil {
				return unanswered(err), Receipt{}, false
			}
			if sh.trust.Load().Frozen() {
				return Decision{Reason: contracts.ReasonSystemFrozen, Why: "the system is frozen"}, Receipt{}, false
			}
			return d, r, true
		case sh.log.Err() != nil:
			return sealed(sh.log.Err()), Receipt{}, false
		}
		if !pause(c.done) {
			why := "idempotency: the first call still runs, in another process"
			d := Decision{Reason: contracts.ReasonToolCanceled, Why: why, cause: contextError(c.ctx)}
			return d, Receipt{}, false
		}
	}
}

// unanswered is the decision of a repeat if the store does not say how the first call ended.
func unanswered(err error) Decision {
	why := "idempotency: how the first call ended cannot be read from the store"
	return Decision{Reason: contracts.ReasonFailClosedError, Why: why, cause: err}
}

// pause waits for the next look. It reports false if done was closed first.
func pause(done <-chan struct{}) bool {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

// awaitReceipts waits until no call of a session runs anywhere, and returns nil with the lock of
// the session held, as it was. If it returns an error the lock is not held.
func (sh *shared) awaitReceipts(s *session, done <-chan struct{}) error {
	for waited := time.Duration(0); ; waited += poll {
		err := sh.look(s)
		if err == nil && s.chain.Open() == 0 {
			return nil
		}
		s.mu.Unlock()
		if err == nil && waited > 0 && waited%lateness == 0 {
			err = sh.settleDead(context.Background())
		}
		if err == nil && !pause(done) {
			err = errors.New("calls of another process are still running: the context ended")
		}
		if err == nil {
			err = sh.log.Err()
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
	}
}

// settleDead writes a receipt OUTCOME_UNKNOWN for each call that a process permitted which is dead.
// Another kernel may do that first.
func (sh *shared) settleDead(ctx context.Context) (err error) {
	if !sh.joined {
		return nil
	}
	defer contain.Error(&err, "Options.Store")
	for range maxMoved {
		open, err := sh.log.Dead(ctx)
		if err != nil || len(open) == 0 {
			return err
		}
		for _, index := range open {
			if err := sh.settleOne(ctx, index); err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
		}
	}
	return errors.New("calls of writers that are dead are still open: the log moved each time")
}

func (sh *shared) settleOne(ctx context.Context, index uint64) error {
	line, err := readLine(ctx, sh.options.Store, index)
	if err != nil {
		return err
	}
	st, err := entry.Open(new(contracts.Reader), line)
	if err != nil {
		return err
	}
	if st.Decision == nil {
		return errors.New("no decision")
	}
	ref := contracts.Ref{Index: index, Hash: line.Hash()}
	receipt := receipts.Unknown(st.Decision, ref.Hash)
	r := &recording{statement: contracts.Statement{Receipt: receipt}, parents: []contracts.Digest{ref.Hash},
		charges: st.Decision.Charges, decision: index, dead: true}
	s := sh.session(st.Session)
	s.mu.Lock()
	if err := sh.catchUp(s); err != nil {
		s.mu.Unlock()
		return err
	}
	err = proofgraph.ErrUnknownParent
	var slot *proofgraph.Slot
	for n := 0; n < maxMoved && err == proofgraph.ErrUnknownParent; n++ { // the log finds few at once
		var found bool
		if found, err = sh.log.Find(ctx, ref); err == nil && !found {
			err = errOther
		}
		if err == nil {
			slot, err = sh.record(s, r)
		}
	}
	if err == nil && s.returned(index) {
		if b := s.bindings[st.Decision.Idempotency]; b != nil && b.decision == index {
			b.receipt = slot.Index()
		}
	}
	s.mu.Unlock()
	if err == proofgraph.ErrMoved {
		return nil // another kernel has settled it, or it is still open: see settleDead
	}
	if err != nil {
		return err
	}
	_, declared := sh.root.current().Limits(receipt.Tool)
	sh.observe(context.Background(), Event{
		Tool:     receipt.Tool,
		Session:  st.Session,
		ID:       st.Decision.ID,
		Verdict:  receipt.Verdict,
		Reason:   receipt.Reason,
		Why:      "",
		Index:    slot.Index(),
		Declared: declared,
	})
	return nil
}

// leave ends the kernel's part in a shared store. Others settle what it leaves open.
func (sh *shared) leave() (err error) {
	if !sh.joined {
		return nil
	}
	defer contain.Error(&err, "Options.Store")
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := sh.log.Leave(ctx); err != nil && !errors.Is(err, proofgraph.ErrFenced) {
		return fmt.Errorf("helm: close: %w", err)
	}
	return nil
}
