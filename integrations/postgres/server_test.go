//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// Defaults of a database that would take durability back, or refuse appends, do no harm.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"repeatable read", "serializable"} {
		b := newBase(t, server(t))
		b.exec("ALTER DATABASE " + b.name + " SET synchronous_commit = off")
		b.exec("ALTER DATABASE " + b.name + " SET default_transaction_isolation = '" + isolation + "'")
		b.exec("ALTER DATABASE " + b.name + " SET statement_timeout = '2s'")
		b.exec("ALTER DATABASE " + b.name + " SET idle_session_timeout = '1s'")
		var all sync.WaitGroup
		for i := range 3 {
			s := b.store()
			w := b.join(s)
			for name, want := range map[string]string{"synchronous_commit": "on",
				"default_transaction_isolation": "read committed", "statement_timeout": "30s"} {
				var is string
				require.NoError(t, w.link.QueryRow(t.Context(), "SHOW "+name).Scan(&is))
				assert.Equal(t, want, is)
				require.NoError(t, s.pool.QueryRow(t.Context(), "SHOW "+name).Scan(&is))
				assert.Equal(t, want, is)
			}
			all.Go(func() {
				for n := range 20 {
					ask := proofgraph.Ask{Sessions: []string{"shared"}}
					state, err := w.Turn(context.Background(), ask)
					if !assert.NoError(t, err) {
						return
					}
					m := &memory{ends: state.Sessions}
					_, c := m.batch("shared", 1)
					assert.NoError(t, w.End(context.Background(), c))
					own := &memory{ends: map[string]proofgraph.End{}}
					g, c := own.batch(fmt.Sprint(i, " ", n), 1)
					_, err = w.Put(context.Background(), g, c)
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		assert.Len(t, texts(t, b.store()), 120)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	ctx := t.Context()
	require.NoError(t, Migrate(ctx, b.conn(""), "helm"), "it is there")
	require.Len(t, Migrations(), 1)
	_, err := Open(ctx, b.url(), Options{Schema: "other"})
	require.EqualError(t, err, `postgres: open: schema "other" has no tables of HELM: run Migrate as its owner`)
	var both sync.WaitGroup
	for range 4 {
		conn := b.conn("")
		both.Go(func() { assert.NoError(t, Migrate(ctx, conn, "other")) })
	}
	both.Wait()
	for _, schema := range []string{"", "other"} {
		s := b.open(b.url(), Options{Schema: schema})
		g, c := remember().batch(schema+"a", 1)
		_, err := b.join(s).Put(ctx, g, c)
		require.NoError(t, err)
		assert.Equal(t, []string{"entry 0 of " + schema + "a"}, texts(t, s))
	}
	for _, bad := range []string{"Helm", "a b", `a"`, "1a", "a'", fmt.Sprintf("%057d", 0)} {
		require.Error(t, Migrate(ctx, b.conn(""), bad))
		_, err := Open(ctx, b.url(), Options{Schema: bad})
		require.Error(t, err)
	}

	w := b.join(b.store())
	b.exec("INSERT INTO version (version) VALUES (2)")
	_, err = Open(ctx, b.url(), Options{})
	want := `schema "helm" has version 2, which is newer than the 1 of this program: use the newer program`
	require.EqualError(t, err, "postgres: open: "+want)
	require.EqualError(t, Migrate(ctx, b.conn(""), ""), "postgres: migrate: "+want)
	b.terminate(w.link.pid)
	_, err = w.Turn(ctx, proofgraph.Ask{})
	require.EqualError(t, err, "postgres: turn: "+want, "a writer that connects again looks again")
}

// The owner of a schema needs no more than CREATEROLE, and that only until the roles are there.
func TestMigrateAsOwner(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	owner := b.name + "_owner"
	b.exec("CREATE ROLE " + owner + " LOGIN; GRANT CREATE ON DATABASE " + b.name + " TO " + owner)
	require.ErrorContains(t, Migrate(t.Context(), b.conn(owner), b.name), "permission denied to create role")
	b.exec("ALTER ROLE " + owner + " CREATEROLE")
	require.NoError(t, Migrate(t.Context(), b.conn(owner), b.name))
	s := b.open(b.server.As(owner, b.name), Options{Schema: b.name})
	g, c := remember().batch("a", 1)
	_, err := b.join(s).Put(t.Context(), g, c)
	require.NoError(t, err)
	b.exec("ALTER ROLE " + owner + " NOCREATEROLE; DROP SCHEMA " + b.name + " CASCADE")
	require.NoError(t, Migrate(t.Context(), b.conn(owner), b.name))
}

// A migration is SQL that other programs can run.
func TestMigrationByHand(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	b.exec("CREATE SCHEMA by_hand; SET search_path = by_hand; " + Migrations()[0])
	b.open(b.url(), Options{Schema: "by_hand"})
}

func TestJoinRefuses(t *testing.T) {
	t.Parallel()
	refused := func(b base, want string) {
		t.Helper()
		_, err := b.store().Join(t.Context(), origin)
		require.ErrorContains(t, err, want)
	}
	b := newBase(t, ownServer(t, "fsync=off"))
	refused(b, "fsync = off")
	require.NoError(t, b.server.Stop(false))
	require.NoError(t, b.server.Start("fsync=on", "full_page_writes=off"))
	refused(b, "full_page_writes = off")
	require.NoError(t, b.server.Stop(false))
	require.NoError(t, b.server.Start("full_page_writes=on"))
	w := b.join(b.store())
	require.NoError(t, w.Leave(t.Context()))
	require.NoError(t, b.server.Exec(t.Context(), "postgres",
		"CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"))
	latin := base{t, b.server, "latin"}
	require.NoError(t, Migrate(t.Context(), latin.conn(""), ""))
	refused(latin, "encoding LATIN1")
	for _, bad := range []string{"", "a b", "\x00"} {
		_, err := b.store().Join(t.Context(), bad)
		require.Error(t, err)
	}

	require.NoError(t, b.server.Stop(false))
	require.NoError(t, os.WriteFile(filepath.Join(b.server.Dir(), "data", "standby.signal"), nil, 0o644))
	require.NoError(t, b.server.Start())
	refused(b, "standby")
	assert.Zero(t, size(t, b.store()), "a standby can be read")
}

func TestManyLogs(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	ctx := t.Context()
	s := b.store()
	assert.Zero(t, size(t, s))
	for _, name := range []string{"one", "two"} {
		w, err := b.store().Join(ctx, name)
		require.NoError(t, err)
		g, c := remember().batch("of "+name, 2)
		_, err = w.Put(ctx, g, c)
		require.NoError(t, err)
	}
	_, err := s.Size(ctx)
	require.ErrorContains(t, err, "several logs")
	for _, name := range []string{"one", "two"} {
		s := b.open(b.url(), Options{Origin: name})
		assert.Equal(t, []string{"entry 0 of of " + name, "entry 1 of of " + name}, texts(t, s))
		_, err := s.Join(ctx, "three")
		require.Error(t, err, "it is another log")
	}
	_, err = s.Join(ctx, "two")
	require.NoError(t, err)
	assert.EqualValues(t, 2, size(t, s))
	s = b.open(b.url(), Options{Origin: "four"})
	assert.Zero(t, size(t, s))
	_, err = s.Join(ctx, "four")
	require.NoError(t, err)
	assert.Zero(t, size(t, s))
	_, err = Open(ctx, b.url(), Options{Origin: "a b"})
	require.Error(t, err)
}

// An error does not have what must not be read in logs.
func TestErrorsHaveNoSecret(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	ctx := t.Context()
	const secret = "s3cret"
	for _, url := range []string{"postgres://helm:" + secret + "@nowhere.invalid:1/db?connect_timeout=1",
		"postgres://helm:" + secret + "@:::/x", "password=" + secret + " port=x", "password='" + secret,
		"host=" + b.server.Dir() + " user=helm dbname=none password=" + secret} {
		_, err := Open(ctx, url, Options{})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), secret)
	}
	w, m := b.join(b.store()), remember()
	g, c := m.batch("a", 1)
	c.Entries = []contracts.Entry{contracts.Entry(secret)}
	_, err := w.Put(ctx, g, c)
	require.NoError(t, err)
	b.exec("UPDATE session SET next = 0, last = decode(repeat('00', 32), 'hex')") // so that a key is there twice
	_, err = w.Put(ctx, g, c)
	require.ErrorContains(t, err, "duplicate key")
	assert.NotContains(t, err.Error(), secret)
	assert.NotContains(t, err.Error(), "Key (")
	w = b.join(b.store())
	g, c = m.batch("a", 1)
	c.Used = []string{"\xff" + secret}
	_, err = w.Put(ctx, g, c)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), secret)
}

func TestStoredHashes(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	s := b.store()
	w, m := b.join(s), remember()
	ctx := t.Context()
	twin := proofgraph.NewMemory()
	rounds, each := 66, 1024 // two levels of rows, the second of them complete
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		g, c := m.batch("a", each)
		if i == rounds-1 {
			c.Checkpoint = []byte("note")
		}
		_, err := w.Put(ctx, g, c)
		require.NoError(t, err)
		m.wrote(c)
		require.NoError(t, twin.Append(ctx, proofgraph.Batch{At: uint64(i * each), Entries: c.Entries}))
	}
	s.fillers.Wait()
	assert.EqualValues(t, rounds*each/256, one[int64](b, "SELECT count(*) FROM hashes WHERE level = 0"))
	assert.EqualValues(t, rounds*each/65536, one[int64](b, "SELECT count(*) FROM hashes WHERE level = 1"))
	g, c := m.batch("a", 300) // whose hashes are not stored
	_, err := w.Put(ctx, g, c)
	require.NoError(t, err)
	require.NoError(t, twin.Append(ctx, proofgraph.Batch{At: uint64(rounds * each), Entries: c.Entries}))
	n := int64(rounds*each + 300)
	var all []int64
	for i := int64(0); i < tlog.StoredHashCount(n); i += 97 {
		all = append(all, i)
	}
	for level := 0; n>>level > 0; level++ {
		all = append(all, tlog.StoredHashIndex(level, n>>level-1), tlog.StoredHashIndex(level, 0))
	}
	want, err := twin.ReadHashes(all)
	require.NoError(t, err)
	began := time.Now()
	got, err := b.store().ReadHashes(all)
	require.NoError(t, err)
	t.Logf("%d hashes of %d entries in %v", len(all), n, time.Since(began).Round(time.Millisecond))
	assert.Equal(t, want, got)
	for _, bad := range []int64{-1, tlog.StoredHashCount(n)} {
		_, err := s.ReadHashes([]int64{bad})
		require.Error(t, err)
	}
}
