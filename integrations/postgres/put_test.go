//go:build unix

package postgres

import (
	"testing"

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
