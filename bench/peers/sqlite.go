package peers

import (
	"database/sql"
	"errors"
	"net/url"

	_ "modernc.org/sqlite" // the driver
)

// A sqliteStore is an SQLite database with a write-ahead log and synchronous FULL: each commit is
// synced. As usual with many writing goroutines, there is one connection, which they wait for in
// the pool instead of in SQLite's busy handler.
type sqliteStore struct {
	path   string
	db     *sql.DB
	insert *sql.Stmt
}

// SQLite makes a database in a file.
func SQLite(path string) (Store, error) {
	db, err := sql.Open("sqlite", sqliteName(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE receipts (number INTEGER PRIMARY KEY, entry BLOB NOT NULL, inputs BLOB)")
	if err != nil {
		return nil, err
	}
	insert, err := db.Prepare("INSERT INTO receipts (number, entry, inputs) VALUES (?, ?, ?)")
	return &sqliteStore{path, db, insert}, err
}

func sqliteName(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

// Put is one transaction: an INSERT by itself, or one around many.
func (s *sqliteStore) Put(items ...Item) error {
	if len(items) == 1 {
		return insertInto(s.insert, items[0])
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // no-op once committed
	insert := tx.Stmt(s.insert)
	for _, it := range items {
		if err := insertInto(insert, it); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func insertInto(insert *sql.Stmt, it Item) error {
	done, err := insert.Exec(int64(it.Key), it.Entry, it.Inputs)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("sqlite inserted no row"), err)
	}
	return nil
}

func (s *sqliteStore) Reopen(each func(Item) error) error {
	var journal string
	var synchronous int
	if err := errors.Join(s.db.QueryRow("PRAGMA journal_mode").Scan(&journal),
		s.db.QueryRow("PRAGMA synchronous").Scan(&synchronous)); err != nil {
		return err
	}
	if journal != "wal" || synchronous != 2 {
		return errors.New("sqlite was not set to WAL and FULL")
	}
	if err := errors.Join(s.insert.Close(), s.db.Close()); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", sqliteName(s.path))
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query("SELECT number, entry, inputs FROM receipts")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var it Item
		if err := rows.Scan(&it.Key, &it.Entry, &it.Inputs); err != nil {
			return err
		}
		if err := each(it); err != nil {
			return err
		}
	}
	return rows.Err()
}
