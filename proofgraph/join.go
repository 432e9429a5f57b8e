package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

const (
	maxTries  = 16 // of an entry that may stand anywhere
	maxMoving = 64 // batches that take turns after what they guess has moved
	maxBlobs  = 16 << 20

	maxSigning = time.Second // about how long a turn signs, which is of all processes

	atOnce = 4 // signatures that are worth a goroutine
)

// place has the leader write an entry, and waits until it is durable. While it waits it may be the
// leader itself.
func (sh *sharing) place(d Draft) (*Slot, error) {
	if err := sh.log.placeable(d.Chain, d.Time); err != nil {
		return nil, err
	}
	if d.Forget != nil {
		return nil, errNotShared
	}
	s := &Slot{chain: d.Chain, waiter: waiter{log: sh.log}, joining: &joining{draft: &d, done: make(chan struct{})}}
	s.blobs = s.blob[:0]
	if err := s.resolve(d.Parents); err != nil {
		return nil, err
	}
	if err := sh.enqueue(s); err != nil {
		return nil, err
	}
	for {
		select {
		case <-s.done:
			if err := s.joining.err; err != nil {
				return nil, err
			}
			return s, nil
		default:
		}
		select {
		case <-s.done:
		case sh.lead <- struct{}{}:
			sh.write()
		case <-sh.log.done:
			if sh.withdraw(s) {
				return nil, sh.log.Err()
			}
			select { // a leader has it, or has put it back meanwhile
			case <-s.done:
			case sh.lead <- struct{}{}:
				sh.write()
			}
		}
	}
}

// resolve finds the parents. Their order is final, but for the one that may be the entry before.
func (s *Slot) resolve(parents []contracts.Digest) error {
	list := slices.Clone(parents)
	slices.SortFunc(list, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
	list = slices.Compact(list)
	s.log.indexMu.RLock()
	defer s.log.indexMu.RUnlock()
	for _, p := range list {
		_, lamport, ok := s.log.lookup(p)
		if !ok {
			return ErrUnknownParent
		}
		s.lamport = max(s.lamport, lamport)
	}
	s.parents = list
	return nil
}

func (sh *sharing) enqueue(s *Slot) error {
	l := sh.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.notSealed(); err != nil {
		return err
	}
	s.seq = s.chain.next
	sh.waiting = append(sh.waiting, s)
	return nil
}

// withdraw takes a slot back that no leader has taken.
func (sh *sharing) withdraw(s *Slot) bool {
	sh.log.mu.Lock()
	defer sh.log.mu.Unlock()
	i := slices.Index(sh.waiting, s)
	if i >= 0 {
		sh.waiting = slices.Delete(sh.waiting, i, i+1)
	}
	return i >= 0
}

// write writes what is waiting, as much as fits in a batch, and ends the lead, which the caller
// has. If anything fails of which it is not known that nothing was written, the log is sealed.
func (sh *sharing) write() {
	l, b := sh.log, &joint{sharing: sh}
	sh.gather()
	l.mu.Lock()
	slots := slices.Clone(sh.waiting[:min(len(sh.waiting), maxBatchEntries)])
	sh.waiting = sh.waiting[len(slots):]
	l.mu.Unlock()
	err := errGone
	defer func() { // on every way out: a store may panic, or end the goroutine
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: writing the record, or the store", x)
		}
		if err != nil {
			l.Seal(err)
			b.fail(slots)
		}
		<-sh.lead
	}()
	if sealed := l.Err(); sealed != nil {
		err = sealed
		return
	}
	err = b.write(slots)
}

// gather lets callers come back whose entries have just become durable, so that their next ones go
// with this batch.
func (sh *sharing) gather() {
	for before := 0; ; {
		sh.log.mu.Lock()
		n := len(sh.waiting)
		sh.log.mu.Unlock()
		if n <= before || n >= maxBatchEntries {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// A joint is a batch that is being made for all who wait.
type joint struct {
	*sharing
	turn   *State // what holds; nil of a guess
	slots  []*Slot
	signed int // how many of slots; the others are of different sessions, and are signed at once
	guess  State
	change Change
	ends   map[*Chain]End
	before []contracts.Balance // the balances that the slots name, as they were remembered before
	bytes  int
	blobs  int
}

// write writes slots as a guess and, if that is wrong or would be, in a turn.
func (b *joint) write(slots []*Slot) error {
	if !b.needsTurn(slots) {
		rest, err := b.compose(slots)
		if err != nil {
			return err
		}
		if len(b.slots) == 0 {
			return b.later(rest)
		}
		at, err := b.writer.Put(context.Background(), b.guess, b.change)
		if err == nil {
			b.wrong = 0
			b.placed(at)
			return b.later(rest)
		}
		if !errors.Is(err, ErrMoved) {
			return err
		}
		b.wrong = min(max(1, 2*b.wrong), maxMoving)
		b.turns = b.wrong
		b.undo()
		slots = append(b.slots, rest...)
	}
	return b.inTurn(slots)
}

// needsTurn reports whether a guess would be idle.
func (b *joint) needsTurn(slots []*Slot) bool {
	needs := b.turns > 0
	b.turns = max(0, b.turns-1)
	for _, s := range slots {
		needs = needs || s.draft.Turn || s.draft.Asks != nil || s.chain.unknown
		for _, balance := range s.draft.Balances {
			if n := b.moving[unspent(balance)]; n > 0 {
				needs = true
			}
		}
	}
	for balance, n := range b.moving {
		if n--; n > 0 {
			b.moving[balance] = n
		} else {
			delete(b.moving, balance)
		}
	}
	return needs
}

// inTurn writes slots in a turn.
func (b *joint) inTurn(slots []*Slot) (err error) {
	state, err := b.writer.Turn(context.Background(), asked(slots))
	if errors.Is(err, ErrMoved) { // there is none
		b.slots = slots
		return b.again(nil)
	}
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, b.writer.End(context.Background(), Change{}))
		}
	}()
	if err := b.adopt(slots, &state); errors.As(err, new(*unreadError)) {
		b.slots = slots
		return b.again(nil)
	} else if err != nil {
		return err
	}
	rest, err := b.compose(slots)
	if err != nil {
		return err
	}
	ended = true
	err = b.writer.End(context.Background(), b.change)
	switch {
	case err == nil:
		b.placed(state.Size)
		return b.later(rest)
	case !errors.Is(err, ErrMoved):
		return err
	}
	b.undo()
	return b.again(rest)
}

// asked names what slots are about.
func asked(slots []*Slot) (a Ask) {
	sessions, balances := map[string]bool{}, map[contracts.Balance]bool{}
	for _, s := range slots {
		if name := s.chain.session; !sessions[name] {
			sessions[name] = true
			a.Sessions = append(a.Sessions, name)
		}
		for _, x := range s.draft.Balances {
			if x = unspent(x); !balances[x] {
				balances[x] = true
				a.Balances = append(a.Balances, x)
			}
		}
		a.Nonces = append(append(a.Nonces, s.draft.Nonces...), s.draft.Asks...)
	}
	slices.Sort(a.Nonces)
	a.Nonces = slices.Compact(a.Nonces)
	return a
}

// unspent returns what a balance is found by.
func unspent(b contracts.Balance) contracts.Balance {
	b.Spent = 0
	return b
}

// adopt remembers what a turn has shown. If there are entries of the session "" that the log has
// not read, it reads them: what was judged before must be judged by them.
func (b *joint) adopt(slots []*Slot, state *State) error {
	b.turn = state
	a := asked(slots)
	for _, x := range state.Spent {
		if b.remembered.Spent(x) != x.Spent {
			b.moving[unspent(x)] = maxMoving
		}
		b.remembered.SetSpent(x)
	}
	for _, nonce := range a.Nonces {
		b.remembered.SetUsed(nonce, slices.Contains(state.Used, nonce))
	}
	kernel := b.log.Chain(contracts.SessionKernel)
	if state.Kernel != kernel.next {
		if err := b.follow(context.Background(), kernel, b.each); err != nil {
			return err
		}
		if state.Kernel != kernel.next {
			return fmt.Errorf("proofgraph: the store says that the session %q has %d entries, and has %d",
				contracts.SessionKernel, state.Kernel, kernel.next)
		}
	}
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	for _, s := range slots {
		c := s.chain
		if end := state.Sessions[c.session]; end.Next != c.next || c.unknown {
			c.setEnd(end)
		}
		c.unknown = false
	}
	b.log.size = max(b.log.size, state.Size)
	return nil
}

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

// ahead is the index of a place in a guess: it is not known.
const ahead = ^uint64(0)

// remember notes a balance as it is before the batch.
func (b *joint) remember(x contracts.Balance) {
	if !slices.ContainsFunc(b.before, func(y contracts.Balance) bool { return unspent(y) == x }) {
		x.Spent = b.remembered.Spent(x)
		b.before = append(b.before, x)
	}
}

// placed says that the batch is durable, from an index on.
func (b *joint) placed(at uint64) {
	l := b.log
	l.mu.Lock()
	for c, end := range b.ends {
		c.setEnd(end)
	}
	for i, s := range b.slots {
		s.index, s.state = at+uint64(i), stored
		if s.chain.seen.Next == s.header.Seq { // who placed it knows what it says
			s.chain.seen = s.end
		}
	}
	l.size = max(l.size, at+uint64(len(b.slots)))
	l.grown(l.size, l.marked)
	l.mu.Unlock()
	l.indexMu.Lock()
	for _, s := range b.slots {
		if s.decision != nil { // its receipt will name it
			l.older.known[s.hash] = EntryAt{s.index, s.hash, s.header.Lamport}
		}
		for _, p := range s.parents {
			if s.draft.Settles != 0 && l.older.known[p].Index == s.draft.Settles {
				delete(l.older.known, p)
			}
		}
	}
	l.indexMu.Unlock()
	for _, s := range b.slots {
		if s.draft.End != nil {
			l.Seal(s.draft.End)
		}
		close(s.done)
	}
}

// undo takes back what Take has done for entries that were not written.
func (b *joint) undo() {
	for _, x := range b.before {
		b.remembered.SetSpent(x)
	}
	for _, nonce := range b.change.Used {
		b.remembered.SetUsed(nonce, false)
	}
	for _, s := range slices.Backward(b.slots) {
		if s.draft.Undo != nil {
			s.draft.Undo()
		}
	}
}

// again returns slots to their callers that were not written in a turn, but those that stand
// anywhere: they wait for another one. If there are receipts of others' decisions, one of these was
// written by another process first: they are returned, and the rest waits.
func (b *joint) again(rest []*Slot) error {
	var keep []*Slot
	others := slices.ContainsFunc(b.slots, func(s *Slot) bool { return s.draft.Others })
	for _, s := range b.slots {
		if s.draft.Others || !others && !s.draft.Anywhere {
			s.giveBack(ErrMoved)
			continue
		}
		if keep = append(keep, s); others {
			continue
		}
		if s.tries++; s.tries > maxTries {
			return fmt.Errorf("proofgraph: the store has refused an entry %d times: %w", maxTries, ErrMoved)
		}
	}
	return b.later(append(keep, rest...))
}

// later puts slots before all others that wait.
func (b *joint) later(slots []*Slot) error {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	b.waiting = append(slices.Clone(slots), b.waiting...)
	return nil
}

// fail ends the wait of all that were not given back. It is unknown whether they were written, and
// the log is sealed: Wait says so.
func (b *joint) fail(slots []*Slot) {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	for _, s := range slots {
		select {
		case <-s.done:
		default:
			s.state = refused
			close(s.done)
		}
	}
}

func (s *Slot) giveBack(err error) {
	s.joining.err = err
	close(s.done)
}
