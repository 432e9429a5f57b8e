package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

// each reads the entries with from ≤ i < to and calls f with those in the set, or with all if in is
// nil. It ends whatever the source does, unless the source waits for ever.
func each(ctx context.Context, s Source, from, to uint64, in *Set, f func(uint64, *line) error) (err error) {
	i := from
	defer func() {
		if err != nil {
			err = fmt.Errorf("entry %d: %w", i, err)
		}
	}()
	var reader contracts.Reader
	for e, err := range s.Entries(ctx, from, to) {
		if err == nil {
			err = ctx.Err() // a source need not check it
		}
		if err != nil {
			return err
		}
		if i == to {
			return errors.New("the source has more entries than it says")
		}
		if in == nil || in.Has(i) {
			l, err := open(&reader, e)
			if err != nil {
				return err
			}
			if err := f(i, l); err != nil {
				return err
			}
		}
		i++
	}
	if i < to {
		return errors.New("the source has fewer entries than it says")
	}
	return nil
}

// A line is an entry, or the stub that is left of one: exactly one of the two is not nil.
type line struct {
	hash  contracts.Digest // leaf hash of the entry
	entry *contracts.Statement
	stub  *contracts.Stub
}

func open(r *contracts.Reader, e contracts.Entry) (*line, error) {
	if contracts.IsStub(e) {
		s, err := r.Stub(e)
		if err != nil {
			return nil, err
		}
		return &line{hash: s.Entry, stub: s}, nil
	}
	sealed, err := r.Open(e)
	if err != nil {
		return nil, err
	}
	st, err := sealed.Statement()
	if err != nil {
		return nil, err
	}
	return &line{hash: e.Hash(), entry: st}, nil
}

// place returns the session, seq and time of an entry.
func (l *line) place() (session string, seq uint64, at contracts.Time) {
	if s := l.stub; s != nil {
		return s.Session, s.Seq, s.Time
	}
	return l.entry.Session, l.entry.Seq, l.entry.Time
}

// kind returns the kind of an entry.
func (l *line) kind() contracts.Kind {
	switch {
	case l.stub == nil:
		return l.entry.Kind()
	case l.stub.Decision != nil:
		return contracts.KindDecision
	}
	return contracts.KindReceipt
}

// name names the package in an error. It is deferred before contain.Error, so that it sees a panic
// in the source or the writer too.
func name(err *error) {
	if *err != nil {
		*err = fmt.Errorf("graph: %w", *err)
	}
}

// foreign is the code of the caller that may panic.
const foreign = "the source or the writer"
