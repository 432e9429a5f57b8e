package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

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
			w.free(ctx)
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
func (w *writer) take(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	x := answer{ask: a, state: proofgraph.State{Sessions: make(map[string]proofgraph.End, len(a.Sessions))},
		rows: make(sessionRows, len(a.Sessions))}
	for _, name := range a.Sessions {
		x.state.Sessions[name], x.rows[name] = proofgraph.End{}, pgtype.TID{}
	}
	names := append([]string{contracts.SessionKernel}, a.Sessions...)
	b := new(pgx.Batch)
	b.Queue("begin")
	b.Queue("log", w.log).QueryRow(func(row pgx.Row) error { return row.Scan(&x.state.Size) })
	b.Queue("writer", w.id, w.incarnation).Query(x.writer)
	b.Queue("sessions", w.log, names).Query(x.sessions)
	if len(a.Balances) > 0 {
		args := append([]any{w.log}, new(columns).balances(a.Balances)[:3]...)
		b.Queue("balances", args...).Query(x.balances)
	}
	if len(a.Nonces) > 0 {
		b.Queue("nonces", w.log, a.Nonces).Query(x.nonces)
	}
	if err := w.link.SendBatch(ctx, b).Close(); err != nil {
		return proofgraph.State{}, err
	}
	if !x.ours {
		return proofgraph.State{}, proofgraph.ErrFenced
	}
	w.rows = x.rows
	return x.state, nil
}

// sessionRows are where rows of sessions are, by name, so that what writes them need not look them
// up again. They hold for the rest of a turn. A session without a row has one that is not valid.
type sessionRows map[string]pgtype.TID

// of returns the rows of sessions in the order of names, and nil if one of them was not read.
func (r sessionRows) of(names []string) []pgtype.TID {
	list := make([]pgtype.TID, 0, len(names))
	for _, name := range names {
		row, ok := r[name]
		if !ok {
			return nil
		}
		list = append(list, row)
	}
	return list
}

// An answer is what a turn reads.
type answer struct {
	ask   proofgraph.Ask
	state proofgraph.State
	rows  sessionRows
	ours  bool // the writer may write
}

func (x *answer) writer(rows pgx.Rows) error {
	x.ours = rows.Next()
	rows.Close()
	return rows.Err()
}

func (x *answer) sessions(rows pgx.Rows) error {
	var row pgtype.TID
	var name string
	var last []byte
	var end proofgraph.End
	into := []any{&row, &name, &end.Next, &last, &end.Lamport, (*int64)(&end.Time), &end.Open, &end.Closed}
	_, err := pgx.ForEachRow(rows, into, func() error {
		if copy(end.Last[:], last) != len(end.Last) {
			return errors.New("a hash in the table session has another length")
		}
		if name == contracts.SessionKernel {
			x.state.Kernel = end.Next
		}
		if _, ok := x.state.Sessions[name]; ok {
			x.state.Sessions[name], x.rows[name] = end, row
		}
		return nil
	})
	return err
}

func (x *answer) balances(rows pgx.Rows) error {
	spent, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for i, b := range x.ask.Balances {
		b.Spent = uint64(spent[i])
		x.state.Spent = append(x.state.Spent, b)
	}
	return nil
}

func (x *answer) nonces(rows pgx.Rows) (err error) {
	x.state.Used, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
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

// free ends connections of other writers that have begun a transaction and then nothing for 5 s.
// The server does that itself if no statement is under way, but it waits without end for the rest
// of one that was sent in part. Writers with another login can neither be seen nor ended.
func (w *writer) free(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// If it fails nothing is ended, and the next try for a turn finds out why.
	_, _ = w.link.Exec(ctx, `SELECT pg_terminate_backend(a.pid)
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid AND a.datname = current_database()
		WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
			AND l.classid = $1 AND l.objid IN (SELECT id::bigint::oid FROM writer WHERE log = $2)
			AND a.xact_start IS NOT NULL AND a.wait_event = 'ClientRead' AND a.state_change < now() - interval '5 s'`,
		w.link.table, w.log)
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
	args = append(args, w.rows.of(cols.names))
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
