package helm

import (
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
)

// A session is one chain of the log, with the state that its calls share.
type session struct {
	mu        sync.Mutex // held from the time stamp to the signature of one entry; protects all below
	chain     *proofgraph.Chain
	running   int                 // permitted calls whose receipt is not signed yet
	closing   chan struct{}       // non-nil while CloseSession waits; closed when it ends
	idle      chan struct{}       // non-nil while CloseSession waits; closed when nothing runs any more
	bindings  map[string]*binding // by idempotency key: those that an ALLOW bound
	past      past.Session        // its later calls are judged by it
	closeSlot *proofgraph.Slot    // of the close entry, until that is durable
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
func (s *session) start(in *contracts.Inputs, decision uint64) *pendingCall {
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
		decision: decision,
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
