package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// This file replaces one of internal/kerneltest, by overlay.json, so that the kernel's tests run
// over a database: see make postgres.

const several = "postgres"

// database is of all tests of the process. Its server ends with the process.
var database struct {
	sync.Once
	url string
	err error

	mu   sync.Mutex // protects logs
	logs int
}

// openSeveral makes a log of its own in the database.
func openSeveral(t testing.TB) proofgraph.Shared {
	t.Helper()
	if time.Now().Before(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)) { // a bubble of synctest, which begins in 2000
		t.Skip("the clock of package synctest does not go on while a server is waited for")
	}
	database.Do(func() { database.url, database.err = startDatabase() })
	if errors.Is(database.err, pgtest.ErrAbsent) {
		t.Skip(database.err)
	}
	require.NoError(t, database.err)
	database.mu.Lock()
	database.logs++
	own := fmt.Sprint("log-", database.logs)
	database.mu.Unlock()
	s, err := postgres.Open(context.Background(), database.url, postgres.Options{Origin: own})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return &ownLog{Store: s, t: t, name: own}
}

func startDatabase() (url string, err error) {
	ctx := context.Background()
	s, err := pgtest.Start("max_connections=500")
	if err != nil {
		return "", err
	}
	name, err := s.Database(ctx)
	if err != nil {
		return "", errors.Join(err, s.Close())
	}
	conn, err := pgx.Connect(ctx, s.URL(name))
	if err != nil {
		return "", errors.Join(err, s.Close())
	}
	defer conn.Close(ctx)
	if err := postgres.Migrate(ctx, conn, ""); err != nil {
		return "", errors.Join(err, s.Close())
	}
	return s.URL(name), nil
}

// An ownLog is a log of which only this process knows. Tests have one origin, so its name in the
// database is another.
type ownLog struct {
	*postgres.Store
	t    testing.TB
	name string
}

// Join implements [proofgraph.Shared].
func (l *ownLog) Join(ctx context.Context, _ string) (proofgraph.Writer, error) {
	w, err := l.Store.Join(ctx, l.name)
	if err != nil {
		return nil, err
	}
	return &mortal{Writer: w, t: l.t}, nil
}

// A mortal is a writer whose process can be taken to have ended.
type mortal struct {
	proofgraph.Writer
	t testing.TB

	mu   sync.Mutex // protects gone
	gone bool
}

// Leave implements [proofgraph.Writer].
func (m *mortal) Leave(ctx context.Context) error {
	err := m.Writer.Leave(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = m.gone || err == nil
	return err
}

// Kill ends the writer's connection and fences it, as another writer does that finds it dead.
func (m *mortal) Kill() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return
	}
	m.gone = true
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, database.url)
	require.NoError(m.t, err)
	defer conn.Close(ctx)
	id := int64(m.ID())
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 'helm.writer'::regclass AND objid::bigint = $1 AND pid <> pg_backend_pid()`, id)
	require.NoError(m.t, err)
	_, err = conn.Exec(ctx, "UPDATE helm.writer SET fenced = true WHERE id = $1", id)
	require.NoError(m.t, err)
}
