package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

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
	raises      int64       // how often it was tried to raise the incarnation since it was known
	batch       int64       // the number of appends that were answered
	turn        bool        // between Turn and End
	size        uint64      // of the log, in a turn
	rows        sessionRows // of the sessions that a turn has read
	err         error       // not nil: the writer is of no more use

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
	"sessions": `SELECT s.ctid, s.name, s.next, s.last, s.lamport, s.time, s.open, s.closed
		FROM unnest($2::text[]) a (name)
		CROSS JOIN LATERAL (SELECT ctid, * FROM session WHERE log = $1 AND name = a.name LIMIT 1) s`,
	"balances": `SELECT coalesce(b.spent, 0)
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY a (budget, "of", "window", place)
		LEFT JOIN LATERAL (SELECT spent FROM balance
			WHERE log = $1 AND budget = a.budget AND "of" = a."of" AND "window" = a."window" LIMIT 1) b ON true
		ORDER BY a.place`,
	"nonces": `SELECT a.nonce FROM unnest($2::text[]) WITH ORDINALITY a (nonce, place)
		WHERE (SELECT true FROM nonce n WHERE n.log = $1 AND n.nonce = a.nonce) ORDER BY a.place`,
	"write":  "SELECT write(" + places(1, 26) + ")",
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
	ctx, cancel := within(ctx, answerTime)
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
	w.lose()
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
	changed := cols.changed(&c)
	args := append([]any{w.log, w.id, w.incarnation}, cols.guessed(guess)...)
	args = append(args, changed...)
	if cols.err != nil {
		return 0, w.fail("put", cols.err)
	}
	w.link.warned = false
	at, err := w.link.put(within, args)
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
		if op == "put" { // it may have waited for a connection that hangs
			w.free(ctx)
		}
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
