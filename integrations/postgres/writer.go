package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A writer appends for one process.
type writer struct {
	store *Store
	log   int32
	id    int32

	mu          sync.Mutex // held during a call; protects the fields below
	link        *link      // nil: lost
	old         []backend  // connections that were lost, and may not have ended at the server
	incarnation int64
	raises      int64  // how often it was tried to raise the incarnation since it was known
	batch       int64  // the number of appends that were answered
	turn        bool   // between Turn and End
	size        uint64 // of the log, in a turn
	err         error  // not nil: the writer is of no more use

	cutting sync.Mutex // held for moments; protects the fields below, which Close uses during a call
	line    *link
	isCut   bool
}

// What the functions return in place of an index.
const (
	moved  = -1
	fenced = -2
)

// statements are prepared on the connection of every writer, by their names.
var statements = map[string]string{
	"put":    "SELECT put(" + places(1, 32) + ")",
	"begin":  "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
	"log":    "SELECT size FROM log WHERE id = $1 FOR NO KEY UPDATE",
	"writer": "SELECT id FROM writer WHERE id = $1 AND incarnation = $2 AND NOT fenced FOR NO KEY UPDATE",
	"sessions": `SELECT name, next, last, lamport, time, open, closed FROM session
		WHERE log = $1 AND name = ANY ($2::text[])`,
	"balances": `SELECT coalesce(b.spent, 0)
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY a (budget, "of", "window", place)
		LEFT JOIN balance b ON b.log = $1 AND b.budget = a.budget AND b."of" = a."of" AND b."window" = a."window"
		ORDER BY a.place`,
	"nonces": `SELECT a.nonce FROM unnest($2::text[]) WITH ORDINALITY a (nonce, place)
		JOIN nonce n ON n.log = $1 AND n.nonce = a.nonce ORDER BY a.place`,
	"write":  "SELECT write(" + places(1, 25) + ")",
	"commit": "COMMIT",
	"dead":   "SELECT dead($1, $2, $3, $4)",
}

// places returns "$from, …, $to".
func places(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i))
	}
	return b.String()
}

// Join returns a writer of the log with that origin, and begins the log if there is none. It
// returns an error if the server or the database is not one that a log may be written to: see the
// package comment. The writer has a connection of its own, until it leaves or the store is closed.
func (s *Store) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	_, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	cancel()
	if !contracts.IsOrigin(origin) || origin == "" {
		return nil, errOrigin
	}
	w, err := s.join(ctx, origin)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, describe("join", err)
	}
	return w, nil
}

func (s *Store) join(ctx context.Context, origin string) (_ *writer, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	l, err := s.link(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.drop()
		}
	}()
	w := &writer{store: s, incarnation: first()}
	if _, err := l.Exec(ctx, "INSERT INTO log (origin) VALUES ($1) ON CONFLICT DO NOTHING", origin); err != nil {
		return nil, err
	}
	if err := l.QueryRow(ctx, "SELECT id FROM log WHERE origin = $1", origin).Scan(&w.log); err != nil {
		return nil, err
	}
	if err := s.is(w.log, origin); err != nil {
		return nil, err
	}
	if err := l.QueryRow(ctx, "SELECT nextval('writer_id')::integer").Scan(&w.id); err != nil {
		return nil, err
	}
	var locked bool // before the row is there: a row without its lock is of a dead writer
	err = l.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", int32(l.table), w.id).Scan(&locked)
	if err == nil && !locked {
		err = errors.New("the lock of a new writer is held: the database is another one by now")
	}
	if err != nil {
		return nil, err
	}
	l.warned = false
	_, err = l.Exec(ctx, "INSERT INTO writer (id, log, incarnation) VALUES ($1, $2, $3)", w.id, w.log, w.incarnation)
	if err == nil && l.warned {
		err = errors.New("the server has warned that it may lose what it stored")
	}
	if err != nil {
		return nil, err
	}
	w.use(l)
	s.mu.Lock()
	s.writers[w] = true
	s.mu.Unlock()
	if s.closed.Load() {
		w.cut()
		return nil, errClosed
	}
	return w, nil
}

// first returns a number that no other writer begins with, so that the row of another writer, in a
// database that was put back, is not taken for this one's.
func first() int64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:]) >> 2)
}

// use makes a connection the writer's.
func (w *writer) use(l *link) {
	w.link = l
	w.cutting.Lock()
	defer w.cutting.Unlock()
	w.line = l
	if w.isCut && l != nil {
		l.PgConn().Conn().Close()
	}
}

// cut closes the connection, also during a call, and lets the writer make no other.
func (w *writer) cut() {
	w.cutting.Lock()
	defer w.cutting.Unlock()
	w.isCut = true
	if w.line != nil {
		w.line.PgConn().Conn().Close()
	}
}

// ID returns the writer's number.
func (w *writer) ID() uint64 { return uint64(w.id) }

// begin is called by every method before it does anything. The caller holds mu.
func (w *writer) begin(ctx context.Context, turn bool) (context.Context, context.CancelFunc, error) {
	switch {
	case w.store.closed.Load():
		return nil, nil, errClosed
	case w.err != nil:
		return nil, nil, w.err
	case w.turn != turn:
		if turn {
			return nil, nil, errors.New("postgres: writer: End without a Turn")
		}
		return nil, nil, errors.New("postgres: writer: a Turn has not ended")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	return ctx, cancel, nil
}

// fail ends the writer's use, and returns the error that it then returns.
func (w *writer) fail(op string, err error) error {
	if !errors.Is(err, proofgraph.ErrFenced) {
		err = describe(op, err)
	}
	if w.store.closed.Load() {
		err = errClosed
	}
	w.err = err
	w.link.drop()
	w.use(nil)
	w.store.mu.Lock()
	delete(w.store.writers, w)
	w.store.mu.Unlock()
	return err
}

// Put writes a batch if the log is as guessed. If the context ends while it waits for the log,
// nothing was written.
func (w *writer) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	within, cancel, err := w.begin(ctx, false)
	if err != nil {
		return 0, err
	}
	defer cancel()
	var cols columns
	args := append([]any{w.log, w.id, w.incarnation}, cols.guessed(guess)...)
	args = append(args, cols.changed(&c)...)
	if cols.err != nil {
		return 0, w.fail("put", cols.err)
	}
	at := int64(0)
	w.link.warned = false
	err = w.link.QueryRow(within, "put", args...).Scan(&at)
	return w.appended(ctx, "put", at, err, &c)
}

// appended returns what an append came to, of which the server has returned at or an error.
func (w *writer) appended(ctx context.Context, op string, at int64, err error, c *proofgraph.Change) (uint64, error) {
	switch {
	case err == nil && at == fenced:
		return 0, w.fail(op, proofgraph.ErrFenced)
	case err == nil && at == moved:
		return 0, proofgraph.ErrMoved
	case err != nil && lost(w.link.Conn, err), err == nil && w.link.warned:
		written, place, err := w.again(ctx)
		if err != nil {
			return 0, w.fail(op, err)
		}
		if !written {
			return 0, proofgraph.ErrMoved
		}
		at = place
	case err != nil && passes(err):
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, proofgraph.ErrMoved
	case err != nil:
		return 0, w.fail(op, err)
	default:
		w.batch++
	}
	if c.Checkpoint != nil {
		w.store.fillHashes()
	}
	return uint64(at), nil
}

// Turn waits until the log is nobody else's.
func (w *writer) Turn(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	if err := ctx.Err(); err != nil {
		return proofgraph.State{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(turnTime)
	for {
		turn, cancel, err := w.begin(ctx, false)
		if err != nil {
			return proofgraph.State{}, err
		}
		state, err := w.take(turn, a)
		cancel()
		switch {
		case err == nil:
			w.turn, w.size = true, state.Size
			return state, nil
		case errors.Is(err, proofgraph.ErrFenced):
			return proofgraph.State{}, w.fail("turn", err)
		case lost(w.link.Conn, err):
			if written, _, err := w.again(ctx); err != nil {
				return proofgraph.State{}, w.fail("turn", err)
			} else if written {
				return proofgraph.State{}, w.fail("turn", errors.New("an append that was not made is there"))
			}
		case !passes(err):
			return proofgraph.State{}, w.fail("turn", err)
		default:
			if err := w.rollback(ctx); err != nil {
				return proofgraph.State{}, w.fail("turn", err)
			}
		}
		if ctx.Err() != nil {
			return proofgraph.State{}, ctx.Err()
		}
		if time.Now().After(until) {
			return proofgraph.State{}, w.fail("turn", err)
		}
	}
}

// take begins a transaction, takes the log in it, and reads what was asked for, in one round trip.
func (w *writer) take(ctx context.Context, a proofgraph.Ask) (state proofgraph.State, err error) {
	state.Sessions = make(map[string]proofgraph.End, len(a.Sessions))
	for _, name := range a.Sessions {
		state.Sessions[name] = proofgraph.End{}
	}
	var cols columns
	ours := false
	b := new(pgx.Batch)
	b.Queue("begin")
	b.Queue("log", w.log).QueryRow(func(row pgx.Row) error { return row.Scan(&state.Size) })
	b.Queue("writer", w.id, w.incarnation).Query(func(rows pgx.Rows) error {
		ours = rows.Next()
		rows.Close()
		return rows.Err()
	})
	b.Queue("sessions", w.log, append([]string{contracts.SessionKernel}, a.Sessions...)).Query(func(rows pgx.Rows) error {
		var name string
		var last []byte
		var end proofgraph.End
		_, err := pgx.ForEachRow(rows, []any{&name, &end.Next, &last, &end.Lamport, (*int64)(&end.Time), &end.Open,
			&end.Closed}, func() error {
			if copy(end.Last[:], last) != len(end.Last) {
				return errors.New("a hash in the table session has another length")
			}
			if name == contracts.SessionKernel {
				state.Kernel = end.Next
			}
			if _, ok := state.Sessions[name]; ok {
				state.Sessions[name] = end
			}
			return nil
		})
		return err
	})
	if len(a.Balances) > 0 {
		b.Queue("balances", append([]any{w.log}, cols.balances(a.Balances)[:3]...)...).Query(func(rows pgx.Rows) error {
			for n := 0; rows.Next(); n++ {
				x := a.Balances[n]
				if err := rows.Scan(&x.Spent); err != nil {
					return err
				}
				state.Spent = append(state.Spent, x)
			}
			return rows.Err()
		})
	}
	if len(a.Nonces) > 0 {
		b.Queue("nonces", w.log, a.Nonces).Query(func(rows pgx.Rows) error {
			state.Used, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}
	if err := w.link.SendBatch(ctx, b).Close(); err != nil {
		return proofgraph.State{}, err
	}
	if !ours {
		return proofgraph.State{}, proofgraph.ErrFenced
	}
	return state, nil
}

// rollback ends a transaction in which nothing was changed.
func (w *writer) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	_, err := w.link.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	if err == nil || !lost(w.link.Conn, err) {
		return err
	}
	written, _, err := w.again(ctx)
	if err == nil && written {
		err = errors.New("an append that was not made is there")
	}
	return err
}

// End writes a batch and ends the turn, in one round trip.
func (w *writer) End(ctx context.Context, c proofgraph.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	within, cancel, err := w.begin(ctx, true)
	if err != nil {
		return err
	}
	defer cancel()
	w.turn = false
	if ctx.Err() != nil || empty(&c) {
		if err := w.rollback(ctx); err != nil {
			return w.fail("end", err)
		}
		return ctx.Err()
	}
	var cols columns
	args := append([]any{w.log, w.id, w.incarnation, int64(w.size)}, cols.changed(&c)...)
	if cols.err != nil {
		return w.fail("end", cols.err)
	}
	w.link.warned = false
	at, err := w.commit(within, args)
	if err != nil && !lost(w.link.Conn, err) {
		if failed := w.rollback(ctx); failed != nil {
			return w.fail("end", failed)
		}
	}
	_, err = w.appended(ctx, "end", at, err, &c)
	return err
}

// commit writes a batch in the transaction that there is, and commits it.
func (w *writer) commit(ctx context.Context, args []any) (at int64, err error) {
	b := new(pgx.Batch)
	b.Queue("write", args...)
	b.Queue("commit")
	results := w.link.SendBatch(ctx, b)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if err := results.QueryRow().Scan(&at); err != nil {
		return 0, err
	}
	tag, err := results.Exec()
	if err == nil && tag.String() != "COMMIT" { // which no server does
		w.link.drop()
		err = errors.New("the server has not committed")
	}
	return at, err
}
