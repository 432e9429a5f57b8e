//go:build unix

package postgres

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

func TestPutAndTurn(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	s := b.store()
	assert.Zero(t, size(t, s))
	w, m := b.join(s), remember()
	other := b.join(b.store())

	g, c := m.batch("a", 3)
	c.Blobs = [][]byte{[]byte("blob"), nil, []byte("blob")}
	c.Checkpoint = []byte("note")
	c.Opened = []int{0, 2}
	c.Used = []string{"n1"}
	c.Spent = []contracts.Balance{{Budget: "b", Of: "x", Window: "total", Spent: 7}}
	g.Spent = []contracts.Balance{{Budget: "b", Of: "x", Window: "total"}}
	at, err := w.Put(t.Context(), g, c)
	require.NoError(t, err)
	assert.Zero(t, at)
	_, err = w.Put(t.Context(), g, c)
	require.ErrorIs(t, err, proofgraph.ErrMoved)
	m.wrote(c)

	state, err := other.Turn(t.Context(), proofgraph.Ask{Sessions: []string{"a", "b", ""}, Nonces: []string{"n0", "n1"},
		Balances: []contracts.Balance{{Budget: "none"}, {Budget: "b", Of: "x", Window: "total"}}})
	require.NoError(t, err)
	assert.Equal(t, proofgraph.State{Size: 3, Sessions: map[string]proofgraph.End{"a": m.ends["a"], "b": {}, "": {}},
		Spent: []contracts.Balance{{Budget: "none"}, {Budget: "b", Of: "x", Window: "total", Spent: 7}},
		Used:  []string{"n1"}}, state)
	_, c = m.batch("b", 2)
	require.NoError(t, other.End(t.Context(), c))
	m.wrote(c)
	g, c = m.batch("b", 1)
	c.Settled = []uint64{0}
	at, err = w.Put(t.Context(), g, c)
	require.NoError(t, err)
	assert.EqualValues(t, 5, at)
	m.wrote(c)
	g, c = m.batch("b", 1)
	c.Settled = []uint64{2}
	_, err = other.Put(t.Context(), g, c)
	require.ErrorIs(t, err, proofgraph.ErrMoved, "it is of another writer")
	assert.Len(t, texts(t, s), 6)
	open, err := other.Dead(t.Context())
	require.NoError(t, err)
	assert.Empty(t, open)
	require.NoError(t, w.Leave(t.Context()))
	open, err = other.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []uint64{2}, open)
	_, err = other.Put(t.Context(), g, c)
	require.NoError(t, err)
}

// A session that a batch begins or goes on with ends as the batch says, whatever the order of the
// sessions, and one that is only guessed stays. A guess that is wrong in one of them changes none.
func TestEndsOfSessions(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, m := b.join(b.store()), remember()
	random := rand.New(rand.NewPCG(1, 2))
	batch := func() (g proofgraph.State, c proofgraph.Change) {
		g.Kernel, g.Sessions, c.Sessions = 0, map[string]proofgraph.End{}, map[string]proofgraph.End{}
		for _, i := range random.Perm(20)[:12] {
			one, change := m.batch(fmt.Sprint("session ", i), 1+random.IntN(2))
			if random.IntN(8) > 0 { // what is not guessed is written all the same
				maps.Copy(g.Sessions, one.Sessions)
			}
			if random.IntN(4) > 0 {
				maps.Copy(c.Sessions, change.Sessions)
				c.Entries, c.Of = append(c.Entries, change.Entries...), append(c.Of, change.Of...)
			}
		}
		return g, c
	}
	ends := func() map[string]proofgraph.End {
		ask := proofgraph.Ask{}
		for i := range 20 {
			ask.Sessions = append(ask.Sessions, fmt.Sprint("session ", i))
		}
		state, err := w.Turn(t.Context(), ask)
		require.NoError(t, err)
		require.NoError(t, w.End(t.Context(), proofgraph.Change{}))
		maps.DeleteFunc(state.Sessions, func(_ string, end proofgraph.End) bool { return end.Next == 0 })
		return state.Sessions
	}
	for range 40 {
		g, c := batch()
		if random.IntN(2) == 0 {
			for name, end := range g.Sessions {
				wrong := proofgraph.State{Sessions: maps.Clone(g.Sessions)}
				end.Last[0]++
				wrong.Sessions[name] = end
				_, err := w.Put(t.Context(), wrong, c)
				require.ErrorIs(t, err, proofgraph.ErrMoved)
				break
			}
			require.Equal(t, m.ends, ends())
		}
		if random.IntN(2) == 0 {
			_, err := w.Put(t.Context(), g, c)
			require.NoError(t, err)
		} else { // of what is guessed it has the rows, at times of all
			_, err := w.Turn(t.Context(), proofgraph.Ask{Sessions: slices.Collect(maps.Keys(g.Sessions))})
			require.NoError(t, err)
			require.NoError(t, w.End(t.Context(), c))
		}
		m.wrote(c)
		require.Equal(t, m.ends, ends())
	}
}

// A place without the row of its session is an error, and nothing is written. A turn's append goes
// by the places that the turn has read.
func TestMovedRow(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, m := b.join(b.store()), remember()
	_, c := m.batch("a", 1)
	write := func(row pgtype.TID) error {
		args := append([]any{w.log, w.id, w.incarnation, int64(0)}, new(columns).changed(&c)...)
		_, err := w.link.Exec(t.Context(), "write", append(args, []pgtype.TID{row})...)
		return err
	}
	none := pgtype.TID{BlockNumber: 9999, OffsetNumber: 1, Valid: true}
	require.ErrorContains(t, write(none), "rows of session have moved")
	b.exec(`INSERT INTO session (log, name, next, last, lamport, time, open, closed)
		SELECT id, 'another', 1, decode(repeat('00', 32), 'hex'), 1, 1, 0, false FROM log`)
	another := one[pgtype.TID](b, "SELECT ctid FROM session")
	require.ErrorContains(t, write(another), "rows of session have moved")
	_, err := w.Turn(t.Context(), proofgraph.Ask{Sessions: []string{"a"}})
	require.NoError(t, err)
	w.rows["a"] = another
	require.ErrorContains(t, w.End(t.Context(), c), "rows of session have moved")
	assert.Zero(t, size(t, b.store()))
	assert.Equal(t, "another 1", one[string](b, "SELECT string_agg(name || ' ' || next, ',') FROM session"))
}

// A connection keeps the buffers of a call for the next one, but no large ones.
func TestKeptBuffers(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, m := b.join(b.store()), remember()
	put := func(blob int) (arguments, message *byte) {
		g, c := m.batch("a", 1)
		c.Blobs = [][]byte{bytes.Repeat([]byte("x"), blob)}
		_, err := w.Put(t.Context(), g, c)
		require.NoError(t, err)
		m.wrote(c)
		for _, kept := range [][]byte{w.link.buffer, w.link.message} {
			assert.LessOrEqual(t, cap(kept), keptBuffer)
		}
		return &w.link.buffer[:1][0], &w.link.message[:1][0]
	}
	arguments, message := put(10_000)
	sent := w.link.message[:cap(w.link.message)]
	assert.Equal(t, bytes.Repeat([]byte("x"), 9000), sent[1000:10_000], "the message was made in it")
	for _, size := range []int{0, 9000, keptBuffer, 9000} {
		a, m := put(size)
		assert.Same(t, arguments, a)
		assert.Same(t, message, m)
	}
}

// A null in place of a number or a hash that is guessed, which this package never sends, is wrong.
func TestNullGuess(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, m := b.join(b.store()), remember()
	g, c := m.batch("a", 1)
	g.Spent = []contracts.Balance{{Budget: "b", Of: "x", Window: "total"}}
	nulls := map[int]any{ // by their places: those of g_kernel, g_next, g_last and g_spent
		3: nil, 5: []*int64{nil}, 6: pgtype.FlatArray[*string]{nil}, 10: []*int64{nil},
	}
	for place, null := range nulls {
		var cols columns
		changed := cols.changed(&c)
		args := append(append([]any{w.log, w.id, w.incarnation}, cols.guessed(g)...), changed...)
		args[place] = null
		var at int64
		require.NoError(t, w.link.QueryRow(t.Context(), statements["put"], args...).Scan(&at))
		assert.EqualValues(t, moved, at, place)
	}
	assert.Zero(t, size(t, b.store()))
}
