package postgres

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// These tests need no server.

func TestChange(t *testing.T) {
	t.Parallel()
	good := func() proofgraph.Change {
		return proofgraph.Change{
			Batch: proofgraph.Batch{Entries: []contracts.Entry{nil, contracts.Entry("b"), contracts.Entry("c")}},
			Of:    []string{"a", "b", "a"}, Sessions: map[string]proofgraph.End{"a": {Next: 7}, "b": {Next: 1}},
			Opened: []int{0, 2}, Settled: []uint64{3, 5},
		}
	}
	c := good()
	seqs, err := seqsOf(&c)
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 0, 6}, seqs)
	var cols columns
	args := cols.changed(&c)
	require.NoError(t, cols.err)
	assert.Equal(t, [][]byte{nil, []byte("b"), []byte("c")}, args[len(args)-3])
	for name, spoil := range map[string]func(c *proofgraph.Change){
		"fewer sessions":   func(c *proofgraph.Change) { c.Of = c.Of[1:] },
		"no end":           func(c *proofgraph.Change) { delete(c.Sessions, "a") },
		"an end of none":   func(c *proofgraph.Change) { c.Sessions["c"] = proofgraph.End{Next: 1} },
		"an end too early": func(c *proofgraph.Change) { c.Sessions["a"] = proofgraph.End{Next: 1} },
		"opened beyond":    func(c *proofgraph.Change) { c.Opened = []int{3} },
		"opened before":    func(c *proofgraph.Change) { c.Opened = []int{-1} },
		"opened twice":     func(c *proofgraph.Change) { c.Opened = []int{1, 1} },
		"settled backward": func(c *proofgraph.Change) { c.Settled = []uint64{5, 3} },
		"a large number":   func(c *proofgraph.Change) { c.Settled = []uint64{math.MaxUint64} },
	} {
		c := good()
		spoil(&c)
		var cols columns
		cols.changed(&c)
		require.Error(t, cols.err, name)
	}
	assert.True(t, empty(&proofgraph.Change{}))
	assert.False(t, empty(&proofgraph.Change{Batch: proofgraph.Batch{Checkpoint: []byte{}}}))
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	server := func(code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "what", Detail: "secret", Hint: "secret",
			Where: "secret"})
	}
	assert.EqualError(t, describe("put", server("23505")), "postgres: put: the server: what (SQLSTATE 23505)")
	assert.EqualError(t, describe("put", server("22021")), "postgres: put: the server refuses a value (SQLSTATE 22021)")
	require.NoError(t, describe("put", nil))
	assert.True(t, passes(server("55P03")))
	assert.False(t, passes(server("57P01")), "the connection is ended")
	assert.True(t, lost(nil, errors.New("end of file")))
}

func TestMigrationsAreInOrder(t *testing.T) {
	t.Parallel()
	for i, sql := range Migrations() {
		assert.Contains(t, sql, fmt.Sprintf("INSERT INTO version (version) VALUES (%d);", i+1))
		assert.True(t, strings.HasPrefix(sql, fmt.Sprintf("-- Version %d.", i+1)))
	}
}
