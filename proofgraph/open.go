package proofgraph

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// Open opens the log in a store, or begins one if the store is empty. It reads every entry once and
// checks form, order, chains, parents, Lamport times, and the latest checkpoint against the root.
// It verifies no signature, because the store is the caller's own. It calls each, unless that is
// nil, for every entry, also for the genesis of a new log; an error of each is an error of Open.
//
// A log has one writer: while it is open, nothing else may append entries or checkpoints to the
// store. Over a [Memory] that has another log, Open returns an error until that log is sealed.
func Open(
	ctx context.Context, s Store, o Options,
	each func(index uint64, e contracts.Entry, hash contracts.Digest, st *contracts.Statement) error,
) (l *Log, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: open: the store", x)
		}
		if err != nil && l != nil {
			l.Seal(err) // it does not count as open
			l = nil
		}
	}()
	if s == nil {
		return nil, errors.New("proofgraph: open: no store")
	}
	if !contracts.IsOrigin(o.Origin) {
		return nil, errors.New("proofgraph: open: the origin is not 1 to 255 letters, digits and . _ / -")
	}
	if each == nil {
		each = func(uint64, contracts.Entry, contracts.Digest, *contracts.Statement) error { return nil }
	}
	l = &Log{
		store: s, chains: map[string]*Chain{}, checkpoints: make(chan struct{}, 1), done: make(chan struct{}),
		grown: o.Grown,
	}
	if l.grown == nil {
		l.grown = func(uint64, uint64) {}
	}
	if l.key, err = crypto.Pin(o.Key); err != nil {
		return l, fmt.Errorf("proofgraph: open: key: %w", err)
	}
	pub, err := crypto.PublicOf(l.key)
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: key: %w", err)
	}
	l.keyID = crypto.KeyID(pub)
	logKey, err := crypto.Pin(o.LogKey)
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: log key: %w", err)
	}
	if l.notes, err = newSigner(o.Origin, logKey); err != nil {
		return l, fmt.Errorf("proofgraph: open: log key: %w", err)
	}
	if m, ok := s.(*Memory); ok {
		if err := m.claim(l); err != nil {
			return l, fmt.Errorf("proofgraph: open: %w", err)
		}
	}
	size, err := s.Size(ctx)
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: %w", err)
	}
	if size == 0 {
		err = l.begin(ctx, o, each)
	} else {
		err = l.restore(ctx, size, each)
	}
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: %w", err)
	}
	l.grown(l.size, l.marked)
	return l, nil
}

// A visitor is called for each entry.
type visitor func(uint64, contracts.Entry, contracts.Digest, *contracts.Statement) error

// begin writes genesis.
func (l *Log) begin(ctx context.Context, o Options, each visitor) error {
	if len(o.Trust) == 0 {
		return errors.New("a new log needs an initial trust state")
	}
	if contracts.TimeOf(o.Now.Time()) != o.Now {
		return errors.New("a time outside the years 1970 to 9999")
	}
	if note, err := l.store.Checkpoint(ctx); err != nil {
		return err
	} else if note != nil {
		return errors.New("the store has a checkpoint and no entries: it lost a log, " +
			"and a new one must not take its place")
	}
	c := l.Chain(contracts.SessionKernel)
	s := &Slot{chain: c, waiter: waiter{log: l}, header: contracts.Header{Key: l.keyID, Time: o.Now}}
	st := &contracts.Statement{Genesis: &contracts.Genesis{Nonce: hex.EncodeToString(o.Nonce[:]), Origin: o.Origin,
		Trust: crypto.Sum(o.Trust), Version: 1}}
	if err := s.write(st); err != nil {
		return err
	}
	if err := each(0, s.entry, s.hash, st); err != nil {
		return err
	}
	if err := l.store.Append(ctx, Batch{Entries: []contracts.Entry{s.entry}, Blobs: [][]byte{o.Trust}}); err != nil {
		return err
	}
	l.genesis, l.size = s.hash, 1
	c.advance(&s.header, s.hash, false)
	return l.indexEntry(s.hash, 0)
}

// restore reads the log in the store.
func (l *Log) restore(ctx context.Context, size uint64, each visitor) error {
	note, err := l.store.Checkpoint(ctx)
	if err != nil {
		return err
	}
	var mark Checkpoint
	if note != nil {
		if mark, _, err = ParseCheckpoint(note); err != nil {
			return err
		}
		switch {
		case mark.Origin != l.notes.Name():
			return fmt.Errorf("the store's checkpoint is of the log %s, not of %s: give the origin that it was "+
				"begun with", mark.Origin, l.notes.Name())
		case mark.Size > size:
			return errors.New("the store's checkpoint is of entries that it does not have any more")
		}
		l.marked = mark.Size
	}
	var reader contracts.Reader
	for e, err := range l.store.Entries(ctx, 0, size) {
		if err != nil {
			return err
		}
		if l.size == size {
			return errors.New("the store has more entries than it says")
		}
		st, err := l.checkNext(&reader, e)
		if err != nil {
			return fmt.Errorf("entry %d: %w", l.size, err)
		}
		hash := e.Hash()
		if l.size == 0 {
			l.genesis = hash
		}
		l.Chain(st.Session).advance(&st.Header, hash, st.Close != nil)
		if err := l.indexEntry(hash, st.Lamport); err != nil {
			return err
		}
		if err := each(l.size, e, hash, st); err != nil {
			return err
		}
		if l.size++; l.size == mark.Size && l.tree.Root() != mark.Root {
			return errors.New("the store's checkpoint is of other entries")
		}
	}
	if l.size < size {
		return errors.New("the store has fewer entries than it says")
	}
	return nil
}

// checkNext reads the next entry and checks that it follows from those before.
func (l *Log) checkNext(r *contracts.Reader, e contracts.Entry) (*contracts.Statement, error) {
	sealed, bad := r.Open(e)
	if bad != nil {
		return nil, bad
	}
	st, bad := sealed.Statement()
	if bad != nil {
		return nil, bad
	}
	h := &st.Header
	if h.Key != sealed.KeyID {
		return nil, errors.New("key: not that of the signature")
	}
	if (st.Genesis != nil) != (l.size == 0) {
		return nil, errors.New("genesis is the first entry and no other")
	}
	if g := st.Genesis; g != nil {
		if g.Origin != l.notes.Name() {
			return nil, fmt.Errorf("origin: this store has the log %s, not %s: give the log its own store, "+
				"or the origin that it was begun with (of itself that has the first key's name)", g.Origin,
				l.notes.Name())
		}
		if h.Seq != 0 || h.Lamport != 0 || len(h.Parents) != 0 || h.Prev != (contracts.Digest{}) {
			return nil, errors.New("genesis follows nothing")
		}
		return st, nil
	}
	c := l.Chain(h.Session)
	lamport := c.lamport
	for _, p := range h.Parents {
		_, at, ok := l.index.Lookup(p)
		if !ok {
			return nil, ErrUnknownParent
		}
		lamport = max(lamport, at)
	}
	switch {
	case c.closed:
		return nil, ErrClosed
	case h.Seq != c.next:
		return nil, errors.New("seq: not the next of its session")
	case h.Prev != c.last:
		return nil, errors.New("prev: not the last of its session")
	case h.Lamport != lamport+1:
		return nil, errors.New("lamport: not one more than that of what is named")
	case h.Time < c.time:
		return nil, errors.New("time: runs back within its session")
	}
	return st, nil
}
