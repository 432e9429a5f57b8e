package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A refused is an error that says all there is to say: connecting again does not help.
type refused string

func (r refused) Error() string { return string(r) }

// describe returns an error that names the operation. It has no entry, argument, key or secret of
// the connection in it: of what the server says it has the message, without detail and hint, and of
// an error of data, which may quote some, not even that.
func describe(op string, err error) error {
	var server *pgconn.PgError
	var refusal refused
	var connect *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if errors.Is(err, context.Canceled) {
			return context.Canceled
		}
		return fmt.Errorf("postgres: %s: no answer in time: %w", op, context.DeadlineExceeded)
	case errors.As(err, &refusal):
		return fmt.Errorf("postgres: %s: %w", op, refusal)
	case errors.As(err, &server) && strings.HasPrefix(server.Code, "22"):
		return fmt.Errorf("postgres: %s: the server refuses a value (SQLSTATE %s)", op, server.Code)
	case errors.As(err, &server):
		return fmt.Errorf("postgres: %s: the server: %s (SQLSTATE %s)", op, server.Message, server.Code)
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("postgres: %s: a row is missing", op)
	case errors.As(err, &connect):
		return fmt.Errorf("postgres: %s: no connection: %v", op, connect.Unwrap())
	}
	return fmt.Errorf("postgres: %s: %v", op, err)
}

// SQLSTATEs of statements that were not made, and may be made if they are tried again.
var passing = map[string]bool{
	"40001": true, // serialization_failure
	"40P01": true, // deadlock_detected
	"55P03": true, // lock_not_available: lock_timeout
	"57014": true, // query_canceled
}

// passes reports whether a statement was not made, on a connection that is there, for a reason that
// passes.
func passes(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && passing[server.Code] || unsent(err)
}

// unsent reports whether nothing was sent to the server, since a context had ended.
func unsent(err error) bool {
	return pgconn.SafeToRetry(err) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// lost reports whether the error is one of the connection: it is unknown what the server did.
func lost(conn *pgx.Conn, err error) bool {
	var server *pgconn.PgError
	return conn == nil || conn.IsClosed() || !errors.As(err, &server) && !unsent(err)
}
