package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/proofgraph"
)

// Dead fences the writers that are dead. Of a writer of another log it says nothing.
func (w *writer) Dead(ctx context.Context) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for tries := 0; ; tries++ {
		within, cancel, err := w.begin(ctx, false)
		if err != nil {
			return nil, err
		}
		open, err := w.bury(within)
		cancel()
		switch {
		case err == nil:
			return open, nil
		case errors.Is(err, proofgraph.ErrFenced) || tries == 3:
			return nil, w.fail("dead", err)
		case lost(w.link.Conn, err):
			if _, _, err := w.again(ctx); err != nil {
				return nil, w.fail("dead", err)
			}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !passes(err):
			return nil, w.fail("dead", err)
		}
	}
}

func (w *writer) bury(ctx context.Context) (open []uint64, err error) {
	w.link.warned = false
	rows, err := w.link.Query(ctx, "dead", w.log, w.id, w.incarnation, int32(w.link.table))
	if err != nil {
		return nil, err
	}
	index := int64(0)
	_, err = pgx.ForEachRow(rows, []any{&index}, func() error {
		if index == fenced {
			return proofgraph.ErrFenced
		}
		open = append(open, uint64(index))
		return nil
	})
	if err == nil && w.link.warned {
		w.link.drop() // a fence that may be lost is tried again
		err = errors.New("the server has warned that it may lose what it stored")
	}
	return open, err
}

// Leave ends the writer. Its open decisions can be settled by others then.
func (w *writer) Leave(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store.closed.Load() {
		return errClosed
	}
	if errors.Is(w.err, proofgraph.ErrFenced) || errors.Is(w.err, errLeft) {
		return nil
	}
	unknown := errors.Is(w.err, context.Canceled) || errors.Is(w.err, context.DeadlineExceeded)
	if w.err != nil && !unknown {
		return w.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if unknown { // its old connection may still write; it is ended, so that nothing comes later
		if _, _, err := w.again(ctx); errors.Is(err, proofgraph.ErrFenced) {
			w.err = err
			return nil
		} else if err != nil {
			return describe("leave", err)
		}
		w.turn = false
	}
	if w.turn {
		w.turn = false
		if err := w.rollback(ctx); err != nil {
			return w.fail("leave", err)
		}
	}
	_, err := w.link.Exec(ctx, "UPDATE writer SET gone = true WHERE id = $1 AND incarnation = $2", w.id, w.incarnation)
	if err != nil {
		return w.fail("leave", err)
	}
	w.link.Close(ctx)
	w.fail("leave", errLeft)
	w.err = errLeft
	return nil
}

var errLeft = errors.New("postgres: the writer has left")
