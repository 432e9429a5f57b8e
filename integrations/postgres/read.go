package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// page is how many entries are read by one query.
const page = 256

// Append returns [proofgraph.ErrShared].
func (s *Store) Append(ctx context.Context, _ proofgraph.Batch) error {
	_, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	cancel()
	return proofgraph.ErrShared
}

// read calls what reads the log with that id, once more if its connection was lost: one that the
// pool had may have ended before.
func (s *Store) read(ctx context.Context, op string, query func(ctx context.Context, log int32) error) error {
	for again := false; ; again = true {
		err := s.readOnce(ctx, query)
		switch {
		case err == nil, errors.Is(err, errClosed), errors.Is(err, proofgraph.ErrNoBlob):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case again || !lost(nil, err) || errors.Is(err, context.DeadlineExceeded):
			return describe(op, err)
		}
	}
}

func (s *Store) readOnce(ctx context.Context, query func(ctx context.Context, log int32) error) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	log, err := s.log(ctx)
	if err != nil {
		return err
	}
	err = query(ctx, log)
	if err != nil && s.closed.Load() {
		return errClosed
	}
	return err
}

// none makes the error of a row that is not there nil.
func none(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// Size returns the number of entries.
func (s *Store) Size(ctx context.Context) (size uint64, err error) {
	err = s.read(ctx, "size", func(ctx context.Context, log int32) error {
		return none(s.pool.QueryRow(ctx, "SELECT size FROM log WHERE id = $1", log).Scan(&size))
	})
	return size, err
}

// Entries returns the entries with indexes from ≤ i < to. It reads them in pages, and holds no
// connection between them.
func (s *Store) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		size, err := s.Size(ctx)
		if err == nil && (from > to || to > size) {
			err = fmt.Errorf("postgres: entries %d to %d of %d", from, to, size)
		}
		for err == nil && from < to {
			var list []proofgraph.Placed
			if list, err = s.entries(ctx, from, min(to, from+page)); err != nil {
				break
			}
			for _, e := range list {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(e.Entry, nil) {
					return
				}
			}
			from += uint64(len(list))
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

const entriesSQL = "SELECT index, body FROM entry WHERE log = $1 AND index >= $2 AND index < $3 ORDER BY index"

// entries returns the entries with indexes from ≤ i < to, which must be there.
func (s *Store) entries(ctx context.Context, from, to uint64) (list []proofgraph.Placed, err error) {
	err = s.read(ctx, "entries", func(ctx context.Context, log int32) error {
		list, err = collect(s.pool.Query(ctx, entriesSQL, log, int64(from), int64(to)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, whole(list, from, to)
}

// collect reads rows of an index and an entry.
func collect(rows pgx.Rows, err error) ([]proofgraph.Placed, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p proofgraph.Placed, err error) {
		err = row.Scan(&p.Index, (*[]byte)(&p.Entry))
		return p, err
	})
}

// whole returns an error unless the list is the entries with indexes from ≤ i < to.
func whole(list []proofgraph.Placed, from, to uint64) error {
	for i := from; i < to; i++ {
		if at := i - from; at >= uint64(len(list)) || list[at].Index != i {
			return fmt.Errorf("postgres: entry %d is missing", i)
		}
	}
	return nil
}

// Session returns the entries of a session that were there when the iteration began, from a seq on.
func (s *Store) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	return func(yield func(proofgraph.Placed, error) bool) {
		if !utf8.ValidString(name) || strings.Contains(name, "\x00") {
			name = "\n" // which is no session either, and may be asked for
		}
		to := int64(-1)
		err := s.read(ctx, "session", func(ctx context.Context, log int32) error {
			return s.pool.QueryRow(ctx, "SELECT coalesce(max(seq), -1) FROM entry WHERE log = $1 AND session = $2",
				log, name).Scan(&to)
		})
		to++
		for err == nil && from < uint64(to) {
			var list []proofgraph.Placed
			seqs := min(to, int64(from)+page)
			err = s.read(ctx, "session", func(ctx context.Context, log int32) error {
				list, err = collect(s.pool.Query(ctx, `SELECT index, body FROM entry
					WHERE log = $1 AND session = $2 AND seq >= $3 AND seq < $4 ORDER BY seq`,
					log, name, int64(from), seqs))
				return err
			})
			if err == nil && int64(len(list)) < seqs-int64(from) {
				err = errors.New("postgres: session: one of its entries is missing")
			}
			if err != nil {
				break
			}
			for _, e := range list {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
			}
			from += uint64(len(list))
		}
		if err != nil {
			yield(proofgraph.Placed{}, err)
		}
	}
}

// Blob returns the blob with digest d. If its bytes are others by now, that is an error. Putting it
// again does not mend it, since writers have no right to: an eraser removes it first.
func (s *Store) Blob(ctx context.Context, d contracts.Digest) (b []byte, err error) {
	err = s.read(ctx, "blob", func(ctx context.Context, log int32) error {
		err := s.pool.QueryRow(ctx, "SELECT bytes FROM blob WHERE log = $1 AND digest = $2", log, d[:]).Scan(&b)
		if errors.Is(err, pgx.ErrNoRows) {
			return proofgraph.ErrNoBlob
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case crypto.Sum(b) != d:
		return nil, fmt.Errorf("postgres: blob: %w", proofgraph.ErrDamaged)
	}
	return b, nil
}

// Checkpoint returns the checkpoint of the most entries.
func (s *Store) Checkpoint(ctx context.Context) (note []byte, err error) {
	err = s.read(ctx, "checkpoint", func(ctx context.Context, log int32) error {
		return none(s.pool.QueryRow(ctx, "SELECT checkpoint FROM log WHERE id = $1", log).Scan(&note))
	})
	return note, err
}

// EraseBlob deletes the row of a blob. The connection's user needs the role of an eraser.
//
// From then on no query returns the bytes. They leave the table's files with the next VACUUM of the
// table blob, which autovacuum also does in time, and stay in write-ahead log, replicas that lag
// and backups as long as these are kept.
func (s *Store) EraseBlob(ctx context.Context, d contracts.Digest) error {
	return s.read(ctx, "erase", func(ctx context.Context, log int32) error {
		_, err := s.pool.Exec(ctx, "DELETE FROM blob WHERE log = $1 AND digest = $2", log, d[:])
		return err
	})
}

// signed returns a number as the database has it.
func signed(n uint64) (int64, error) {
	if n > math.MaxInt64 {
		return 0, errors.New("postgres: a number is above 2^63-1")
	}
	return int64(n), nil
}
