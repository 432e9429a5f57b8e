// Package pgtest starts a PostgreSQL server for tests and examples, in a directory of its own.
//
// The server listens on a socket in that directory and on no port, and keeps what it is told as a
// server in production does: fsync is on. It ends with the process that started it. It needs a
// Unix.
package pgtest
