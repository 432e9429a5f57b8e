package sharedmem

import (
	"context"
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A writer appends to a store. Other than the contract has it, it is safe for concurrent use.
type writer struct {
	store *Store
	id    uint64
	fence chan struct{} // closed when it is fenced

	killed, fenced, left bool
	asked                map[contracts.Balance]bool // what the turn asked for
}

// The errors of calls that a log must not make, or that no process would.
var (
	errOwnTurn = errors.New("sharedmem: the writer is in its turn: only End or Leave may be called")
	errNoTurn  = errors.New("sharedmem: End without a turn")
	errLeft    = errors.New("sharedmem: the writer has left")
	errKilled  = errors.New("sharedmem: the writer was killed")
)

func (w *writer) ID() uint64 { return w.id }

// Kill is [Store.Kill] of the writer.
func (w *writer) Kill() { w.store.Kill(w.id) }

func (w *writer) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (at uint64, err error) {
	if err := w.begin(ctx); err != nil {
		return 0, err
	}
	err = w.hooked(ctx, "Put", c, func() error {
		at, err = w.put(ctx, guess, c)
		return err
	})
	if err != nil {
		return 0, err
	}
	return at, nil
}

func (w *writer) put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
	if err := w.take(ctx); err != nil {
		return 0, err
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { <-s.turns }()
	if err := w.gone(); err != nil {
		return 0, err
	}
	if !s.holds(guess) {
		return 0, proofgraph.ErrMoved
	}
	guessed := make(map[contracts.Balance]bool)
	for _, b := range guess.Spent {
		guessed[unspent(b)] = true
	}
	return s.write(w, c, guessed)
}

func (w *writer) Turn(ctx context.Context, a proofgraph.Ask) (state proofgraph.State, err error) {
	if err := w.begin(ctx); err != nil {
		return proofgraph.State{}, err
	}
	err = w.hooked(ctx, "Turn", proofgraph.Change{}, func() error {
		state, err = w.turn(ctx, a)
		return err
	})
	if err != nil {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		w.release()
		return proofgraph.State{}, err
	}
	return state, nil
}

func (w *writer) turn(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	if err := w.take(ctx); err != nil {
		return proofgraph.State{}, err
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	err := w.gone()
	if err == nil && w.killed {
		err = errKilled
	}
	if err != nil {
		<-s.turns
		return proofgraph.State{}, err
	}
	s.holder, w.asked = w, make(map[contracts.Balance]bool)
	for _, b := range a.Balances {
		w.asked[unspent(b)] = true
	}
	return s.answer(a), nil
}

// End ends the turn, whatever it returns.
func (w *writer) End(ctx context.Context, c proofgraph.Change) error {
	s := w.store
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.release()
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.hooked(ctx, "End", c, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch err := w.gone(); {
		case err != nil:
			return err
		case s.holder != w && w.killed:
			return errKilled
		case s.holder != w:
			return errNoTurn
		}
		_, err := s.write(w, c, w.asked)
		w.release()
		return err
	})
}

func (w *writer) Dead(ctx context.Context) ([]uint64, error) {
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.writers {
		if other != w && other.killed && !other.fenced && !other.left {
			other.fenced = true
			close(other.fence)
		}
	}
	var open []uint64
	for i, d := range s.decisions {
		if d.settler == nil && (d.by.fenced || d.by.left) {
			open = append(open, i)
		}
	}
	slices.Sort(open)
	return open, nil
}

func (w *writer) Leave(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.left = true
	w.release()
	return nil
}

// begin is what every call but End and Leave checks before all else.
func (w *writer) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	if w.store.holder == w {
		return errOwnTurn
	}
	return w.gone()
}

// gone returns an error if the writer was fenced or left. The caller holds mu.
func (w *writer) gone() error {
	switch {
	case w.fenced:
		return proofgraph.ErrFenced
	case w.left:
		return errLeft
	}
	return nil
}

// take waits until the log is nobody else's.
func (w *writer) take(ctx context.Context) error {
	select {
	case w.store.turns <- struct{}{}:
		return nil
	case <-w.fence:
		return proofgraph.ErrFenced
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends the writer's turn if it has one. The caller holds mu.
func (w *writer) release() {
	if w.store.holder == w {
		w.store.holder, w.asked = nil, nil
		<-w.store.turns
	}
}
