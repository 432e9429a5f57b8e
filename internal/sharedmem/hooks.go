package sharedmem

import (
	"context"

	"github.com/helmkernel/helm/proofgraph"
)

// An Op is a call of a writer's Put, Turn or End. Nothing in it may be changed.
type Op struct {
	Writer uint64 // its number
	Name   string // Put, Turn or End
	Change proofgraph.Change
}

// Hooks are called by Put, Turn and End of every writer, without a lock, so that they may use the
// store, kill writers and wait. A nil hook is not called.
//
// A fault is made like this. To delay a call, wait in Before. To refuse it, return an error from
// Before, for instance ErrMoved. To lose the answer of one that was written, return an error from
// After. To deliver a call after its writer was fenced, have Before kill the writer and another one
// call Dead.
type Hooks struct {
	// Before is called before the writer waits for the log. If it returns an error, the call
	// returns that and changes nothing. An End ends the turn all the same.
	Before func(ctx context.Context, op Op) error

	// After is called after all else, with the error of the call, and returns the error that the
	// call returns in its place. After a Turn that returns an error there is no turn.
	After func(ctx context.Context, op Op, err error) error
}

// Hook replaces the hooks. Calls that have begun keep theirs.
func (s *Store) Hook(h Hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

// hooked does what a call does, between the hooks.
func (w *writer) hooked(ctx context.Context, name string, c proofgraph.Change, do func() error) error {
	w.store.mu.RLock()
	h := w.store.hooks
	w.store.mu.RUnlock()
	op := Op{w.id, name, c}
	var err error
	if h.Before != nil {
		err = h.Before(ctx, op)
	}
	if err == nil {
		err = do()
	}
	if h.After != nil {
		err = h.After(ctx, op, err)
	}
	return err
}
