package proofgraph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// A Slot is a place in the log, fixed before the bytes of its entry exist. It belongs to the
// goroutine that placed it, which signs or voids it. After that every method but Sign is safe for
// concurrent use.
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
}

// Next returns the index that the next place will have, unless another is taken first. After
// [Log.PlaceLast] it waits for the end of the log.
func (l *Log) Next() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.notSealed(); err != nil {
		return 0, err
	}
	return l.next(), nil
}

// Place takes the next place of the log for the next entry of a chain. at is the time of the entry,
// which must not be before the chain's Time. parents are the entries that caused it, in any order;
// repeats and the chain's last entry are left out. If one of them is not durable, or in the set of
// a condense entry before the place, Place returns ErrUnknownParent.
//
// If under is not nil, Place calls it with the index of the place while no other place can be
// taken. It must be quick and must not use the log. If it returns an error, Place returns that
// error and takes no place. A place that was taken must be signed or voided; otherwise the log ends
// there.
func (l *Log) Place(
	c *Chain, at contracts.Time, parents []contracts.Digest, under func(index uint64) error,
) (*Slot, error) {
	return l.place(c, at, parents, under, nil)
}

// PlaceLast is Place for the entry that ends the log, for instance one that revokes the log's own
// key, after which nothing that the key signs would count. No further place is taken and no
// checkpoint is signed: calls for either wait until the entry is durable, which seals the log with
// that cause. If the entry cannot be signed or stored, the log is sealed with that error.
func (l *Log) PlaceLast(
	c *Chain, at contracts.Time, parents []contracts.Digest, under func(index uint64) error, cause error,
) (*Slot, error) {
	if cause == nil {
		cause = errors.New("the log was ended")
	}
	return l.place(c, at, parents, under, cause)
}

func (l *Log) place(
	c *Chain, at contracts.Time, parents []contracts.Digest, under func(index uint64) error, last error,
) (*Slot, error) {
	if err := l.placeable(c, at); err != nil {
		return nil, err
	}
	s := &Slot{chain: c, waiter: waiter{log: l}}
	forgotten := l.forgotten.Load()
	s.header = contracts.Header{Key: l.keyID, Prev: c.last, Seq: c.next, Session: c.session, Time: at}
	if err := s.link(parents); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock() // a panic in under takes no place
	if err := l.notSealed(); err != nil {
		return nil, err
	}
	if l.forgotten.Load() != forgotten { // since the parents were looked up
		if err := s.link(parents); err != nil {
			return nil, err
		}
	}
	s.index = l.next()
	if s.index >= maxEntries {
		return nil, errors.New("proofgraph: place: the log is full")
	}
	if under != nil {
		if err := under(s.index); err != nil {
			return nil, err
		}
	}
	l.slots = append(l.slots, s)
	l.last = last
	c.open = true
	return s, nil
}

// placeable returns an error if the next entry of a chain cannot be placed, at that time.
func (l *Log) placeable(c *Chain, at contracts.Time) error {
	if err := l.Err(); err != nil {
		return err
	}
	switch {
	case c == nil || c.log != l:
		return errors.New("proofgraph: place: not a chain of this log")
	case c.closed:
		return ErrClosed
	case c.open:
		return errors.New("proofgraph: place: the chain's entry before this one is not signed yet")
	case c.session != contracts.SessionKernel && c.session != contracts.SessionRefused &&
		!contracts.IsSession(c.session):
		return errors.New("proofgraph: place: not a legal session name")
	case at < c.time:
		return errors.New("proofgraph: place: time runs back within the session; give at least Chain.Time")
	case contracts.TimeOf(at.Time()) != at:
		return errors.New("proofgraph: place: a time outside the years 1970 to 9999")
	}
	return nil
}

// link fills in the parents and the Lamport time, which is later than that of every entry named.
func (s *Slot) link(parents []contracts.Digest) error {
	h := &s.header
	h.Lamport = s.chain.lamport
	list := append(s.parent[:0], parents...)
	if len(list) > 1 {
		slices.SortFunc(list, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
		list = slices.Compact(list)
	}
	if i := slices.Index(list, h.Prev); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) > contracts.MaxParents {
		return fmt.Errorf("proofgraph: place: %d parents, want at most %d", len(list), contracts.MaxParents)
	}
	if len(list) > 0 {
		h.Parents = list
		s.log.indexMu.RLock()
		defer s.log.indexMu.RUnlock()
		for _, p := range list {
			_, lamport, ok := s.log.lookup(p)
			if !ok {
				return ErrUnknownParent
			}
			h.Lamport = max(h.Lamport, lamport)
		}
	}
	h.Lamport++
	return nil
}

// Index returns the index of the entry in the log.
func (s *Slot) Index() uint64 { return s.index }

// Header returns the header of the entry. All of it is final.
func (s *Slot) Header() contracts.Header {
	h := s.header
	h.Parents = slices.Clone(h.Parents)
	return h
}

// Sign sets the Header of st, signs st as the entry of the slot, and lets the chain go on after it.
// The blobs become durable no later than the entry. They are not copied and must not change before
// Wait returns. Nor must st.Decision, which Durable returns.
//
// If the signer fails or panics, or the record is too large, Sign returns an error, the place is
// void and the log is sealed. A signer that is not in memory has failed if it does not answer
// within 10 seconds.
func (s *Slot) Sign(st *contracts.Statement, blobs ...[]byte) error {
	l := s.log
	if err := l.Err(); err != nil {
		return err
	}
	if s.progress() != placed {
		return errors.New("proofgraph: sign: the place has its entry already")
	}
	if err := s.write(st); err != nil {
		l.Seal(err)
		return err
	}
	s.decision = st.Decision
	s.blobs = append(s.blob[:0], blobs...)
	if !l.fill(s, st.Close != nil) {
		return l.Err() // sealed meanwhile, with another cause
	}
	return nil
}

// write encodes and signs. It uses one buffer for the bytes to be signed and one of the entry's
// size for the entry.
func (s *Slot) write(st *contracts.Statement) (err error) {
	defer contain.Error(&err, "proofgraph: writing the record")
	l := s.log
	if st == nil || st.Kind() == "" {
		return errors.New("proofgraph: sign: no record")
	}
	if (st.Genesis != nil) != (s.index == 0) {
		return errors.New("proofgraph: sign: genesis is the first entry and no other")
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
		return fmt.Errorf("proofgraph: sign: a record of %d bytes, want at most %d", n, contracts.MaxPayload)
	}
	buf = crypto.AppendPAE(buf, contracts.PayloadType, buf)
	*scratch = buf
	var room [64]byte
	sig, err := l.appendSignature(room[:0], buf[n:])
	if err != nil {
		return err
	}
	leaf := make([]byte, 1, 1+envelopeSize+(n+2)/3*4) // RFC 6962 puts 0x00 before a leaf to hash it
	leaf = crypto.AppendEnvelope(leaf, contracts.PayloadType, buf[:n], l.keyID, sig)
	s.entry, s.hash = leaf[1:len(leaf):len(leaf)], crypto.Sum(leaf)
	return nil
}

// appendSignature appends the signature of an entry.
func (l *Log) appendSignature(dst, msg []byte) ([]byte, error) {
	if _, ok := l.key.(crypto.PrivateKey); ok {
		return crypto.AppendSignature(dst, l.key, msg)
	}
	s := ask(l.key, msg)
	switch {
	case s.await(l.done):
		return append(dst, s.bytes...), s.err
	case l.Err() != nil:
		return dst, l.Err()
	}
	return dst, errSilent
}

// envelopeSize is the size of an entry without its payload, at most.
const envelopeSize = 256

// Void abandons the place, which seals the log, because nothing is written after a hole. If the
// entry is signed, or the slot is nil, Void does nothing, so that it can be deferred.
func (s *Slot) Void(cause error) {
	if s != nil && s.progress() == placed {
		s.log.Seal(cause)
	}
}

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
	errNoSlot = errors.New("proofgraph: no place in the log")
	errGone   = errors.New("proofgraph: the goroutine was ended from within the signer or the store")
)
