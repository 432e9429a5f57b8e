package sharedmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// unspent returns what a balance is found by: all of it but what was spent.
func unspent(b contracts.Balance) contracts.Balance {
	b.Spent = 0
	return b
}

// end returns where a session ends. The caller holds mu.
func (s *Store) end(name string) proofgraph.End {
	if at := s.sessions[name]; at != nil {
		return at.end
	}
	return proofgraph.End{}
}

// holds reports whether the log is as guessed. The caller holds mu.
func (s *Store) holds(guess proofgraph.State) bool {
	for name, end := range guess.Sessions {
		if now := s.end(name); now.Next != end.Next || now.Last != end.Last {
			return false
		}
	}
	for _, b := range guess.Spent {
		if s.spent[unspent(b)] != b.Spent {
			return false
		}
	}
	return guess.Kernel == s.end("").Next
}

// answer returns what was asked for. The caller holds mu.
func (s *Store) answer(a proofgraph.Ask) proofgraph.State {
	state := proofgraph.State{
		Size:     s.size,
		Kernel:   s.end("").Next,
		Sessions: make(map[string]proofgraph.End, len(a.Sessions)),
	}
	for _, name := range a.Sessions {
		state.Sessions[name] = s.end(name)
	}
	for _, b := range a.Balances {
		b.Spent = s.spent[unspent(b)]
		state.Spent = append(state.Spent, b)
	}
	for _, nonce := range a.Nonces {
		if s.used[nonce] {
			state.Used = append(state.Used, nonce)
		}
	}
	return state
}

// write writes all of a change of a writer that knows these balances, or nothing, and returns the
// index of the first entry. The caller holds mu, and has the log for the writer.
func (s *Store) write(w *writer, c proofgraph.Change, known map[contracts.Balance]bool) (uint64, error) {
	for _, nonce := range c.Used {
		if s.used[nonce] {
			return 0, proofgraph.ErrMoved
		}
	}
	for _, i := range c.Settled {
		if err := s.settles(w, i); err != nil {
			return 0, err
		}
	}
	if err := s.consistent(c, known); err != nil {
		return 0, err
	}

	b := c.Batch
	b.At = s.size
	kept, err := s.log.Checkpoint(context.Background())
	if err != nil {
		return 0, err
	}
	marked := sizeOf(b.Checkpoint)
	if b.Checkpoint == nil || marked < s.marked || marked > 0 && bytes.HasPrefix(kept, b.Checkpoint) {
		b.Checkpoint = nil // or it is there, with lines of witnesses
	} else {
		s.marked = marked
	}
	if err := s.log.Append(context.Background(), b); err != nil {
		return 0, err
	}
	for i, name := range c.Of {
		if s.sessions[name] == nil {
			s.sessions[name] = new(session)
		}
		s.sessions[name].indexes = append(s.sessions[name].indexes, s.size+uint64(i))
	}
	for name, end := range c.Sessions {
		s.sessions[name].end = end
	}
	for _, b := range c.Spent {
		s.spent[unspent(b)] = b.Spent
	}
	for _, nonce := range c.Used {
		s.used[nonce] = true
	}
	for _, i := range c.Opened {
		s.decisions[s.size+uint64(i)] = &decision{by: w}
	}
	for _, i := range c.Settled {
		s.decisions[i].settler = w
	}
	s.size += uint64(len(b.Entries))
	return b.At, nil
}

// settles returns an error if the writer may not settle a decision. The caller holds mu.
func (s *Store) settles(w *writer, i uint64) error {
	d := s.decisions[i]
	switch {
	case d == nil:
		return proofgraph.ErrMoved
	case d.settler != nil && d.settler != w && d.by == w:
		return proofgraph.ErrFenced
	case d.settler != nil, d.by != w && !d.by.fenced && !d.by.left:
		return proofgraph.ErrMoved
	}
	return nil
}

// consistent returns an error if the parts of a change contradict each other or the log. The caller
// holds mu.
func (s *Store) consistent(c proofgraph.Change, known map[contracts.Balance]bool) error {
	if len(c.Of) != len(c.Entries) {
		return fmt.Errorf("sharedmem: %d entries, and the sessions of %d", len(c.Entries), len(c.Of))
	}
	of := make(map[string]uint64)
	for _, name := range c.Of {
		of[name]++
	}
	for name, n := range of {
		end, ok := c.Sessions[name]
		if has := s.end(name).Next; !ok || end.Next != has+n {
			return fmt.Errorf("sharedmem: session %q: %d entries after %d end before %d", name, n, has, end.Next)
		}
	}
	if len(of) != len(c.Sessions) {
		return errors.New("sharedmem: the end of a session that has no entry in the batch")
	}
	if !ascend(c.Opened) || !ascend(c.Settled) {
		return errors.New("sharedmem: decisions are not in ascending order")
	}
	if n := len(c.Opened); n > 0 && (c.Opened[0] < 0 || c.Opened[n-1] >= len(c.Entries)) {
		return fmt.Errorf("sharedmem: decisions at %d, of %d entries", c.Opened, len(c.Entries))
	}
	moved := make(map[contracts.Balance]bool)
	for _, b := range c.Spent {
		if b = unspent(b); moved[b] || !known[b] {
			return fmt.Errorf("sharedmem: balance %v moves twice, or was neither guessed nor asked for", b)
		}
		moved[b] = true
	}
	if used := slices.Compact(slices.Sorted(slices.Values(c.Used))); len(used) < len(c.Used) {
		return errors.New("sharedmem: a nonce is used twice")
	}
	return nil
}

func ascend[T int | uint64](list []T) bool {
	for i := range list {
		if i > 0 && list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

// sizeOf returns the size that a checkpoint says, and 0 if the bytes are no checkpoint.
func sizeOf(checkpoint []byte) uint64 {
	c, _, err := proofgraph.ParseCheckpoint(checkpoint)
	if err != nil {
		return 0
	}
	return c.Size
}
