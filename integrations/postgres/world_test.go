//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
	"github.com/helmkernel/helm/proofgraph"
)

const origin = "example.com/log"

// The server of all tests but those that stop it.
var common struct {
	sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if common.server != nil {
		common.server.Close()
	}
	os.Exit(code)
}

// server returns the common server, or skips the test.
func server(t testing.TB) *pgtest.Server {
	t.Helper()
	common.Do(func() { common.server, common.err = pgtest.Start() })
	if errors.Is(common.err, pgtest.ErrAbsent) {
		t.Skip(common.err)
	}
	require.NoError(t, common.err)
	return common.server
}

// ownServer returns a server of this test alone.
func ownServer(t testing.TB, settings ...string) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start(settings...)
	if errors.Is(err, pgtest.ErrAbsent) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A base is a database with the schema "helm".
type base struct {
	testing.TB
	server *pgtest.Server
	name   string
}

func newBase(t testing.TB, s *pgtest.Server) base {
	t.Helper()
	name, err := s.Database(context.Background())
	require.NoError(t, err)
	b := base{t, s, name}
	require.NoError(t, Migrate(context.Background(), b.conn(""), ""))
	return b
}

func (b base) url() string { return b.server.URL(b.name) }

// conn returns a connection as a user, or as the owner.
func (b base) conn(user string) *pgx.Conn {
	b.Helper()
	url := b.url()
	if user != "" {
		url = b.server.As(user, b.name)
	}
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(b, err)
	b.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (b base) exec(sql string) {
	b.Helper()
	conn := b.conn("")
	defer conn.Close(context.Background())
	_, err := conn.Exec(context.Background(), "SET search_path = helm; "+sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(b, err)
}

// one returns the one value that a query has.
func one[T any](b base, sql string, args ...any) (v T) {
	b.Helper()
	conn := b.conn("")
	defer conn.Close(context.Background())
	_, err := conn.Exec(context.Background(), "SET search_path = helm")
	require.NoError(b, err)
	require.NoError(b, conn.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

func (b base) open(url string, o Options) *Store {
	b.Helper()
	s, err := Open(context.Background(), url, o)
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

func (b base) store() *Store {
	b.Helper()
	return b.open(b.url(), Options{})
}

func (b base) join(s *Store) *writer {
	b.Helper()
	w, err := s.Join(context.Background(), origin)
	require.NoError(b, err)
	return w.(*writer)
}

// A log is what a writer remembers of one, in tests.
type memory struct {
	ends map[string]proofgraph.End
	at   uint64 // of the last load
}

func remember() *memory {
	return &memory{ends: map[string]proofgraph.End{}}
}

// batch returns a guess and a change: n entries of a session, of which none opens anything.
func (m *memory) batch(session string, n int) (proofgraph.State, proofgraph.Change) {
	end := m.ends[session]
	g := proofgraph.State{Kernel: m.ends[""].Next, Sessions: map[string]proofgraph.End{session: end}}
	var c proofgraph.Change
	for range n {
		e := contracts.Entry(fmt.Sprintf("entry %d of %s", end.Next, session))
		c.Entries, c.Of = append(c.Entries, e), append(c.Of, session)
		end.Next, end.Last, end.Lamport, end.Time = end.Next+1, e.Hash(), end.Lamport+1, end.Time+1
	}
	c.Sessions = map[string]proofgraph.End{session: end}
	return g, c
}

func (m *memory) wrote(c proofgraph.Change) {
	for name, end := range c.Sessions {
		m.ends[name] = end
	}
}

func size(t testing.TB, s *Store) uint64 {
	t.Helper()
	n, err := s.Size(context.Background())
	require.NoError(t, err)
	return n
}

// texts returns all entries.
func texts(t testing.TB, s *Store) (list []string) {
	t.Helper()
	for e, err := range s.Entries(context.Background(), 0, size(t, s)) {
		require.NoError(t, err)
		list = append(list, string(e))
	}
	return list
}
