package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

var (
	ErrSealed        = errors.New("proofgraph: the log is sealed") // wraps beside it the first cause
	ErrClosed        = errors.New("proofgraph: the session is closed")
	ErrUnknownParent = errors.New("proofgraph: parent: no durable entry has that hash")
)

// Options are what a log is opened with.
type Options struct {
	Origin string         // the log's name
	Key    crypto.Signer  // signs entries
	LogKey crypto.Signer  // signs checkpoints
	Trust  []byte         // canonical initial trust state; a new log's genesis names it and the store keeps it
	Nonce  [16]byte       // random: two logs of one origin and key differ by it
	Now    contracts.Time // of a new log's genesis
}

// A Log puts signed entries in order and makes them durable. It is safe for concurrent use by multiple goroutines.
type Log struct {
	store  Store
	key    crypto.Signer
	keyID  contracts.Digest
	notes  *signer
	sealed atomic.Pointer[error] // set once, under mu; read anywhere
	over   chan struct{}         // closed then

	genesis contracts.Digest

	named  sync.RWMutex // protects chains
	chains map[string]*Chain

	known sync.RWMutex // protects index and tree, which hold what is durable
	index Index
	tree  Tree

	checkpoints chan struct{} // full while a checkpoint is made: one at a time, or an older one might replace a newer

	mu sync.Mutex // never held while signing or writing; protects the queue
	queue

	scratch sync.Pool // *[]byte: what is written to be signed
}

// Err is nil, or ErrSealed with the first cause.
func (l *Log) Err() error {
	if err := l.sealed.Load(); err != nil {
		return *err
	}
	return nil
}

// Sealed is closed when the log is sealed, for who waits for something else too.
func (l *Log) Sealed() <-chan struct{} { return l.over }

// Seal ends the log: nothing that is not being written already is written any more. Only the first cause counts.
func (l *Log) Seal(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal(cause)
}

// seal wakes everybody who waits for what will not be written. The caller holds mu.
func (l *Log) seal(cause error) {
	if l.Err() != nil {
		return
	}
	if cause == nil {
		cause = errors.New("no cause was given")
	}
	err := fmt.Errorf("%w: %w", ErrSealed, cause)
	l.sealed.Store(&err)
	close(l.over)
	l.abandon()
}

// going is nil where the log goes on, or Err. Where the last place was taken it waits for the end, which whoever has that place brings about.
// The caller holds mu.
func (l *Log) going() error {
	if l.last != nil && l.Err() == nil {
		l.mu.Unlock()
		<-l.over
		l.mu.Lock()
	}
	return l.Err()
}

// Lookup finds a durable entry by its hash.
func (l *Log) Lookup(hash contracts.Digest) (index uint64, ok bool) {
	l.known.RLock()
	defer l.known.RUnlock()
	index, _, ok = l.index.Lookup(hash)
	return index, ok
}

// learn takes note of an entry that is durable, the next one.
func (l *Log) learn(hash contracts.Digest, lamport uint64) error {
	l.known.Lock()
	defer l.known.Unlock()
	if err := l.index.Add(hash, lamport); err != nil {
		return err
	}
	l.tree.Append(hash)
	return nil
}

// Chain gives the chain of that session. There is one for each name.
func (l *Log) Chain(session string) *Chain {
	l.named.RLock()
	c := l.chains[session]
	l.named.RUnlock()
	if c != nil {
		return c
	}
	l.named.Lock()
	defer l.named.Unlock()
	if c = l.chains[session]; c == nil {
		c = &Chain{log: l, session: session, last: l.genesis}
		l.chains[session] = c
	}
	return c
}

// Checkpoint waits until what is signed is durable, signs the log as it is then, stores the signed note and gives it. Where it fails
// because of the signer the log goes on. Once the note is being stored ctx does not matter any more.
func (l *Log) Checkpoint(ctx context.Context) (Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return Checkpoint{}, err
	}
	select {
	case l.checkpoints <- struct{}{}:
	case <-ctx.Done():
		return Checkpoint{}, ctx.Err()
	}
	defer func() { <-l.checkpoints }()
	if err := l.flush(); err != nil {
		return Checkpoint{}, err
	}
	l.known.RLock()
	size, root := l.tree.Size(), l.tree.Root()
	l.known.RUnlock()
	c, err := l.notes.checkpoint(size, root)
	if err != nil {
		return Checkpoint{}, err
	}
	if err := ctx.Err(); err != nil {
		return Checkpoint{}, err
	}
	w := &waiter{log: l, state: signed}
	l.mu.Lock()
	if err := l.going(); err != nil {
		l.mu.Unlock()
		return Checkpoint{}, err
	}
	l.pending = request{w, c.Note}
	l.mu.Unlock()
	if err := w.wait(); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}
