//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// login makes a role that can log in and has the roles of the schema helm that are named.
func (b base) login(roles ...string) string {
	b.Helper()
	name := b.name + "_" + roles[0]
	b.exec("CREATE ROLE " + name + " LOGIN")
	for _, role := range roles {
		b.exec("GRANT helm_" + role + " TO " + name)
	}
	b.Cleanup(func() { b.exec("DROP ROLE " + name) })
	return name
}

// tables are all tables of a schema.
var tables = []string{"version", "log", "writer", "entry", "blob", "hashes", "session", "balance", "nonce", "open"}

func TestRights(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	var all []string
	rows, err := b.conn("").Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'helm'")
	require.NoError(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, tables, all)

	// The roles do what they are for.
	writer, reader, eraser := b.login("writer"), b.login("reader"), b.login("eraser", "reader")
	s := b.open(b.server.As(writer, b.name), Options{})
	w, m := b.join(s), remember()
	g, c := m.batch("a", 3)
	c.Blobs, c.Used, c.Opened = [][]byte{[]byte("blob")}, []string{"nonce"}, []int{0}
	c.Checkpoint = []byte("note")
	_, err = w.Put(t.Context(), g, c)
	require.NoError(t, err)
	m.wrote(c)
	_, err = w.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	_, c = m.batch("a", 3)
	c.Settled = []uint64{0}
	require.NoError(t, w.End(t.Context(), c))
	_, err = w.Dead(t.Context())
	require.NoError(t, err)
	d := crypto.Sum([]byte("blob"))
	r := b.open(b.server.As(reader, b.name), Options{})
	assert.Len(t, texts(t, r), 6)
	_, err = r.Blob(t.Context(), d)
	require.NoError(t, err)
	_, err = r.Join(t.Context(), origin)
	require.ErrorContains(t, err, "permission denied")
	require.ErrorContains(t, r.EraseBlob(t.Context(), d), "permission denied")
	require.ErrorContains(t, s.EraseBlob(t.Context(), d), "permission denied")
	e := b.open(b.server.As(eraser, b.name), Options{})
	require.NoError(t, e.EraseBlob(t.Context(), d))
	_, err = r.Blob(t.Context(), d)
	require.ErrorIs(t, err, proofgraph.ErrNoBlob)
	b.exec("CREATE ROLE " + b.name + "_e LOGIN IN ROLE helm_eraser")
	t.Cleanup(func() { b.exec("DROP ROLE " + b.name + "_e") })
	only := b.open(b.server.As(b.name+"_e", b.name), Options{})
	require.NoError(t, only.EraseBlob(t.Context(), d), "an eraser need not read")
	_, err = only.Blob(t.Context(), d)
	require.ErrorContains(t, err, "permission denied")

	// And nothing else: the server refuses each.
	may := map[string]map[string]string{
		writer: {"entry": "insert select", "blob": "insert select", "version": "select"},
		reader: {}, eraser: {"blob": "select delete"},
	}
	for _, table := range tables {
		for _, role := range []string{reader, eraser} {
			if may[role][table] == "" {
				may[role][table] = "select"
			}
		}
		if may[writer][table] == "" {
			may[writer][table] = "insert select update"
		}
	}
	for role, of := range may {
		conn := b.conn(role)
		_, err := conn.Exec(t.Context(), "SET search_path = helm")
		require.NoError(t, err)
		for table, rights := range of {
			column := one[string](b, "SELECT attname::text FROM pg_attribute WHERE attrelid = '"+table+"'::regclass AND attnum = 2")
			for verb, sql := range map[string]string{
				"select":   "SELECT FROM " + table,
				"insert":   "INSERT INTO " + table + " OVERRIDING SYSTEM VALUE SELECT * FROM " + table + " WHERE false",
				"update":   "UPDATE " + table + " SET " + column + " = " + column,
				"delete":   "DELETE FROM " + table,
				"truncate": "TRUNCATE " + table,
			} {
				tx, err := conn.Begin(t.Context())
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), sql)
				require.NoError(t, tx.Rollback(t.Context()))
				if strings.Contains(rights, verb) {
					assert.NoError(t, err, "%s: %s", role, sql)
				} else if assert.Error(t, err, "%s: %s", role, sql) {
					assert.Contains(t, err.Error(), "42501", "%s: %s", role, sql)
				}
			}
		}
		_, err = conn.Exec(t.Context(), "DROP TABLE entry")
		require.ErrorContains(t, err, "must be owner")
		_, err = conn.Exec(t.Context(), "CREATE TABLE more ()")
		require.ErrorContains(t, err, "permission denied")
		_, err = conn.Exec(t.Context(), "ALTER TABLE entry DISABLE TRIGGER ALL")
		require.ErrorContains(t, err, "must be owner")
	}
}
