package proofgraph

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const (
	maxBlobs   = 16 << 20
	maxSigning = time.Second // about how long a turn signs, which is of all processes
	atOnce     = 4           // signatures that are worth a goroutine
)

// A batch is made of what waits: each slot gets its place, its record is made, and it is signed.

// compose makes the batch of as many slots as fit, and returns the others. Slots that have no place
// are given back. An error is one of making an entry.
func (b *joint) compose(slots []*Slot) (rest []*Slot, err error) {
	n := len(slots)
	b.slots, b.signed, b.before, b.bytes, b.blobs = make([]*Slot, 0, n), 0, nil, 0, 0
	b.guess = State{Kernel: b.log.Chain(contracts.SessionKernel).next, Sessions: make(map[string]End, n)}
	b.change, b.ends = Change{Sessions: make(map[string]End, n)}, make(map[*Chain]End, n)
	b.change.Entries, b.change.Of = make([]contracts.Entry, 0, n), make([]string, 0, n)
	began := time.Now()
	for i, s := range slots {
		if b.unsigned(s.chain) || b.bytes+(len(b.slots)-b.signed)*contracts.MaxEntry > maxBatchBytes {
			if err := b.sign(); err != nil {
				return nil, err
			}
		}
		slow := b.turn != nil && len(b.slots) > 0 && time.Since(began) > maxSigning
		if b.bytes > maxBatchBytes || b.blobs > maxBlobs || slow {
			rest = slots[i:]
			break
		}
		refused, err := b.add(s)
		if err != nil {
			return nil, err
		}
		if refused != nil {
			s.giveBack(refused)
			continue
		}
		if s.draft.Turn { // what is judged after it is judged by it
			rest = slots[i+1:]
			break
		}
	}
	if err := b.sign(); err != nil {
		return nil, err
	}
	for _, x := range b.before {
		if now := b.remembered.Spent(x); now != x.Spent {
			x.Spent = now
			b.change.Spent = append(b.change.Spent, x)
		}
	}
	b.guess.Spent = b.before
	slices.Sort(b.change.Settled)
	return rest, nil
}

// unsigned reports whether an entry of a chain, whose hash the next one names, has its place in the
// batch and is not signed yet.
func (b *joint) unsigned(c *Chain) bool {
	return slices.ContainsFunc(b.slots[b.signed:], func(s *Slot) bool { return s.chain == c })
}

// add puts a slot in the next place of the batch, and makes its record. It returns why the slot has
// no place, or why the record of one that has a place cannot be made.
func (b *joint) add(s *Slot) (refused, failed error) {
	d, c := s.draft, s.chain
	end, ok := b.ends[c]
	if !ok {
		end = c.ending()
	}
	at := d.Time
	switch {
	case end.Closed:
		return ErrClosed, nil
	case !d.Anywhere && end.Next != s.seq, !d.AnyTime && at < end.Time:
		return ErrMoved, nil
	}
	if d.Settles != 0 && slices.Contains(b.change.Settled, d.Settles) {
		return ErrMoved, nil
	}
	for _, nonce := range d.Nonces {
		if slices.Contains(b.change.Used, nonce) || b.turn != nil && slices.Contains(b.turn.Used, nonce) {
			return ErrMoved, nil
		}
	}
	prev := end.Last
	if end.Next == 0 {
		prev = b.log.genesis
	}
	s.header = contracts.Header{Key: b.log.keyID, Prev: prev, Seq: end.Next, Session: c.session,
		Time: max(at, end.Time), Lamport: max(end.Lamport, s.lamport) + 1}
	s.header.Parents = slices.DeleteFunc(slices.Clone(s.parents), func(p contracts.Digest) bool { return p == prev })
	if n := len(s.header.Parents); n > contracts.MaxParents {
		return fmt.Errorf("proofgraph: place: %d parents, want at most %d", n, contracts.MaxParents), nil
	}
	if s.index = ahead; b.turn != nil {
		s.index = b.turn.Size + uint64(len(b.slots))
	}
	for _, x := range d.Balances {
		b.remember(unspent(x))
	}
	if d.Take != nil {
		if err := d.Take(Place{s}); err != nil {
			return err, nil
		}
	}
	s.blobs = s.blob[:0]
	st, err := d.Write(Place{s})
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, errNoRecord
	}
	s.record, s.decision = st, st.Decision
	if !ok {
		b.guess.Sessions[c.session] = end
	}
	b.ends[c] = end
	if st.Decision != nil {
		b.change.Opened = append(b.change.Opened, len(b.slots))
		b.change.Used = append(b.change.Used, d.Nonces...) // a denial uses nothing
	}
	if d.Settles != 0 {
		b.change.Settled = append(b.change.Settled, d.Settles)
	}
	b.change.Blobs = append(b.change.Blobs, s.blobs...)
	for _, blob := range s.blobs {
		b.blobs += len(blob)
	}
	b.slots = append(b.slots, s)
	return nil, nil
}

// ahead is the index of a place in a guess: it is not known.
const ahead = ^uint64(0)

// remember notes a balance as it is before the batch.
func (b *joint) remember(x contracts.Balance) {
	if !slices.ContainsFunc(b.before, func(y contracts.Balance) bool { return unspent(y) == x }) {
		x.Spent = b.remembered.Spent(x)
		b.before = append(b.before, x)
	}
}

// sign makes the entries that are not signed yet, and moves the ends of their sessions. A key that
// is not in memory is asked for all signatures at once.
func (b *joint) sign() error {
	list := b.slots[b.signed:]
	signers := len(list)
	if _, ok := b.log.key.(crypto.PrivateKey); ok {
		signers = min((signers+atOnce-1)/atOnce, runtime.GOMAXPROCS(0))
	}
	if err := together(len(list), signers, func(i int) error { return list[i].sign(list[i].record) }); err != nil {
		return err
	}
	for _, s := range list {
		end := b.ends[s.chain]
		end.advance(&s.header, s.hash, s.record)
		s.end, s.record = end, nil
		b.ends[s.chain], b.change.Sessions[s.chain.session] = end, end
		b.change.Entries, b.change.Of = append(b.change.Entries, s.entry), append(b.change.Of, s.chain.session)
		b.bytes += len(s.entry)
	}
	b.signed = len(b.slots)
	return nil
}
