package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// A session is one chain of the log, with the state that its calls share.
type session struct {
	mu        sync.Mutex // held from the time stamp to the signature of one entry; protects all below
	chain     *proofgraph.Chain
	running   int              // permitted calls whose receipt is not signed yet
	closing   chan struct{}    // non-nil while CloseSession waits; closed when it ends
	idle      chan struct{}    // non-nil while CloseSession waits; closed when nothing runs any more
	closeSlot *proofgraph.Slot // of the close entry, until that is durable
	priorSession

	// Over a shared store.
	away       openCalls      // the calls that have no receipt yet, of other processes too
	unconsumed []approvedCall // those of which it was not read yet which approvals they used
}

// A runningCall is a call with a driver that may make calls of its own.
type runningCall struct {
	session *session
	key     string // its idempotency key
	outer   *runningCall
	over    bool // protected by session.mu: the calls of goroutines that it left running are outside
}

// inside reports whether r or a call around it belongs to the session and still runs. The caller
// holds s.mu.
func (r *runningCall) inside(s *session) bool {
	for ; r != nil; r = r.outer {
		if r.session == s && !r.over {
			return true
		}
	}
	return false
}

// holds reports whether r or a call around it belongs to the session and has that key. To wait for
// such a call would be to wait for itself.
func (r *runningCall) holds(s *session, key string) bool {
	for ; r != nil; r = r.outer {
		if r.session == s && r.key == key {
			return true
		}
	}
	return false
}

// await unlocks mu, which the caller holds, until event is closed. It reports false if done was
// closed first. The caller holds mu again then.
func (s *session) await(event, done <-chan struct{}) bool {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-event:
		return true
	case <-done:
		return false
	}
}

// quiesce waits until nothing runs and returns true with mu held. If done is closed first it
// returns false with mu not held.
func (s *session) quiesce(done <-chan struct{}) bool {
	s.mu.Lock()
	for s.closing != nil { // another caller closes it
		if !s.await(s.closing, done) {
			s.mu.Unlock()
			return false
		}
	}
	if s.running > 0 {
		closing := make(chan struct{})
		s.closing = closing
		for more := true; more && s.running > 0; {
			s.idle = make(chan struct{})
			more = s.await(s.idle, done)
		}
		s.closing, s.idle = nil, nil
		close(closing)
	}
	if s.running > 0 {
		s.mu.Unlock()
		return false
	}
	return true
}

// start counts a permitted call in and binds its idempotency key, if it has one. The caller holds
// mu.
func (s *session) start(in *contracts.Inputs, decision *proofgraph.Slot) *pendingCall {
	s.running++
	if in.Idempotency == "" {
		return nil
	}
	if s.bindings == nil {
		s.bindings = map[string]*binding{}
	}
	b := &binding{
		caller:   in.Caller,
		tool:     in.Tool,
		args:     in.ArgsHash,
		decision: decision.Index(),
		hash:     decision.Hash(),
		pending:  &pendingCall{done: make(chan struct{})},
	}
	b.caller.Roles = slices.Clone(in.Caller.Roles) // the record's are handed out
	s.bindings[in.Idempotency] = b
	return b.pending
}

// finish counts a permitted call out, and passes its outcome to the repeats that wait for it. If
// there is no receipt the kernel is sealed, and nobody asks for the key again.
func (s *session) finish(run *runningCall, pending *pendingCall, key string, d Decision, r Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run != nil {
		run.over = true
	}
	if pending != nil {
		pending.decision, pending.receipt = d.clone(), r.clone() // d and r are the caller's
		close(pending.done)
		if b := s.bindings[key]; b != nil {
			b.receipt, b.pending = r.Index, nil
		}
	}
	if r.Entry != nil {
		s.past.Stored(r.Index)
	}
	s.running--
	if s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// A binding is the one call that an idempotency key stands for.
type binding struct {
	caller   contracts.Caller
	tool     string
	args     contracts.Digest
	decision uint64           // index of its decision
	hash     contracts.Digest // of its decision; zero if a state did not say
	receipt  uint64           // index of its receipt; 0 while it runs
	pending  *pendingCall     // nil once it has its receipt
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
	if b.hash != (contracts.Digest{}) && (decision.Hash() != b.hash || r.Record.DecisionHash != b.hash) {
		return d, r, errOther
	}
	d.Verdict, d.Reason, r.Index = r.Record.Verdict, r.Record.Reason, b.receipt
	return d, r, nil
}
