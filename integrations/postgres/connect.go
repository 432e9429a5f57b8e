package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// How long things take at most.
const (
	connectTime = 10 * time.Second // to make a connection
	migrateTime = 10 * time.Minute
	cancelTime  = 5 * time.Second // for the server to answer that it has cancelled a statement
	oldest      = 140000          // server_version_num of PostgreSQL 14
)

// These are variables for tests.
var (
	answerTime = 30 * time.Second // for the server to answer; a turn may wait longer, see turnTime
	againTime  = time.Minute      // to connect again after a connection was lost
	turnTime   = time.Minute      // to get a turn
)

// settings are set on every connection after it is made: a pooler may refuse them before. They hold
// whatever the defaults of the server, the database and the role are.
var settings = strings.Join([]string{
	"SET synchronous_commit = on",
	"SET default_transaction_isolation = 'read committed'",
	"SET default_transaction_deferrable = off",
	"SET idle_in_transaction_session_timeout = '5s'",
	"SET lock_timeout = '10s'",
	"SET statement_timeout = '30s'",
	"SET idle_session_timeout = 0", // it would end a writer that has nothing to write
	"SET tcp_keepalives_idle = 10",
	"SET tcp_keepalives_interval = 10",
	"SET tcp_keepalives_count = 3",
	// The functions look up a few rows by their keys. Plans that were made while tables were small
	// must not be others.
	"SET enable_seqscan = off",
	"SET enable_hashjoin = off",
	"SET enable_mergejoin = off",
	"SET plan_cache_mode = force_generic_plan",
	"SET jit = off",
}, ";")

// harden sets what connections need that a connection string may leave open.
func harden(config *pgx.ConnConfig) {
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > connectTime {
		config.ConnectTimeout = connectTime
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 10 * time.Second, Count: 3,
	}}
	config.DialFunc = dialer.DialContext
}

// prepare makes a new connection one of a store: its settings are set, and it names the schema.
func (s *Store) prepare(ctx context.Context, conn *pgx.Conn) error {
	path := pgx.Identifier{s.schema}.Sanitize()
	_, err := conn.Exec(ctx, settings+";SET search_path = "+path+", pg_temp", pgx.QueryExecModeSimpleProtocol)
	return err
}

// A backend is the server's end of a connection.
type backend struct {
	pid     int32
	started time.Time
}

// A link is the connection of a writer.
type link struct {
	*pgx.Conn
	backend
	table   uint32 // oid of the table writer, the first key of locks
	warned  bool   // the server has warned of something since this was set to false
	buffer  []byte // of the arguments of put
	message []byte // in which pgx makes the message of put
}

// link makes a connection for a writer. It returns an error if the server is not one that a log may
// be written to.
func (s *Store) link(ctx context.Context) (_ *link, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	l := new(link)
	config := s.config.Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" || n.SeverityUnlocalized == "" && n.Severity == "WARNING" {
			l.warned = true
		}
	}
	// A statement whose context ends is cancelled at the server, which then says what it did.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelTime}
	}
	if l.Conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.drop()
		}
	}()
	useLists(l.TypeMap())
	if err := s.prepare(ctx, l.Conn); err != nil {
		return nil, err
	}
	if err := current(ctx, l.Conn, s.schema); err != nil {
		return nil, err
	}
	var version int
	var recovering bool
	var fsync, pages, encoding string
	err = l.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('fsync'),
		current_setting('full_page_writes'), pg_is_in_recovery(), current_setting('server_encoding'),
		'writer'::regclass::oid, pg_backend_pid(),
		(SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`,
	).Scan(&version, &fsync, &pages, &recovering, &encoding, &l.table, &l.pid, &l.started)
	switch {
	case err != nil:
		return nil, err
	case version < oldest:
		return nil, refused("the server is older than PostgreSQL 14")
	case fsync != "on":
		return nil, refused("the server has fsync = " + fsync + ": what it says is stored may not be: set it to on")
	case pages != "on":
		return nil, refused("the server has full_page_writes = " + pages + ": a crash may tear pages: set it to on")
	case encoding != "UTF8":
		return nil, refused("the database has the encoding " + encoding + ": make one with UTF8")
	case recovering:
		return nil, errStandby
	}
	for name, sql := range statements {
		if _, err := l.Prepare(ctx, name, sql); err != nil {
			return nil, err
		}
	}
	l.warned = false
	return l, nil
}

var errStandby = errors.New("the server is a standby: connect to the primary, with target_session_attrs=read-write")

// drop closes the connection without a word to the server.
func (l *link) drop() {
	if l != nil && l.Conn != nil {
		l.PgConn().Conn().Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l.Conn.Close(ctx)
	}
}
