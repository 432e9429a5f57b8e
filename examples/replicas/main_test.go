//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// The replicas are other processes of this program, which is the test binary in tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		os.Exit(start(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// owner returns the connection string of the owner of a database.
func owner(t *testing.T) string {
	t.Helper()
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrAbsent) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	name, err := server.Database(t.Context())
	require.NoError(t, err)
	return server.URL(name)
}

// TestReplicas: every step ends as it must, or the example would not end with status 0. On a server
// that was there nothing is left.
func TestReplicas(t *testing.T) {
	url := owner(t)
	var out, errs bytes.Buffer
	require.Zero(t, start(t.Context(), []string{"-database", url}, nil, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	t.Log(out.String())
	for _, want := range []string{
		`(?m)^  two +1 +\d+ +\d+ +\d+$`,
		`(?m)^  two +2 +\d+ +\d+ +\d+$`,
		`(?m)^  unknown +1 +\d+ +[1-9]\d* +\d+$`,
		`(?m)^  spent +10000 of 10000$`,
		`(?m)^  denied: 3 APPROVAL_INVALID, 1 APPROVAL_REQUIRED, 18 BUDGET_EXCEEDED, 1 MISSING_REQUIREMENT, ` +
			`1 POLICY_VIOLATION, 3 SYSTEM_FROZEN$`,
		`the same of each call; of the unknown ones it has [1-9]\d*`,
	} {
		assert.Regexp(t, regexp.MustCompile(want), out.String())
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for _, names := range []string{"nspname FROM pg_namespace", "rolname FROM pg_roles"} {
		rows, err := conn.Query(t.Context(), "SELECT "+names)
		require.NoError(t, err)
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.NotEmpty(t, left)
		assert.NotContains(t, fmt.Sprint(left), "helm_replicas")
	}
}

// A replica whose kernel has sealed ends, and the others go on without it.
func TestSealed(t *testing.T) {
	ctx := context.Background() // replicas are killed when it ends
	url := owner(t)
	db, err := newDatabase(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.close()) })
	s, err := begin(ctx, io.Discard, db)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.end()) })
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(ctx, "UPDATE "+db.schema+".writer SET fenced = true WHERE id = (SELECT min(id) FROM "+
		db.schema+".writer)") // that of the replica that was started first
	require.NoError(t, err)

	a, err := s.client.call(ctx, look(chat, "ada"), "")
	require.NoError(t, err)
	require.Equal(t, names[0], a.Replica)
	require.Equal(t, "DENY", a.Verdict)
	one := s.running[names[0]]
	delete(s.running, names[0])
	require.ErrorContains(t, one.wait(), "found this one dead")
	for range 3 * len(names) {
		a, err := s.client.call(ctx, look(chat, "ada"), "")
		require.NoError(t, err)
		require.NoError(t, a.must(contracts.ReasonAllow))
		require.NotEqual(t, names[0], a.Replica)
	}
}

func TestNotRun(t *testing.T) {
	t.Setenv("HELM_POSTGRES_BIN", t.TempDir())
	var out, errs bytes.Buffer
	assert.Zero(t, start(t.Context(), nil, nil, &out, &errs))
	assert.Regexp(t, "^not run: no PostgreSQL server: install one .*; or name a database with -database\n$",
		out.String())
	assert.Empty(t, errs.String())
}

func TestArguments(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, 2, start(t.Context(), []string{"-database"}, nil, &out, &errs))
	assert.Equal(t, 2, start(t.Context(), []string{"more"}, nil, &out, &errs))
	assert.Equal(t, 1, start(t.Context(), []string{"-database", "host=/nowhere"}, nil, &out, &errs))
	assert.Empty(t, out.String())
}
