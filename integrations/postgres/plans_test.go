//go:build unix

package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
)

// An append and a turn read the rows that they are about, however many others the log has, on plans
// that were made when the tables were small.
func TestRowsRead(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), newBase(t, server(t))
	w, m := b.join(b.store()), remember()
	const settles = 32
	round := 0
	put := func() {
		t.Helper()
		g, c := m.load(0, round)
		round++
		c.Used = []string{fmt.Sprint("nonce ", round)}
		at, err := w.Put(ctx, g, c)
		require.NoError(t, err)
		m.at = at
		m.wrote(c)
	}
	others := func(name string, n int) { // sessions and nonces
		b.exec(fmt.Sprintf(`INSERT INTO session (log, name, next, last, lamport, time, open, closed)
			SELECT id, '%[1]s ' || n, 0, decode(repeat('00', 32), 'hex'), 0, 0, 0, false
			FROM log, generate_series(1, %[2]d) n;
			INSERT INTO nonce (log, nonce) SELECT id, '%[1]s ' || n FROM log, generate_series(1, %[2]d) n`, name, n))
	}
	others("a few", 300)
	_, err := w.Turn(ctx, proofgraph.Ask{Sessions: []string{"a"}})
	require.NoError(t, err)
	require.NoError(t, w.End(ctx, proofgraph.Change{}))
	for range 10 { // and the plans of all statements are made
		put()
	}
	g, c := m.batch("another", 1000) // decisions that stay open
	for i := range c.Entries {
		c.Opened = append(c.Opened, i)
	}
	_, err = w.Put(ctx, g, c)
	require.NoError(t, err)
	m.wrote(c)
	others("many", 1000)

	// read returns how many rows of a table something reads.
	read := func(table string, something func()) int64 {
		t.Helper()
		var counts [2]int64
		for i := range counts {
			require.NoError(t, w.link.QueryRow(ctx, `SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint
				FROM pg_stat_xact_user_tables WHERE relname = $1`, pgx.QueryExecModeExec, table).Scan(&counts[i]))
			if i == 0 {
				something()
			}
		}
		return counts[1] - counts[0]
	}
	_, err = w.link.Exec(ctx, "BEGIN", pgx.QueryExecModeSimpleProtocol) // within it counts go on
	require.NoError(t, err)
	assert.LessOrEqual(t, read("open", put), int64(4*settles))
	assert.LessOrEqual(t, read("nonce", put), int64(4))
	assert.LessOrEqual(t, read("session", put), int64(4*settles))
	_, err = w.link.Exec(ctx, "COMMIT", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)

	ask := func() {
		_, err = w.Turn(ctx, proofgraph.Ask{Sessions: []string{"another", "none"}})
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, read("session", ask), int64(4))
	require.NoError(t, w.End(ctx, proofgraph.Change{}))
}
