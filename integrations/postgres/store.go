package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// Options say which log of a database a [Store] is.
type Options struct {
	Schema string // of the tables; empty: "helm"
	Origin string // of the log; empty: the one that Join names first, or the only one in the schema
}

// A Store is a log in a PostgreSQL database. It is safe for concurrent use by multiple goroutines.
// It must be closed.
type Store struct {
	schema string
	config *pgx.ConnConfig
	pool   *pgxpool.Pool
	closed atomic.Bool

	connecting func(*writer) // for tests: called before a writer connects again

	mu      sync.Mutex          // held for moments; protects the fields below
	origin  string              // empty: not known yet
	id      int32               // of the log; 0: it was not found yet
	writers map[*writer]bool    // which have a connection
	filling bool                // hashes are being stored
	fillers sync.WaitGroup      // who stores hashes
	stop    context.CancelFunc  // ends them
	until   context.Context     // which ends then
	hashes  map[tile]tileHashes // a few that were read last
}

var (
	_ proofgraph.Shared = (*Store)(nil)
	_ proofgraph.Eraser = (*Store)(nil)
	_ tlog.HashReader   = (*Store)(nil)
)

var errClosed = errors.New("postgres: the store is closed")

// Open connects to a database and returns its log. The schema must have been made by [Migrate], and
// be of the version that this program knows. The log need not be there: Join begins it, and without
// it the store is empty.
//
// The string is a URL or settings, as of libpq, and the environment of PostgreSQL counts too. Its
// user needs the role of a reader to read, and that of a writer to join. Each writer has a
// connection of its own, and the readers share some: see the package comment.
func Open(ctx context.Context, connString string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	schema, err := schemaName(o.Schema)
	if err != nil {
		return nil, err
	}
	if o.Origin != "" && !contracts.IsOrigin(o.Origin) {
		return nil, errOrigin
	}
	pooled, err := pgxpool.ParseConfig(connString) // which takes the settings of pools out
	if err != nil {
		return nil, errors.New("postgres: open: the connection string, or the environment of PostgreSQL, is faulty")
	}
	harden(pooled.ConnConfig)
	s := &Store{schema: schema, config: pooled.ConnConfig.Copy(), origin: o.Origin, writers: map[*writer]bool{},
		hashes: map[tile]tileHashes{}}
	s.until, s.stop = context.WithCancel(context.Background())
	pooled.AfterConnect = s.prepare
	pooled.PingTimeout = connectTime
	if s.pool, err = pgxpool.NewWithConfig(ctx, pooled); err != nil {
		return nil, describe("open", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := current(ctx, s.pool, schema); err != nil {
		s.pool.Close()
		return nil, describe("open", err)
	}
	return s, nil
}

var errOrigin = errors.New("postgres: the origin is not 1 to 255 letters, digits and . _ / -")

// Close closes all connections. Writers that did not leave are dead then.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.mu.Lock()
	for w := range s.writers {
		w.cut()
	}
	s.mu.Unlock()
	s.fillers.Wait()
	s.pool.Close()
	return nil
}

// begin is called by every method before it does anything. The context that it returns has a
// deadline.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if s.closed.Load() {
		return nil, nil, errClosed
	}
	ctx, cancel := within(ctx, answerTime)
	return ctx, cancel, nil
}

// within returns a context that ends with ctx, and after a time at most, and has none of its
// values. The driver asks a context on goroutines of its own, where a panic of one that a caller
// made would end the process; so ctx is asked here and no more.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(d)
	if t, ok := ctx.Deadline(); ok && t.Before(until) {
		until = t
	}
	own, cancel := context.WithDeadline(context.Background(), until)
	if done := ctx.Done(); done != nil {
		go func() {
			select {
			case <-done:
				cancel()
			case <-own.Done():
			}
		}()
	}
	return own, cancel
}

// log returns the id of the log, and 0 if there is none.
func (s *Store) log(ctx context.Context) (int32, error) {
	s.mu.Lock()
	id, origin := s.id, s.origin
	s.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	ids, origins := []int32{}, []string{}
	rows, err := s.pool.Query(ctx, "SELECT id, origin FROM log WHERE $1 IN ('', origin) ORDER BY id LIMIT 2", origin)
	if err != nil {
		return 0, err
	}
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		ids, origins = append(ids, id), append(origins, name)
		return nil
	}); err != nil {
		return 0, err
	}
	switch len(ids) {
	case 0:
		return 0, nil
	case 1:
		return ids[0], s.is(ids[0], origins[0])
	}
	return 0, refused("schema " + strconv.Quote(s.schema) + " has several logs: say which by Options.Origin")
}

// is makes a log that of the store.
func (s *Store) is(id int32, origin string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.origin != "" && s.origin != origin {
		return refused(fmt.Sprintf("the store is the log %s, not %s: open another store", s.origin, origin))
	}
	s.id, s.origin = id, origin
	return nil
}
