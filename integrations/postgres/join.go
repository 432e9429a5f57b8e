package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

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
	ctx, cancel := within(ctx, answerTime)
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
