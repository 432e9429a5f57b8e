package proofgraph

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/keys"
)

// A Slot is an entry that has its place in the log. Every method is safe for concurrent use.
type Slot struct {
	waiter
	chain    *Chain
	header   contracts.Header
	entry    contracts.Entry
	hash     contracts.Digest
	decision *contracts.DecisionRecord
	blobs    [][]byte
	parent   [1]contracts.Digest // memory for the parents that most entries have
	blob     [1][]byte
	*joining // of a log over a Shared
}

// write makes the entry, and lets the chain go on after it. If that fails the place is void, which
// seals the log, because nothing is written after a hole.
func (s *Slot) write(write func(Place) (*contracts.Statement, error)) {
	err := errGone
	defer func() { // on every way out: a panic, or the end of the goroutine
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: writing the record", x)
		}
		if err != nil {
			s.log.Seal(err)
		}
	}()
	err = s.compose(write)
}

func (s *Slot) compose(write func(Place) (*contracts.Statement, error)) error {
	st, err := write(Place{s})
	if err == nil {
		err = s.log.Err() // sealed meanwhile, with another cause
	}
	if err == nil {
		err = s.sign(st)
	}
	if err == nil {
		s.decision = st.Decision
		s.log.fill(s, st.Close != nil)
	}
	return err
}

// sign encodes and signs. It uses one buffer for the bytes to be signed and one of the entry's size
// for the entry.
func (s *Slot) sign(st *contracts.Statement) error {
	l := s.log
	if st == nil || st.Kind() == "" {
		return errNoRecord
	}
	if (st.Genesis != nil) != (s.index == 0) {
		return errors.New("proofgraph: place: genesis is the first entry and no other")
	}
	st.Header = s.header
	scratch, _ := l.scratch.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	defer l.scratch.Put(scratch)
	buf := st.Append((*scratch)[:0])
	n := len(buf)
	if n > contracts.MaxPayload { // which keeps the entry below its limit too
		return fmt.Errorf("proofgraph: place: a record of %d bytes, want at most %d", n, contracts.MaxPayload)
	}
	buf = crypto.AppendPAE(buf, contracts.PayloadType, buf)
	*scratch = buf
	var room [64]byte
	sig, err := s.appendSignature(room[:0], buf[n:])
	if err != nil {
		return err
	}
	leaf := make([]byte, 1, 1+envelopeSize+(n+2)/3*4) // RFC 6962 puts 0x00 before a leaf to hash it
	leaf = crypto.AppendEnvelope(leaf, contracts.PayloadType, buf[:n], l.keyID, sig)
	s.entry, s.hash = leaf[1:len(leaf):len(leaf)], crypto.Sum(leaf)
	return nil
}

// envelopeSize is the size of an entry without its payload, at most.
const envelopeSize = 256

// appendSignature appends the signature of an entry.
func (s *Slot) appendSignature(dst, msg []byte) ([]byte, error) {
	l := s.log
	if _, ok := l.key.(crypto.PrivateKey); ok {
		return crypto.AppendSignature(dst, l.key, msg)
	}
	asked := keys.Ask(l.key, msg)
	switch {
	case asked.Await(l.done):
		sig, err := asked.Answer()
		return append(dst, sig...), named(err)
	case l.Err() != nil:
		return dst, l.Err()
	}
	return dst, errSilent
}

// Index returns the index of the entry in the log.
func (s *Slot) Index() uint64 { return s.index }

// Wait returns nil when the entry, and every entry before it, is durable. Otherwise the log is
// sealed and Wait returns Err. It is then unknown whether the entry was stored, unless the log was
// sealed before it was written.
func (s *Slot) Wait() error {
	if s == nil {
		return errNoSlot
	}
	return s.wait()
}

// Entry returns the signed entry. It must not be changed before Wait returns.
func (s *Slot) Entry() contracts.Entry { return s.entry }

// Hash returns the hash of the entry, by which other entries name it.
func (s *Slot) Hash() contracts.Digest { return s.hash }

// Durable returns the entry and its decision if that is an ALLOW and durable. A permit to run is
// made from them.
func (s *Slot) Durable() (contracts.Entry, *contracts.DecisionRecord, error) {
	switch {
	case s == nil:
		return nil, nil, errNoSlot
	case s.progress() != stored:
		return nil, nil, errors.New("proofgraph: the entry is not durable")
	case s.decision == nil || s.decision.Verdict != contracts.Allow:
		return nil, nil, errors.New("proofgraph: the entry is not an ALLOW")
	}
	return s.entry, s.decision, nil
}

var (
	errNoRecord = errors.New("proofgraph: place: no record")
	errNoSlot   = errors.New("proofgraph: no place in the log")
)
