package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

const (
	maxTries  = 16 // of an entry that may stand anywhere
	maxMoving = 64 // batches that take turns after what they guess has moved
)

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
	ask := asked(slots)
	state, err := b.writer.Turn(context.Background(), ask)
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
	if err := b.adopt(slots, ask.Nonces, &state); errors.As(err, new(*unreadError)) {
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

// adopt remembers what a turn has shown that was asked for slots, which use nonces. If there are
// entries of the session "" that the log has not read, it reads them: what was judged before must
// be judged by them.
func (b *joint) adopt(slots []*Slot, nonces []string, state *State) error {
	b.turn = state
	for _, x := range state.Spent {
		if b.remembered.Spent(x) != x.Spent {
			b.moving[unspent(x)] = maxMoving
		}
		b.remembered.SetSpent(x)
	}
	for _, nonce := range nonces {
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
