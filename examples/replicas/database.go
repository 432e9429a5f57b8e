package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/integrations/postgres"
)

// A database has the log, in a schema that its owner makes and drops.
type database struct {
	owner   string // connection strings
	replica string
	schema  string
	server  io.Closer // nil if it was not started here
}

// newDatabase makes the schema, in a database that is there, or on a server that it starts.
func newDatabase(ctx context.Context, url string) (_ *database, err error) {
	db := &database{owner: url, replica: url, schema: "helm_replicas_" + strings.ToLower(rand.Text())}
	if url == "" {
		if err := db.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

// migrate is for the owner of the schema, once, before the first replica.
func (d *database) migrate(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, d.owner)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := postgres.Migrate(ctx, conn, d.schema); err != nil {
		return err
	}
	if d.server == nil { // replicas log in as the user who was named, who has all rights
		return nil
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN; GRANT %s_writer TO %[1]s", login, d.schema))
	return err
}

// login is whom replicas log in as, with no more rights than a writer needs.
const login = "replica"

// close removes what newDatabase made.
func (d *database) close() error {
	if d.server != nil {
		return d.server.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.owner)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	const drop = "DROP SCHEMA IF EXISTS %s CASCADE; DROP ROLE IF EXISTS %[1]s_writer, %[1]s_reader, %[1]s_eraser"
	_, err = conn.Exec(ctx, fmt.Sprintf(drop, d.schema))
	return err
}
