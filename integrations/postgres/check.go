package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// maxFound is how many differences the error of a check names.
const maxFound = 20

// Check reads all entries of the log and compares the tables that are derived from them: log,
// session, balance, nonce and open, and the columns session and seq of entry. Its error names the
// row and the column of what differs. Other calls go on, and it sees the log as it was when it
// began. It verifies no signature: a verifier does that, of a pack.
//
// Which nonces were used is in the inputs of decisions. If some are not kept, or were erased, a
// nonce more than the others have is no difference.
//
// The tables are what the appends of all processes are compared with. Who can change them can
// have a budget exceeded: the database's owner, and the role of a writer.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return errClosed
	}
	log, err := s.log(ctx)
	if err != nil || log == 0 {
		return describe("check", err)
	}
	c := &check{log: log}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error { return c.run(ctx, tx) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return describe("check", err)
	case len(c.found) > maxFound:
		c.found = append(c.found[:maxFound], fmt.Sprintf("and %d more", len(c.found)-maxFound))
	case len(c.found) == 0:
		return nil
	}
	return errors.New("postgres: check: " + strings.Join(c.found, "; "))
}

// A check is one run of Check.
type check struct {
	log   int32
	fold  *fold
	found []string // differences
}

// differs notes that a column of a row is another than the entries say.
func (c *check) differs(row, column string, is, want any) {
	if is != want {
		c.found = append(c.found, fmt.Sprintf("%s: %s is %v, and the entries say %v", row, column, is, want))
	}
}

func (c *check) run(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '10min'"); err != nil {
		return err
	}
	c.fold = newFold(func(d contracts.Digest) (b []byte, err error) {
		err = tx.QueryRow(ctx, "SELECT bytes FROM blob WHERE log = $1 AND digest = $2", c.log, d[:]).Scan(&b)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, proofgraph.ErrNoBlob
		}
		return b, err
	})
	var size uint64
	if err := tx.QueryRow(ctx, "SELECT size FROM log WHERE id = $1", c.log).Scan(&size); err != nil {
		return err
	}
	if whole, err := c.entries(ctx, tx); err != nil || !whole {
		return err
	}
	c.differs("log", "size", size, c.fold.size)
	for _, table := range []func(context.Context, pgx.Tx) error{c.sessions, c.balances, c.nonces, c.open} {
		if err := table(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// A row is one of the table entry.
type row struct {
	index, seq uint64
	session    string
	body       []byte
}

// entries folds the entries. It reports false if one cannot be: what follows it is not known.
func (c *check) entries(ctx context.Context, tx pgx.Tx) (whole bool, err error) {
	for {
		rows, err := tx.Query(ctx, `SELECT index, seq, session, body FROM entry WHERE log = $1 AND index >= $2
			ORDER BY index LIMIT $3`, c.log, int64(c.fold.size), page)
		if err != nil {
			return false, err
		}
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (x row, err error) {
			err = r.Scan(&x.index, &x.seq, &x.session, &x.body)
			return x, err
		})
		if err != nil {
			return false, err
		}
		for _, x := range list {
			if at := c.fold.size; x.index != at {
				c.differs(fmt.Sprintf("entry %d", at), "index", "missing", "there")
				return false, nil
			}
			name := fmt.Sprintf("entry %d", x.index)
			h, err := c.fold.add(x.body)
			if err != nil {
				c.found = append(c.found, fmt.Sprintf("%s: body: %v", name, err))
				return false, nil
			}
			c.differs(name, "session", strconv.Quote(x.session), strconv.Quote(h.Session))
			c.differs(name, "seq", x.seq, h.Seq)
		}
		if len(list) < page {
			return true, nil
		}
	}
}

func (c *check) sessions(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT name, next, last, lamport, time, open, closed FROM session
		WHERE log = $1`, c.log)
	if err != nil {
		return err
	}
	var name string
	var last []byte
	var is proofgraph.End
	seen := make(map[string]bool, len(c.fold.ends))
	_, err = pgx.ForEachRow(rows, []any{&name, &is.Next, &last, &is.Lamport, (*int64)(&is.Time), &is.Open, &is.Closed},
		func() error {
			want, row := c.fold.ends[name], fmt.Sprintf("session %q", name)
			c.differs(row, "next", is.Next, want.Next)
			c.differs(row, "last", fmt.Sprintf("%x", last), want.Last.String())
			c.differs(row, "lamport", is.Lamport, want.Lamport)
			c.differs(row, "time", is.Time, want.Time)
			c.differs(row, "open", is.Open, want.Open)
			c.differs(row, "closed", is.Closed, want.Closed)
			seen[name] = true
			return nil
		})
	for name, want := range c.fold.ends {
		if !seen[name] {
			c.differs(fmt.Sprintf("session %q", name), "next", 0, want.Next)
		}
	}
	return err
}

func (c *check) balances(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT budget, "of", "window", spent FROM balance WHERE log = $1`, c.log)
	if err != nil {
		return err
	}
	var b contracts.Balance
	var spent uint64
	differs := func(b contracts.Balance, spent uint64) {
		c.differs(fmt.Sprintf("balance %q of %q in %q", b.Budget, b.Of, b.Window), "spent", spent, c.fold.spent[b])
	}
	seen := make(map[contracts.Balance]bool, len(c.fold.spent))
	_, err = pgx.ForEachRow(rows, []any{&b.Budget, &b.Of, &b.Window, &spent}, func() error {
		differs(b, spent)
		seen[b] = true
		return nil
	})
	for b := range c.fold.spent {
		if !seen[b] {
			differs(b, 0)
		}
	}
	return err
}

func (c *check) nonces(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT nonce FROM nonce WHERE log = $1", c.log)
	if err != nil {
		return err
	}
	nonce, more := "", []string(nil)
	seen := make(map[string]bool, len(c.fold.nonces))
	_, err = pgx.ForEachRow(rows, []any{&nonce}, func() error {
		seen[nonce] = true
		if !c.fold.nonces[nonce] {
			more = append(more, nonce)
		}
		return nil
	})
	for nonce := range c.fold.nonces {
		if !seen[nonce] {
			c.differs(fmt.Sprintf("nonce %q", nonce), "nonce", "missing", "used")
		}
	}
	if len(more) > c.fold.unknown {
		for _, nonce := range more {
			c.differs(fmt.Sprintf("nonce %q", nonce), "nonce", "there", "not used")
		}
	}
	return err
}

func (c *check) open(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT index, settler IS NOT NULL FROM open WHERE log = $1", c.log)
	if err != nil {
		return err
	}
	var index uint64
	var settled bool
	seen := make([]bool, len(c.fold.decided))
	_, err = pgx.ForEachRow(rows, []any{&index, &settled}, func() error {
		row := fmt.Sprintf("open %d", index)
		place, ok := slices.BinarySearch(c.fold.decided, index)
		if !ok {
			c.differs(row, "index", "there", "no decision")
			return nil
		}
		if seen[place] {
			c.differs(row, "index", "there twice", "one decision")
		}
		seen[place] = true
		has := map[bool]string{false: "null", true: "a writer"}
		c.differs(row, "settler", has[settled], has[c.fold.settled[place]])
		return nil
	})
	for place, ok := range seen {
		if !ok {
			c.differs(fmt.Sprintf("open %d", c.fold.decided[place]), "index", "missing", "a decision")
		}
	}
	return err
}
