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

// Open opens the log in a store, or begins one if the store is empty. It reads every entry once, or
// those after Options.Prefix, and checks form, order, chains, parents, Lamport times, and the
// latest checkpoint against the root. It verifies no signature, because the store is the caller's
// own. It calls each, unless that is nil, for every entry that it reads, also for the genesis of a
// new log; an error of each is an error of Open.
//
// A log has one writer: while it is open, nothing else may append entries or checkpoints to the
// store. Over a [Memory] that has another log, Open returns an error until that log is sealed.
func Open(ctx context.Context, s Store, o Options, each func(Line) error) (l *Log, err error) {
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
		each = func(Line) error { return nil }
	}
	l = newLog(s, o)
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
		if err := m.claim(l.Err); err != nil {
			return l, fmt.Errorf("proofgraph: open: %w", err)
		}
	}
	if shared, ok := s.(Shared); ok {
		if err := l.openShared(ctx, shared, o, each); err != nil {
			return l, fmt.Errorf("proofgraph: open: %w", err)
		}
		l.grown(l.size, l.marked)
		return l, nil
	}
	size, err := s.Size(ctx)
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: %w", err)
	}
	if size == 0 && o.Prefix == nil {
		err = l.begin(ctx, o, each)
	} else {
		err = l.restore(ctx, size, o, each)
	}
	if err != nil {
		return l, fmt.Errorf("proofgraph: open: %w", err)
	}
	l.grown(l.size, l.marked)
	return l, nil
}

// newLog returns a log of no entries.
func newLog(s Store, o Options) *Log {
	l := &Log{
		store: s, chains: map[string]*Chain{}, checkpoints: make(chan struct{}, 1), done: make(chan struct{}),
		grown: o.Grown,
	}
	if l.grown == nil {
		l.grown = func(uint64, uint64) {}
	}
	return l
}

// begin writes genesis.
func (l *Log) begin(ctx context.Context, o Options, each func(Line) error) error {
	if note, err := l.store.Checkpoint(ctx); err != nil {
		return err
	} else if note != nil {
		return errors.New("the store has a checkpoint and no entries: it lost a log, " +
			"and a new one must not take its place")
	}
	s, st, err := l.genesisSlot(o)
	if err != nil {
		return err
	}
	var tree Tree
	tree.Append(s.hash)
	if err := each(Line{Bytes: s.entry, Hash: s.hash, Statement: st, Tree: &tree}); err != nil {
		return err
	}
	if err := l.store.Append(ctx, Batch{Entries: []contracts.Entry{s.entry}, Blobs: [][]byte{o.Trust}}); err != nil {
		return err
	}
	l.genesis, l.size = s.hash, 1
	s.chain.advance(&s.header, s.hash, 0, false)
	return l.indexEntry(s.hash, 0)
}

// genesisSlot makes the first entry of a new log.
func (l *Log) genesisSlot(o Options) (*Slot, *contracts.Statement, error) {
	if len(o.Trust) == 0 {
		return nil, nil, errors.New("a new log needs an initial trust state")
	}
	if contracts.TimeOf(o.Now.Time()) != o.Now {
		return nil, nil, errors.New("a time outside the years 1970 to 9999")
	}
	s := &Slot{chain: l.Chain(contracts.SessionKernel), waiter: waiter{log: l},
		header: contracts.Header{Key: l.keyID, Time: o.Now}}
	st := &contracts.Statement{Genesis: &contracts.Genesis{Nonce: hex.EncodeToString(o.Nonce[:]), Origin: o.Origin,
		Trust: crypto.Sum(o.Trust), Version: 1}}
	return s, st, s.sign(st)
}
