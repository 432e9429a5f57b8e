package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
)

// inflight counts the calls inside a kernel, so that Close can wait for them. Calls inside a
// narrowed kernel are inside the root kernel too.
type inflight struct {
	mu      sync.Mutex // protects all below
	calls   int
	longest time.Duration // the longest time limit of any call that ever entered
	idle    chan struct{} // non-nil while Close waits; closed when the last call has left
	closed  chan struct{} // non-nil once Close has begun; closed when it is done
}

// none reports whether k is no kernel: nil, or the zero Kernel.
func (k *Kernel) none() bool { return k == nil || k.shared == nil }

// enter counts in a call with that time limit; leave counts it out. A kernel that is sealed or
// closed lets no call in, and the error says which.
func (k *Kernel) enter(limit time.Duration) error {
	if err := k.shared.log.Err(); err != nil {
		return err
	}
	root := k.shared.root
	if !root.calls.add(limit) {
		return errClosed
	}
	if k != root && !k.calls.add(limit) {
		root.calls.done()
		return errClosed
	}
	return nil
}

// Err returns nil while the kernel takes calls, else why it does not.
func (k *Kernel) Err() error {
	if k.none() {
		return errNoKernel
	}
	if err := k.shared.log.Err(); err != nil {
		return err
	}
	if k.shared.root.calls.over() || k.calls.over() {
		return errClosed
	}
	return nil
}

func (k *Kernel) leave() {
	root := k.shared.root
	if k != root && k.calls.done() {
		k.remove()
	}
	root.calls.done()
}

// extend raises the longest time limit that Close must wait for.
func (k *Kernel) extend(limit time.Duration) {
	root := k.shared.root
	root.calls.extend(limit)
	if k != root {
		k.calls.extend(limit)
	}
}

// remove takes a closed kernel off the list that Swap recompiles. It is idempotent.
func (k *Kernel) remove() {
	sh := k.shared
	sh.narrowedMu.Lock()
	defer sh.narrowedMu.Unlock()
	sh.narrowed.Remove(k.listed)
}

// over reports whether the kernel is closed, or is being closed.
func (f *inflight) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed != nil
}

// add counts a call in. It reports false if the kernel is closed.
func (f *inflight) add(limit time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return false
	}
	f.calls++
	f.longest = max(f.longest, limit)
	return true
}

func (f *inflight) extend(limit time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.longest = max(f.longest, limit)
}

// done counts a call out. It reports whether that was the last call that there will be.
func (f *inflight) done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	if f.calls == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
	return f.calls == 0 && f.closed != nil
}

// Close lets no new call in and waits for those inside, at most as long as the longest time limit
// of a tool that was ever called. After Close nothing more is written. Close does not close
// the store. Closing again waits for the first Close and does nothing else. The error says how many
// calls Close did not wait for, how many goroutines of drivers that were abandoned, at their time
// limit, still run, and whether a last checkpoint of Options.Checkpoint could not be made.
//
// If the store is a [proofgraph.Rememberer] Close leaves a state in it: what the kernel's folds
// hold of the log, signed by Key, from which the next New goes on. It has no arguments, outputs or
// texts. One is also made while calls go on, after a checkpoint, when 65,536 entries and an eighth
// of those before it are after the last. Close waits at most 10 seconds for it. If it fails there
// is an [Event] with Why "state", and no error.
//
// Closing the kernel that [New] made closes all that were narrowed from it, and waits for their
// calls too. A narrowed kernel closes itself alone: not its parent, nor those narrowed from it.
// Calls that its Close did not wait for are recorded when they end.
func (k *Kernel) Close() error {
	if k.none() {
		return errNoKernel
	}
	f := &k.calls
	f.mu.Lock()
	if closed := f.closed; closed != nil {
		f.mu.Unlock()
		<-closed
		return nil
	}
	closed, idle, limit := make(chan struct{}), make(chan struct{}), f.longest
	defer close(closed)
	f.closed = closed
	last := f.calls == 0
	if last {
		close(idle)
	} else {
		f.idle = idle
	}
	f.mu.Unlock()
	if k.parent != nil && last {
		k.remove()
	}
	patience := time.NewTimer(limit + time.Second) // receipts have to be written too
	defer patience.Stop()
	var err error
	select {
	case <-idle:
	case <-patience.C:
		err = k.stillRunning()
	}
	if k.parent == nil {
		if unmade := k.shared.notary.Close(k.shared.log.Err() != nil); unmade != nil {
			err = errors.Join(err, fmt.Errorf("helm: close: %w", unmade))
		}
		sealed := k.shared.log.Err() != nil
		k.shared.log.Seal(errClosed)
		err = errors.Join(err, k.shared.leave())
		k.shared.states.close(sealed)
		k.shared.options.cosigned.Wait()
		if left := k.shared.abandoned.Err(); left != nil {
			err = errors.Join(err, fmt.Errorf("helm: close: %w", left))
		}
	}
	return err
}

// stillRunning returns the error of a Close that waited long enough, or nil if the last call has
// ended just now.
func (k *Kernel) stillRunning() error {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	then := "the next New over the store settles them"
	if k.parent != nil {
		then = "they are recorded when they end"
	}
	if n := k.calls.calls; n > 0 {
		return fmt.Errorf("helm: close: %d calls were still running; %s", n, then)
	}
	return nil
}

// UserMessage records a text as the user's own words in a session. Policies ask for it by from: a
// value that stands in the words of the user was not made up by a model or a tool. So pass what the
// user wrote, and nothing else: not what a tool returned, a document that was attached, or the text
// of a template. The role of a chat message does not decide it.
//
// The text is durable when UserMessage returns nil; the session's next judgement may know it
// earlier. Values do not leave their session. If the store is slower than the calls, UserMessage
// waits for room in the log, as [Kernel.Guard] does. It waits while the session is being closed,
// unless ctx is that of a tool of the session. A narrowed kernel writes to the same log. A frozen
// system records the text.
//
// A session holds 262,144 bytes of text. UserMessage refuses, with nothing recorded: a text that
// would bring the session over that, that is empty, or that is not UTF-8; the session "main"; a
// session that is closed; a kernel that is sealed or closed; a ctx that has ended. The text stays
// in the store, whatever Options.Keep says, until evidence/erasure erases it. If it cannot be
// signed or stored, the kernel seals.
func (k *Kernel) UserMessage(ctx context.Context, session, text string) error {
	if err := k.userMessage(ctx, session, text); err != nil {
		return fmt.Errorf("helm: user message: %w", err)
	}
	return nil
}

func (k *Kernel) userMessage(ctx context.Context, session, text string) error {
	switch {
	case session == "" || session == contracts.DefaultSession:
		return errors.New(`name a session: "main" and "" are of all calls that name none`)
	case !contracts.IsSession(session):
		return errors.New("not a legal session name")
	case text == "":
		return errors.New("empty")
	case !utf8.ValidString(text):
		return errors.New("not UTF-8")
	case k.none():
		return sealedError{errNoKernel}
	}
	if ctx == nil {
		ctx = context.Background()
	}
	seen, done, err := inspect(ctx)
	if err != nil {
		return endedError{err}
	}
	if err := k.enter(0); err != nil {
		return sealedError{err}
	}
	defer k.leave()
	m := message{k.shared, k.shared.session(session), text, 1 + len(text)>>16, 0}
	defer m.release()
	for moved := 0; ; {
		slot, wait, err := m.record(seen.calls, done)
		switch {
		case slot != nil:
			if err = slot.Wait(); err != nil {
				err = unstored(err)
			}
			return err
		case err == errEnded:
			return endedError{contextError(ctx)}
		case err == proofgraph.ErrMoved && moved < maxMoved:
			moved++
		case err != nil:
			return err
		case wait == nil: // there was no room
			if sh := m.sh; sh.admission.Acquire(m.weight, done, sh.log.Sealed()) {
				m.held = m.weight
			}
		default:
			m.release()
			select {
			case <-wait:
			case <-done:
			}
		}
	}
}

// CloseSession ends a session: from now on new calls in it are denied SESSION_CLOSED. It waits for
// the calls that run, and new calls wait meanwhile. If ctx ends first the session is not closed,
// and the error says so. From inside one of the session's calls it returns an error at once.
// Closing a closed session does nothing. The session "main" cannot be closed.
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
	seen, done, err := inspect(ctx)
	if err != nil {
		return fmt.Errorf("helm: session %s: not closed: %w", name, err)
	}
	if err := k.enter(0); err != nil {
		return err
	}
	defer k.leave()
	s := k.shared.session(name)
	s.mu.Lock()
	inside := seen.calls.inside(s)
	s.mu.Unlock()
	if inside {
		return fmt.Errorf("helm: session %s: cannot be closed from inside one of its calls", name)
	}
	if !s.quiesce(done) {
		return fmt.Errorf("helm: session %s: not closed, calls are still running: %w", name, contextError(ctx))
	}
	if k.shared.joined {
		if err := k.shared.awaitReceipts(s, done); err != nil { // unlocks s then
			return fmt.Errorf("helm: session %s: not closed: %w", name, err)
		}
	}
	slot, err := k.shared.signClose(s) // unlocks s
	for n := 0; (err == proofgraph.ErrMoved || err == proofgraph.ErrClosed) && n < maxMoved; n++ {
		s.mu.Lock()
		if err := k.shared.awaitReceipts(s, done); err != nil {
			return fmt.Errorf("helm: session %s: not closed: %w", name, err)
		}
		slot, err = k.shared.signClose(s)
	}
	if err == nil && slot != nil {
		err = slot.Wait()
	}
	if err != nil {
		return fmt.Errorf("helm: session %s: close: %w", name, err)
	}
	s.mu.Lock()
	s.closeSlot = nil
	s.mu.Unlock()
	return nil
}

// signClose signs the close entry of a session, whose lock the caller holds, and unlocks it. If
// another caller has signed one that may not be durable yet, signClose returns its slot, so that
// nobody reports the session closed before that lasts. If the session is closed for good it returns
// nil.
func (sh *shared) signClose(s *session) (*proofgraph.Slot, error) {
	defer s.mu.Unlock()
	if s.chain.Closed() {
		return s.closeSlot, nil
	}
	slot, err := sh.record(s, &recording{statement: contracts.Statement{Close: new(contracts.Close)}, exact: true})
	if err != nil {
		return nil, err
	}
	// Nothing reads these any more: closed comes before the look-up of a repeat and before judging.
	s.bindings, s.past, s.closeSlot = nil, past.Session{}, slot
	return slot, nil
}

// A message is a text that is about to be recorded.
type message struct {
	sh     *shared
	s      *session
	text   string
	weight int // the room that it takes in the admission queue
	held   int
}

// record signs the message, if nothing is against it and there is room. If the session is closing
// it returns the channel to wait for instead; if there is no room it returns nothing.
func (m *message) record(calls *runningCall, done <-chan struct{}) (*proofgraph.Slot, <-chan struct{}, error) {
	sh, s := m.sh, m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sh.log.Err(); err != nil {
		return nil, nil, sealedError{err}
	}
	if s.chain.Closed() {
		return nil, nil, errors.New("the session is closed")
	}
	if ended(done) {
		return nil, nil, errEnded
	}
	if s.closing != nil && !calls.inside(s) {
		return nil, s.closing, nil
	}
	if err := sh.catchUp(s); err != nil {
		return nil, nil, err
	}
	if s.chain.Closed() {
		return nil, nil, errors.New("the session is closed")
	}
	said, err := s.past.Said(logReader{sh.options.Store, sh.log}.fetch)
	if err != nil {
		return nil, nil, fmt.Errorf("the texts of the user cannot be read: %w", err)
	}
	if all := said + len(m.text); all > contracts.MaxMessage {
		const full = "the session would have %d bytes of the user's text, and %d are the most: start another"
		return nil, nil, fmt.Errorf(full, all, contracts.MaxMessage)
	}
	if m.held == 0 {
		if !sh.admission.TryAcquire(m.weight) {
			return nil, nil, nil
		}
		m.held = m.weight
	}
	blob := []byte(m.text)
	hash := crypto.Sum(blob)
	st := contracts.Statement{Message: &contracts.Message{TextHash: hash}}
	slot, err := sh.record(s, &recording{statement: st, blobs: [][]byte{blob}, exact: true})
	if err == proofgraph.ErrMoved || err == proofgraph.ErrClosed && sh.joined {
		return nil, nil, proofgraph.ErrMoved // the session is read, and the message looked at, again
	}
	if err != nil {
		sh.log.Seal(err)
		return nil, nil, unstored(err)
	}
	s.past.Message(hash, m.text)
	return slot, nil, nil
}

func (m *message) release() {
	if m.held > 0 {
		m.sh.admission.Release(m.held)
		m.held = 0
	}
}

func unstored(err error) error { return fmt.Errorf("it could not be signed or stored: %w", err) }

// A sealedError says that the kernel takes nothing any more, and why.
type sealedError struct{ cause error }

func (e sealedError) Error() string { return "the kernel is sealed: " + e.cause.Error() }
func (e sealedError) Unwrap() error { return e.cause }

// An endedError says that a context has ended, and leaves out what the context says of it.
type endedError struct{ cause error }

func (e endedError) Error() string { return "the context ended" }
func (e endedError) Unwrap() error { return e.cause }
