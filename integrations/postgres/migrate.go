package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// migrations are the files of which each makes the schema one version newer.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL of the migrations, in the order of their versions, for those who want
// to read it, or to have another program run it. Each is run in a transaction of its own with
// search_path set to the schema.
func Migrations() []string {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic("postgres: no migrations") // they are compiled in
	}
	slices.Sort(names)
	list := make([]string, len(names))
	for i, name := range names {
		b, err := migrations.ReadFile(name)
		if err != nil {
			panic(err)
		}
		list[i] = string(b)
	}
	return list
}

// Migrate makes the schema, and brings it to the version that this program knows, in one
// transaction. What is of that version is left as it is, and what is newer is an error. An empty
// name is "helm".
//
// The connection's user has to be the owner of the schema, or one who may make it. The user also
// makes the roles of the schema if they are not there, and needs CREATEROLE for that.
func Migrate(ctx context.Context, conn *pgx.Conn, schema string) error {
	schema, err := schemaName(schema)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTime)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return migrate(ctx, tx, schema)
	})
	return describe("migrate", err)
}

func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	name := pgx.Identifier{schema}.Sanitize()
	for _, sql := range []string{
		"SET LOCAL lock_timeout = '30s'",
		"SELECT pg_advisory_xact_lock(hashtext('helm migrates'), hashtext('" + schema + "'))", // a name has no quotes
		"CREATE SCHEMA IF NOT EXISTS " + name,
		"SET LOCAL search_path = " + name,
		"SET LOCAL synchronous_commit = on",
	} {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	version, err := versionOf(ctx, tx, schema)
	if err != nil {
		return err
	}
	all := Migrations()
	if version > len(all) {
		return newer(schema, version)
	}
	for _, sql := range all[version:] {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return nil
}

// A querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// versionOf returns the version of a schema, and 0 if there is nothing in it.
func versionOf(ctx context.Context, q querier, schema string) (version int, err error) {
	table := pgx.Identifier{schema, "version"}.Sanitize()
	var there bool
	if err := q.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = q.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+table).Scan(&version)
	return version, err
}

// current returns an error unless the schema is of the version that this program knows.
func current(ctx context.Context, q querier, schema string) error {
	version, err := versionOf(ctx, q, schema)
	known := len(Migrations())
	switch {
	case err != nil:
		return err
	case version == 0:
		return refused("schema " + strconv.Quote(schema) + " has no tables of HELM: run Migrate as its owner")
	case version < known:
		return refused(fmt.Sprintf("schema %q has version %d, and this program needs %d: run Migrate as its owner",
			schema, version, known))
	case version > known:
		return newer(schema, version)
	}
	return nil
}

func newer(schema string, version int) error {
	return refused(fmt.Sprintf("schema %q has version %d, which is newer than the %d of this program: "+
		"use the newer program", schema, version, len(Migrations())))
}

// maxSchema leaves space for the suffix of a role's name.
const maxSchema = 63 - len("_writer")

// schemaName returns the name of a schema, which is "helm" if none is given.
func schemaName(s string) (string, error) {
	if s == "" {
		return "helm", nil
	}
	for i, c := range []byte(s) {
		if (c < 'a' || c > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') || len(s) > maxSchema {
			return "", errors.New("postgres: schema: its name is not 1 to 56 lower-case letters, digits and _")
		}
	}
	return s, nil
}
