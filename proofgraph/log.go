package proofgraph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

var (
	// ErrSealed is wrapped together with the first cause: nothing is written any more.
	ErrSealed = errors.New("proofgraph: the log is sealed")

	// ErrClosed is returned by Place if the last entry of the session closed it.
	ErrClosed = errors.New("proofgraph: the session is closed")

	// ErrUnknownParent is returned by Place if a parent is not the hash of a durable entry, or if
	// the entry is in the set of a condense entry.
	ErrUnknownParent = errors.New("proofgraph: parent: no durable entry has that hash")
)

// Options are the options of [Open].
type Options struct {
	Origin string         // the log's name
	Key    crypto.Signer  // signs entries
	LogKey crypto.Signer  // signs checkpoints
	Trust  []byte         // canonical initial trust state, which a new log's genesis names and the store keeps
	Nonce  [16]byte       // random; two logs with the same origin and key differ by it
	Now    contracts.Time // of a new log's genesis

	// Condensed, if it is not nil, is called by Open with each condense entry of the log and its
	// index, and returns the set of that entry: indexes below it, ascending. The log forgets them:
	// from there on they are no parents. If Condensed is nil the log forgets nothing. It may ask
	// the log, which has the entries up to this one, for Closed and Lookup alone.
	Condensed func(l *Log, index uint64, c *contracts.Condense) (iter.Seq[uint64], error)

	// Prefix, if it is not nil, is what the log holds of its first entries. Open then reads those
	// after them. It returns an error if the store has not so many entries, if the first or the
	// last of them has another hash, or if the prefix is none.
	Prefix *Prefix

	// Remembered is what Draft.Take reads and changes, if the store is a [Shared]. It is required
	// then, and not used otherwise.
	Remembered Remembered

	// Grown, if it is not nil, is called by Open and after each Append with the number of durable
	// entries and the size of the latest checkpoint, or 0. It must return at once and call nothing
	// of the log, whose lock is held.
	Grown func(size, checkpoint uint64)
}

// A Log puts signed entries in order and makes them durable. It is safe for concurrent use by
// multiple goroutines.
type Log struct {
	store  Store
	key    crypto.Signer
	keyID  contracts.Digest
	notes  *signer
	sealed atomic.Pointer[error] // set once, under mu; read without it
	done   chan struct{}         // closed when sealed is set

	genesis contracts.Digest

	chainsMu sync.RWMutex // protects chains
	chains   map[string]*Chain

	indexMu sync.RWMutex // protects older, index and tree, which hold the durable entries
	older   older        // those of Options.Prefix; the index has the others
	index   Index
	tree    Tree

	forgotten atomic.Uint64 // condense entries that were placed; changed under mu

	sharing *sharing // nil unless the store is a Shared

	// checkpoints is full while a checkpoint is made: one at a time, so that no older one replaces
	// a newer one.
	checkpoints chan struct{}

	mu sync.Mutex // never held while signing or writing; protects the queue
	queue
	grown func(size, checkpoint uint64) // Options.Grown, or one that does nothing

	scratch sync.Pool // of *[]byte: buffers for signing
}

// Err returns nil, or ErrSealed with the first cause.
func (l *Log) Err() error {
	if err := l.sealed.Load(); err != nil {
		return *err
	}
	return nil
}

// Sealed returns a channel that is closed when the log is sealed.
func (l *Log) Sealed() <-chan struct{} { return l.done }

// Seal ends the log. An Append that has begun is finished, and nothing is written after it. Only
// the first cause counts.
func (l *Log) Seal(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal(cause)
}

// seal wakes every goroutine that waits for an entry that will not be written. The caller holds mu.
func (l *Log) seal(cause error) {
	if l.Err() != nil {
		return
	}
	if cause == nil {
		cause = errors.New("no cause was given")
	}
	err := fmt.Errorf("%w: %w", ErrSealed, cause)
	l.sealed.Store(&err)
	close(l.done)
	l.drop()
	if l.sharing != nil {
		go l.sharing.leaveSoon()
	}
}

// notSealed returns Err. If the last place was taken, it first waits until the log is sealed, which
// the holder of that place causes. The caller holds mu, which is released meanwhile.
func (l *Log) notSealed() error {
	if l.last != nil && l.Err() == nil {
		l.mu.Unlock()
		<-l.done
		l.mu.Lock()
	}
	return l.Err()
}

// Tree returns the tree of the durable entries. It may be called after the log was sealed.
func (l *Log) Tree() Tree {
	l.indexMu.RLock()
	defer l.indexMu.RUnlock()
	return l.tree
}

// Lookup returns the index of the durable entry with that hash. Of entries of Options.Prefix it
// knows those that [Log.Find] has found, that an entry after the prefix names, or that had no
// receipt in it.
func (l *Log) Lookup(hash contracts.Digest) (index uint64, ok bool) {
	l.indexMu.RLock()
	defer l.indexMu.RUnlock()
	index, _, ok = l.lookup(hash)
	return index, ok
}

// lookup returns index and Lamport time of an entry. The caller holds indexMu.
func (l *Log) lookup(hash contracts.Digest) (index, lamport uint64, ok bool) {
	if index, lamport, ok = l.index.Lookup(hash); ok {
		return index, lamport, true
	}
	if index, lamport, ok = l.older.lookup(hash); !ok && l.sharing != nil {
		e, found := l.sharing.found[hash]
		return e.Index, e.Lamport, found
	}
	return index, lamport, ok
}

// Find reports whether the durable entry at an index has that hash and may be named as a parent. It
// is Lookup for all entries: one of Options.Prefix it reads from the store, in whose tree it must
// have that place. Lookup and [Log.Place] know it from then on. An error is one of the store.
func (l *Log) Find(ctx context.Context, ref contracts.Ref) (found bool, err error) {
	if l.sharing != nil {
		return l.findShared(ctx, ref)
	}
	defer contain.Error(&err, "proofgraph: find: the store")
	l.indexMu.RLock()
	index, _, ok := l.lookup(ref.Hash)
	unread := !ok && ref.Index < l.older.size && !l.older.gone(ref.Index)
	l.indexMu.RUnlock()
	if !unread {
		return ok && index == ref.Index, nil
	}
	e, line, err := l.older.readAt(ctx, ref.Index)
	if err == nil && (e.Hash != ref.Hash || contracts.IsStub(line)) { // stubs are of entries that are forgotten
		return false, nil
	}
	if err == nil {
		err = l.older.prove(ctx, e)
	}
	if err != nil {
		return false, fmt.Errorf("proofgraph: find: entry %d: %w", ref.Index, err)
	}
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	l.older.known[e.Hash] = e
	_, _, ok = l.older.lookup(e.Hash) // it may be forgotten by now
	return ok, nil
}

// indexEntry adds the next durable entry to index and tree.
func (l *Log) indexEntry(hash contracts.Digest, lamport uint64) error {
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	if err := l.index.Add(hash, lamport); err != nil {
		return err
	}
	l.tree.Append(hash)
	return nil
}

// Chain returns the chain of a session. There is one for each name.
func (l *Log) Chain(session string) *Chain {
	l.chainsMu.RLock()
	c := l.chains[session]
	l.chainsMu.RUnlock()
	if c != nil {
		return c
	}
	l.chainsMu.Lock()
	defer l.chainsMu.Unlock()
	if c = l.chains[session]; c == nil {
		c = &Chain{log: l, session: session, last: l.genesis, unknown: l.sharing != nil}
		l.chains[session] = c
	}
	return c
}

// Checkpoint waits until the signed entries are durable, signs the log as it is then, stores the
// signed note and returns it. If the signer fails, the log goes on. A signer that is not in memory
// has failed if it does not answer within 10 seconds. It is not asked again before it has answered.
// ctx is not checked any more once the note is being stored. A checkpoint that the store has is not
// stored again, so that lines which [Log.Annotate] has added stay.
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
	if l.sharing != nil {
		if err := l.sharing.grow(ctx); err != nil {
			return Checkpoint{}, err
		}
	}
	l.indexMu.RLock()
	c := Checkpoint{Origin: l.notes.Name(), Size: l.tree.Size(), Root: l.tree.Root()}
	l.indexMu.RUnlock()
	var err error
	l.notes.stop = ctx.Done()
	c.Note, err = note.Sign(&note.Note{Text: string(c.body())}, l.notes)
	if ended := ctx.Err(); ended != nil {
		return Checkpoint{}, ended
	}
	if err != nil {
		return Checkpoint{}, err
	}
	if l.hasNote(ctx, c) {
		return c, nil
	}
	if err := l.storeNote(c.Note, c.Size); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// hasNote reports whether the store has the note of a checkpoint already, maybe with lines of
// witnesses after it, which storing it again would remove.
func (l *Log) hasNote(ctx context.Context, c Checkpoint) bool {
	l.mu.Lock()
	marked := l.marked
	l.mu.Unlock()
	if l.sharing == nil && marked != c.Size {
		return false
	}
	stored, err := l.store.Checkpoint(ctx)
	return err == nil && bytes.HasPrefix(stored, c.Note)
}

// Annotate replaces the signature lines of the latest checkpoint. It calls edit with the note that
// the store has, while no checkpoint is made, and stores the note that edit returns. That must have
// the same three lines. An error of edit is one of Annotate, and nothing is stored; nor is anything
// if edit returns the same note. If storing fails the log is sealed. ctx is not checked any more
// once edit has returned. Over a [Shared] store, which others may write a checkpoint to meanwhile,
// edit is called again until it returns the note that the store has.
func (l *Log) Annotate(ctx context.Context, edit func(note []byte) ([]byte, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.checkpoints <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.checkpoints }()
	if err := l.Err(); err != nil {
		return err
	}
	for range maxTries {
		same, err := l.annotate(ctx, edit)
		if same || err != nil || l.sharing == nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	return errors.New("proofgraph: annotate: others have replaced the checkpoint each time")
}

// annotate reports whether edit has returned the note that the store has.
func (l *Log) annotate(ctx context.Context, edit func(note []byte) ([]byte, error)) (same bool, err error) {
	note, err := l.store.Checkpoint(ctx)
	if err != nil {
		return false, err
	}
	if note == nil {
		return false, errors.New("proofgraph: annotate: the log has no checkpoint")
	}
	was, _, err := ParseCheckpoint(note)
	if err != nil {
		return false, err
	}
	next, err := edit(bytes.Clone(note))
	if err != nil {
		return false, err
	}
	c, _, err := ParseCheckpoint(next)
	switch {
	case err != nil:
		return false, err
	case c.Origin != was.Origin || c.Size != was.Size || c.Root != was.Root:
		return false, errors.New("proofgraph: annotate: the note is of another checkpoint")
	case bytes.Equal(next, note):
		return true, nil
	}
	return false, l.storeNote(c.Note, c.Size)
}

// storeNote makes a checkpoint of that size the latest one.
func (l *Log) storeNote(note []byte, size uint64) error {
	if l.sharing != nil {
		return l.sharing.storeNote(note, size)
	}
	w := &waiter{log: l, state: signed}
	l.mu.Lock()
	if err := l.notSealed(); err != nil {
		l.mu.Unlock()
		return err
	}
	l.pending = request{w, note, size}
	l.mu.Unlock()
	return w.wait()
}
