package sharedmem

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// entry is a change by one entry, which is the first of its session.
func entry(session string) proofgraph.Change {
	return proofgraph.Change{
		Batch:    proofgraph.Batch{Entries: []contracts.Entry{contracts.Entry("entry of " + session)}},
		Of:       []string{session},
		Sessions: map[string]proofgraph.End{session: {Next: 1}},
	}
}

func join(t *testing.T, s *Store) proofgraph.Writer {
	t.Helper()
	w, err := s.Join(t.Context(), "example.com/log")
	require.NoError(t, err)
	return w
}

func size(t *testing.T, s *Store) uint64 {
	t.Helper()
	n, err := s.Size(t.Context())
	require.NoError(t, err)
	return n
}

func TestHooksRefuse(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), New()
	w := join(t, s)
	s.Hook(Hooks{Before: func(context.Context, Op) error { return proofgraph.ErrMoved }})
	_, err := w.Put(ctx, proofgraph.State{}, entry("a"))
	require.ErrorIs(t, err, proofgraph.ErrMoved)
	_, err = w.Turn(ctx, proofgraph.Ask{})
	require.ErrorIs(t, err, proofgraph.ErrMoved)

	s.Hook(Hooks{})
	_, err = w.Turn(ctx, proofgraph.Ask{})
	require.NoError(t, err)
	s.Hook(Hooks{Before: func(context.Context, Op) error { return proofgraph.ErrMoved }})
	require.ErrorIs(t, w.End(ctx, entry("a")), proofgraph.ErrMoved)
	assert.Zero(t, size(t, s))

	s.Hook(Hooks{})
	at, err := w.Put(ctx, proofgraph.State{}, entry("a"))
	require.NoError(t, err, "the turn has ended")
	assert.Zero(t, at)
}

func TestHooksLoseTheAnswer(t *testing.T) {
	t.Parallel()
	ctx, s, lost := t.Context(), New(), errors.New("connection lost")
	w := join(t, s)
	var ops []Op
	s.Hook(Hooks{After: func(_ context.Context, op Op, err error) error {
		ops = append(ops, op)
		return errors.Join(err, lost)
	}})
	at, err := w.Put(ctx, proofgraph.State{}, entry("a"))
	require.ErrorIs(t, err, lost)
	assert.Zero(t, at)
	assert.Equal(t, uint64(1), size(t, s), "it was written")

	state, err := w.Turn(ctx, proofgraph.Ask{})
	require.ErrorIs(t, err, lost)
	assert.Empty(t, state)
	require.ErrorIs(t, w.End(ctx, entry("b")), errNoTurn)
	assert.Equal(t, []Op{{1, "Put", entry("a")}, {1, "Turn", proofgraph.Change{}}, {1, "End", entry("b")}}, ops)
}

// A call that is delivered after its writer was fenced changes nothing.
func TestHooksDeliverAfterFence(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, name := range []string{"Put", "Turn", "End"} {
		s := New()
		w, other := join(t, s), join(t, s)
		delivered := false
		s.Hook(Hooks{Before: func(ctx context.Context, op Op) error {
			if op.Name == name {
				delivered = true
				s.Kill(op.Writer)
				_, err := other.Dead(ctx)
				return err
			}
			return nil
		}})
		var err error
		if name == "Put" {
			_, err = w.Put(ctx, proofgraph.State{}, entry("a"))
		} else if _, err = w.Turn(ctx, proofgraph.Ask{}); err == nil {
			err = w.End(ctx, entry("a"))
		}
		require.ErrorIs(t, err, proofgraph.ErrFenced, name)
		assert.True(t, delivered, name)
		assert.Zero(t, size(t, s), name)
		_, err = other.Put(ctx, proofgraph.State{}, entry("a"))
		require.NoError(t, err, "%s: the log is free", name)
	}
}

// Before a writer that was killed is fenced, what it puts is written, and it has no turn.
func TestKill(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), New()
	w, other := join(t, s), join(t, s)
	_, err := w.Turn(ctx, proofgraph.Ask{})
	require.NoError(t, err)
	s.Kill(w.ID())
	require.ErrorIs(t, w.End(ctx, entry("a")), errKilled)
	_, err = w.Turn(ctx, proofgraph.Ask{})
	require.ErrorIs(t, err, errKilled)
	c := entry("a")
	c.Opened = []int{0}
	_, err = w.Put(ctx, proofgraph.State{}, c)
	require.NoError(t, err)
	open, err := other.Dead(ctx)
	require.NoError(t, err)
	assert.Equal(t, []uint64{0}, open)
	_, err = w.Put(ctx, proofgraph.State{}, entry("b"))
	require.ErrorIs(t, err, proofgraph.ErrFenced)
}

// A writer may do nothing in its turn but end it or leave.
func TestOwnTurn(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), New()
	w := join(t, s)
	require.ErrorIs(t, w.End(ctx, proofgraph.Change{}), errNoTurn)
	_, err := w.Turn(ctx, proofgraph.Ask{})
	require.NoError(t, err)
	_, err = w.Put(ctx, proofgraph.State{}, entry("a"))
	require.ErrorIs(t, err, errOwnTurn)
	_, err = w.Turn(ctx, proofgraph.Ask{})
	require.ErrorIs(t, err, errOwnTurn)
	_, err = w.Dead(ctx)
	require.ErrorIs(t, err, errOwnTurn)
	require.NoError(t, w.Leave(ctx))
	_, err = join(t, s).Put(ctx, proofgraph.State{}, entry("a"))
	require.NoError(t, err, "who leaves in a turn ends it")
	_, err = w.Put(ctx, proofgraph.State{Sessions: map[string]proofgraph.End{"a": {Next: 1}}}, entry("b"))
	require.ErrorIs(t, err, errLeft)
	_, err = s.Join(ctx, "example.com/another")
	require.Error(t, err)
	_, err = s.Join(ctx, "")
	require.Error(t, err)
}

// What contradicts itself, or the log, is refused, and nothing has changed.
func TestInconsistent(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), New()
	w := join(t, s)
	ok := func() (proofgraph.State, proofgraph.Change) {
		c := entry("a")
		c.Blobs = [][]byte{[]byte("blob")}
		c.Opened, c.Used = []int{0}, []string{"nonce"}
		c.Spent = []contracts.Balance{{Budget: "b", Spent: 3}}
		return proofgraph.State{Spent: []contracts.Balance{{Budget: "b"}}}, c
	}
	for name, spoil := range map[string]func(g *proofgraph.State, c *proofgraph.Change){
		"no Of":                 func(_ *proofgraph.State, c *proofgraph.Change) { c.Of = nil },
		"more of Of":            func(_ *proofgraph.State, c *proofgraph.Change) { c.Of = append(c.Of, "a") },
		"no End":                func(_ *proofgraph.State, c *proofgraph.Change) { c.Sessions = nil },
		"End of another":        func(_ *proofgraph.State, c *proofgraph.Change) { c.Sessions["b"] = proofgraph.End{Next: 1} },
		"a seq again":           func(_ *proofgraph.State, c *proofgraph.Change) { c.Sessions["a"] = proofgraph.End{} },
		"a hole":                func(_ *proofgraph.State, c *proofgraph.Change) { c.Sessions["a"] = proofgraph.End{Next: 2} },
		"Opened beyond":         func(_ *proofgraph.State, c *proofgraph.Change) { c.Opened = []int{1} },
		"Opened before":         func(_ *proofgraph.State, c *proofgraph.Change) { c.Opened = []int{-1} },
		"Opened twice":          func(_ *proofgraph.State, c *proofgraph.Change) { c.Opened = []int{0, 0} },
		"a balance twice":       func(_ *proofgraph.State, c *proofgraph.Change) { c.Spent = append(c.Spent, c.Spent[0]) },
		"a balance not guessed": func(g *proofgraph.State, _ *proofgraph.Change) { g.Spent = nil },
		"a nonce twice":         func(_ *proofgraph.State, c *proofgraph.Change) { c.Used = append(c.Used, "nonce") },
	} {
		g, c := ok()
		spoil(&g, &c)
		_, err := w.Put(ctx, g, c)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, proofgraph.ErrMoved, name)
		require.NotErrorIs(t, err, proofgraph.ErrFenced, name)
		assert.Zero(t, size(t, s), name)
	}
	g, c := ok()
	_, err := w.Put(ctx, g, c)
	require.NoError(t, err)
	c.Sessions["a"] = proofgraph.End{Next: 2}
	c.Used, c.Spent, c.Settled = nil, nil, []uint64{0, 0}
	_, err = w.Put(ctx, proofgraph.State{}, c)
	require.Error(t, err)
	assert.Equal(t, uint64(1), size(t, s))
}
