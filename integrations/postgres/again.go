package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/helmkernel/helm/proofgraph"
)

// Errors of a writer that do not pass.
var (
	errOther = errors.New("the server has forgotten what it had stored: " +
		"the database was put back, or a standby that lacked it took over")
	errAhead = errors.New("the row of this writer says more than it did: somebody else has changed it")
)

// again connects again after the connection was lost, or after the server has warned at a commit.
// It reports whether the append that had no answer was written, and the index of its first entry.
//
// The old connection is ended at the server first, and the writer's incarnation raised after that.
// The row is changed by every append, so that raising it waits for what the old connection still
// writes, and voids what of it comes later. It is itself a commit that is waited for, so that what
// was written before it is as durable.
//
// The caller's context counts: if it ends, it stays unknown what was written.
func (w *writer) again(ctx context.Context) (written bool, at int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	w.lose()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if w.store.closed.Load() {
			return false, 0, errClosed
		}
		if w.store.connecting != nil {
			w.store.connecting(w)
		}
		l, batch, at, err := w.raise(ctx)
		if err == nil {
			w.use(l)
			w.old = nil
			switch {
			case batch == w.batch:
				return false, 0, nil
			case batch == w.batch+1:
				w.batch = batch
				return true, at, nil
			case batch < w.batch:
				return false, 0, errOther
			}
			return false, 0, errAhead
		}
		if l != nil {
			w.old = append(w.old, l.backend)
			l.drop()
		}
		var final refused
		if errors.Is(err, proofgraph.ErrFenced) || errors.Is(err, errOther) || errors.As(err, &final) {
			return false, 0, err
		}
		select {
		case <-ctx.Done():
			return false, 0, err
		case <-time.After(pause):
		}
	}
}

// lose drops the connection, and remembers it as one that may not have ended at the server.
func (w *writer) lose() {
	if w.link != nil {
		w.old = append(w.old, w.link.backend)
		w.link.drop()
		w.use(nil)
	}
}

// raise makes a connection the writer's own, and returns the writer's batch. With an error the
// connection may be there, and is of no use.
func (w *writer) raise(ctx context.Context) (l *link, batch, at int64, err error) {
	if l, err = w.store.link(ctx); err != nil {
		return nil, 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := w.lock(ctx, l); err != nil {
		return l, 0, 0, err
	}
	l.warned = false
	w.raises++
	incarnation := w.incarnation
	err = l.QueryRow(ctx, `UPDATE writer SET incarnation = incarnation + 1
		WHERE id = $1 AND log = $2 AND incarnation BETWEEN $3 AND $4 AND NOT fenced
		RETURNING incarnation, batch, at`, w.id, w.log, w.incarnation, w.incarnation+w.raises-1,
	).Scan(&incarnation, &batch, &at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return l, 0, 0, w.missing(ctx, l)
	case err != nil:
		return l, 0, 0, err
	case l.warned:
		return l, 0, 0, errors.New("the server has warned that it may lose what it stored")
	}
	w.incarnation, w.raises = incarnation, 0
	return l, batch, at, nil
}

// lock takes the lock of the writer. If the lost connection still has it, that is ended at the
// server: it cannot be given back otherwise. A writer that finds this one dead has the lock until
// the fence is set.
func (w *writer) lock(ctx context.Context, l *link) error {
	locked := false
	err := l.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", int32(l.table), w.id).Scan(&locked)
	if err != nil || locked {
		return err
	}
	for _, b := range w.old {
		gone := true
		err := l.QueryRow(ctx, `SELECT coalesce(bool_and(pg_terminate_backend(pid, 5000)), true) FROM pg_stat_activity
			WHERE pid = $1 AND backend_start = $2`, b.pid, b.started).Scan(&gone)
		if err == nil && !gone {
			err = errors.New("the connection that was lost does not end at the server")
		}
		if err != nil {
			return err
		}
	}
	_, err = l.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", int32(l.table), w.id)
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "55P03" {
		return proofgraph.ErrFenced
	}
	return err
}

// missing returns the error of a writer of which there is no row that it may use.
func (w *writer) missing(ctx context.Context, l *link) error {
	var isFenced bool
	err := l.QueryRow(ctx, "SELECT fenced FROM writer WHERE id = $1 AND log = $2", w.id, w.log).Scan(&isFenced)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !isFenced:
		return errOther
	case err != nil:
		return err
	}
	return proofgraph.ErrFenced
}
