package evidence

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A stubbed is a stub of the log.
type stubbed struct {
	index uint32
	prev  uint32 // index of the entry before it in its session; 0: it is the first
	line  half   // what its bytes are known by when they are read again
}

// headerOf returns what a stub has of a header.
func headerOf(s *contracts.Stub) *contracts.Header {
	return &contracts.Header{Lamport: s.Lamport, Parents: s.Parents, Seq: s.Seq, Session: s.Session, Time: s.Time}
}

// addStub appends a stub to its chain, as add appends an entry.
func (l *log) addStub(s *contracts.Stub, line half, c *chain) error {
	at := l.size()
	if r := s.Receipt; r != nil && r.Decision < at {
		l.named.set(r.Decision)
	}
	l.stubs = append(l.stubs, stubbed{uint32(at), uint32(c.index), line})
	return l.append(s.Entry, headerOf(s), c)
}

// stub returns the stub of an index, or nil if an entry stands there.
func (l *log) stub(index uint64) *stubbed {
	if i, ok := l.findStub(index); ok {
		return &l.stubs[i]
	}
	return nil
}

// findStub returns the number of the first stub of that index or a higher one, and whether it is of
// that index.
func (l *log) findStub(index uint64) (int, bool) {
	return slices.BinarySearchFunc(l.stubs, index, func(s stubbed, index uint64) int {
		return cmp.Compare(uint64(s.index), index)
	})
}

// errLetGo is an errChanged: something is not there any more, since the store has let go of it, or
// erased it, after it was first read.
var errLetGo = fmt.Errorf("%w: something was let go of, or erased, in the meantime", errChanged)

// mostAgain is how often a store is read from its first entry again because of errLetGo.
const mostAgain = 16

// same returns an error if a line that is read again is not the one that was folded. It is errLetGo
// if it is a stub by now, and errChanged for any other line.
func (l *log) same(index uint64, line contracts.Entry) error {
	hash := crypto.LeafHash(line)
	switch s := l.stub(index); {
	case s != nil && s.line == halfOf(hash), s == nil && hash == l.index.Hash(index):
		return nil
	case s == nil && contracts.IsStub(line):
		return errLetGo
	}
	return errChanged
}

// has reports whether the log has an entry of that hash, or its stub.
func (l *log) has(hash contracts.Digest) bool {
	_, _, ok := l.index.Lookup(hash)
	return ok
}

// names returns the Lamport time of an entry that another one may name, or what is wrong with
// naming it.
func (l *log) names(hash contracts.Digest) (lamport uint64, what string) {
	at, lamport, ok := l.index.Lookup(hash)
	switch {
	case !ok:
		return 0, "one is no earlier entry"
	case l.gone.has(at):
		return 0, "one is of the set of an earlier condense entry"
	}
	return lamport, ""
}
