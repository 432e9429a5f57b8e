// Package postgres keeps logs in a PostgreSQL database, so that many processes share one log: one
// ledger of budgets, one set of used approvals, one pack.
//
//	err := postgres.Migrate(ctx, conn, "helm") // once, by the owner of the schema
//	…
//	store, err := postgres.Open(ctx, database, postgres.Options{Origin: "example.com/log"})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//
// A [Store] is a [proofgraph.Shared]: give it to a kernel in each process as Options.Store, with
// the same origin. It is a [proofgraph.Eraser] and reads stored hashes as well. It is no
// [proofgraph.Condenser] and no [proofgraph.Rememberer].
//
// # The server
//
// PostgreSQL 14 or newer, and a database with the encoding UTF8. Join returns an error if the
// server has fsync or full_page_writes off, or is a standby. Whatever the defaults of server,
// database and role are, each connection has synchronous_commit on and the isolation read
// committed, and a limit for each wait: 10 s for a lock, 30 s for a statement, 5 s in a transaction
// that does nothing, three keepalives of 10 s for a connection on which nothing comes.
//
// A writer has one connection. The readers of a store share pool_max_conns of the connection
// string; without it four, or one for each processor if these are more. max_connections has to have
// room for all processes. Put the database on a disk that is fast to sync: an append is one write
// of the write-ahead log that is waited for while the log is held, and there is one at a time for a
// log. Logs in one database do not wait for each other. Set min_wal_size to 1GB or more: the server
// then goes on in files of the write-ahead log that are there, and makes fewer in an append.
//
// A pooler must be in session mode. In another mode locks belong to no process, so that writers
// that live are fenced, or dead ones are never found.
//
// With a standby that must not lack what was acknowledged, set synchronous_standby_names. Commits
// then wait for the standby. If such a wait is cancelled nothing is acknowledged, and the writer
// goes on only after a later commit that was not cancelled. Without it, a standby that takes over
// may lack the last entries. A writer that had these acknowledged then has an error and its kernel
// seals; the log of the standby is whole, and shorter. The old primary must be gone before another
// server is one. Name both in the connection string, with target_session_attrs=read-write.
//
// Back up with the database's own means. A log that was put back from a backup is shorter than the
// checkpoints that others have: use Options.Last of the kernel, and witnesses, so that nobody
// mistakes it for the log.
//
// # Guesses and turns
//
// A row of the table log is the order: a transaction that holds it appends. [proofgraph.Writer]
// says what a guess and a turn are. A guess is one call of the function put, in one round trip; it
// locks the row, compares what was guessed with the tables, and inserts. A turn is two round trips:
// one begins a transaction, locks the row and reads, the other calls the function write and
// commits. Entries of other processes wait meanwhile.
//
// # Tables
//
// [Migrations] returns the SQL, with a comment for each table. The tables log, writer, entry, blob
// and hashes are the log. The tables session, balance, nonce and open are derived from its entries:
// an append is compared with them, and changes them in the same transaction. [Store.Check] folds
// the log and compares them. Rows of open stay when a decision has its receipt. The table version
// has a row for each migration that was run. A program refuses a schema that is newer than it
// knows. A schema of an older version has to be migrated first, while no older program needs it.
//
// # Roles
//
// Migrate makes three roles that cannot log in, with these rights:
//
//	helm_writer  INSERT and SELECT on entry and blob; INSERT, SELECT and UPDATE on log, writer,
//	             hashes, session, balance, nonce and open; the functions
//	helm_reader  SELECT on all tables
//	helm_eraser  DELETE on blob, and SELECT on what is needed to find the row
//
// All three may read version and log. Nobody but the owner may update, delete or truncate entries,
// and no role may truncate anything; functions run with the rights of their caller. Grant the
// roles to those that log in: a kernel's to helm_writer, an auditor's to helm_reader, and that of
// who erases to helm_reader and helm_eraser, and to helm_writer if kernels run meanwhile: a blob
// that an entry came to name is put back. The owner migrates and does not run kernels.
//
// Roles are of the whole cluster, so their names follow the schema: a schema acme has acme_writer
// and so on. Schemas of one name in two databases share them; who may connect to which database is
// then the right CONNECT.
//
// # Dead writers and lost connections
//
// A writer holds an advisory lock on its connection, with the oid of the table writer and its
// number as keys. The server lets go of it when the connection ends, however the process ended. A
// writer is dead if another one gets its lock in Dead, which then sets fenced in its row. An append
// changes the row of its writer if that is not fenced and has the writer's incarnation, so that
// nothing of a fenced writer is written, even if its statement comes late.
//
// A writer that loses its connection connects again for a minute. It takes its lock again, ends its
// old connection at the server if that still holds the lock, and raises its incarnation, which
// waits for what the old connection still writes and voids what comes later. The number of appends
// in its row then says whether the last one was written. If it was, it counts; if not, it returns
// [proofgraph.ErrMoved]. If the row says less than was acknowledged, the database is another one,
// and the writer has an error. A process that stops in its turn loses the log after 5 s, and is
// fenced if another process looks for dead ones before it goes on. If it has sent a part of a
// statement the server waits for the rest, and a process that has waited 10 s for a turn ends the
// connection. For that all processes of a log have to log in as the same role.
//
// # Erasing
//
// [Store.EraseBlob] deletes the row of a blob. The bytes leave the table's files with the next
// VACUUM of the table, and stay in the write-ahead log, in replicas that lag and in backups as long
// as these are kept. To have them gone at once run VACUUM blob, and keep write-ahead log and
// backups no longer than blobs may be kept.
//
// # Limits
//
// Numbers are up to 2^63-1. Names are text without zero bytes. A blob has at most 1 GB, and a batch
// as well. Errors have no entry, argument, key or password in them: of what the server says they
// have the message and the SQLSTATE.
package postgres
