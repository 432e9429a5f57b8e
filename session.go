package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
)

// A session is one chain of the log, with what its calls need of each other.
type session struct {
	mu      sync.Mutex // held from the time stamp to the signature of one entry; protects all below
	chain   *proofgraph.Chain
	running int              // permitted calls whose receipt is not signed yet
	closing chan struct{}    // while CloseSession waits: closed when it is done or gives up
	idle    chan struct{}    // while CloseSession waits: closed when nothing runs any more
	keys    map[string]*once // idempotency keys that an ALLOW bound
	past    past.Session     // what verdicts in it go by
	last    *proofgraph.Slot // of the close, until it is durable
}

// once is the one call that an idempotency key stands for.
type once struct {
	caller   contracts.Caller
	tool     string
	args     contracts.Digest
	decision uint64 // index
	receipt  uint64 // index; 0 while it runs
	flight   *flight
}

// flight is a call that runs, for those who wait for it.
type flight struct {
	done     chan struct{} // closed when decision and receipt are set
	decision Decision
	receipt  Receipt
}

func (o *once) is(in *contracts.Inputs) bool {
	return o.tool == in.Tool && o.args == in.ArgsHash && o.caller.Equal(in.Caller)
}

// session gives the session of that name, which may be new.
func (k *Kernel) session(name string) *session {
	k.mu.RLock()
	s := k.sessions[name]
	k.mu.RUnlock()
	if s != nil {
		return s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s = k.sessions[name]; s == nil {
		s = &session{chain: k.log.Chain(name)}
		k.sessions[name] = s
	}
	return s
}

// enter locks the session for a new call. While the session is closing, calls from within it go on, for closing waits for them; others
// wait for the end of it, or of their context.
func (s *session) enter(c *call) {
	s.mu.Lock()
	for s.closing != nil && !c.outer.inside(s) {
		c.vacate()
		if !s.await(s.closing, c.done) {
			return
		}
	}
}

// await lets go of mu, which the caller holds, until something happens. It is false where that is the end of the caller's context.
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

// CloseSession ends a session: new calls in it are denied SESSION_CLOSED from now on. It waits for the calls that run, until ctx ends; then
// the session is not closed, and the error says so. New calls wait meanwhile. From inside one of the calls it is an error at once. Closing
// a closed session does nothing. The session "main" cannot be closed.
func (k *Kernel) CloseSession(ctx context.Context, name string) error {
	if k.none() {
		return errNoKernel
	}
	if name == "" || name == contracts.DefaultSession {
		return errors.New(`helm: session "main" cannot be closed: name a session per conversation`)
	}
	if !contracts.IsSession(name) {
		return errors.New("helm: close session: not a legal session name")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	h, done, err := look(ctx)
	if err != nil {
		return fmt.Errorf("helm: session %s: not closed: %w", name, err)
	}
	if err := k.enter(0); err != nil {
		return err
	}
	defer k.leave()
	s := k.session(name)
	s.mu.Lock()
	inside := h.calls.inside(s)
	s.mu.Unlock()
	if inside {
		return fmt.Errorf("helm: session %s: cannot be closed from inside one of its calls", name)
	}
	if !s.quiesce(done) {
		return fmt.Errorf("helm: session %s: not closed, calls are still running: %w", name, contextError(ctx))
	}
	slot, err := k.closeEntry(s) // unlocks
	if err == nil && slot != nil {
		err = slot.Wait()
	}
	if err != nil {
		return fmt.Errorf("helm: session %s: close: %w", name, err)
	}
	s.mu.Lock()
	s.last = nil
	s.mu.Unlock()
	return nil
}

// quiesce waits until nothing runs, and keeps mu. It is false, with mu not held, where done came first.
func (s *session) quiesce(done <-chan struct{}) bool {
	s.mu.Lock()
	for s.closing != nil { // somebody else closes it
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

// closeEntry signs the close with mu held, and unlocks. Of a session that somebody else closes just now it gives the slot too, lest it be
// called closed before that lasts; of one that is closed for good, none.
func (k *Kernel) closeEntry(s *session) (*proofgraph.Slot, error) {
	defer s.mu.Unlock()
	if s.chain.Closed() {
		return s.last, nil
	}
	slot, err := k.record(s, &contracts.Statement{Close: new(contracts.Close)}, nil, nil)
	if err != nil {
		return nil, err
	}
	s.keys, s.past, s.last = nil, past.Session{}, slot // closed comes before the look-up of a repeat, and nothing is judged by its past
	return slot, nil
}
