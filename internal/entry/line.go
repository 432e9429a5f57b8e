package entry

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
)

// A Line is what a line of a log says: an entry, or the stub that is left of one. Exactly one of
// the two is not nil.
type Line struct {
	Hash  contracts.Digest // leaf hash of the entry
	Entry *contracts.Statement
	Stub  *contracts.Stub
}

// Read reads a line of a log. It verifies no signature.
func Read(r *contracts.Reader, e contracts.Entry) (*Line, error) {
	if contracts.IsStub(e) {
		s, err := r.Stub(e)
		if err != nil {
			return nil, err
		}
		return &Line{Hash: s.Entry, Stub: s}, nil
	}
	st, err := Open(r, e)
	if err != nil {
		return nil, err
	}
	return &Line{Hash: e.Hash(), Entry: st}, nil
}

// Place returns the session, seq and time of the entry.
func (l *Line) Place() (session string, seq uint64, at contracts.Time) {
	if s := l.Stub; s != nil {
		return s.Session, s.Seq, s.Time
	}
	return l.Entry.Session, l.Entry.Seq, l.Entry.Time
}

// Name returns session/seq.
func (l *Line) Name() string {
	session, seq, _ := l.Place()
	return session + "/" + strconv.FormatUint(seq, 10)
}

// Kind returns the kind of the entry.
func (l *Line) Kind() contracts.Kind {
	switch {
	case l.Stub == nil:
		return l.Entry.Kind()
	case l.Stub.Decision != nil:
		return contracts.KindDecision
	}
	return contracts.KindReceipt
}

// Judgement returns the decision in an entry that is there whole, or nil.
func (l *Line) Judgement() *contracts.DecisionRecord {
	if l.Entry == nil {
		return nil
	}
	return l.Entry.Judgement()
}

// Decides reports whether a call was judged in the entry.
func (l *Line) Decides() bool {
	return l.Judgement() != nil || l.Stub != nil && l.Stub.Decision != nil
}
