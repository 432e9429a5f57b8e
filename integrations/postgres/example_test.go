package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/integrations/postgres"
)

// The log of several processes. Migrate is run once, as the owner of the schema; the processes
// connect as a role that helm_writer was granted to.
func Example() {
	ctx := context.Background()
	migrate := func() error {
		conn, err := pgx.Connect(ctx, os.Getenv("HELM_OWNER"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return postgres.Migrate(ctx, conn, "helm")
	}
	run := func() error {
		store, err := postgres.Open(ctx, os.Getenv("HELM_DATABASE"), postgres.Options{Origin: "example.com/log"})
		if err != nil {
			return err
		}
		defer store.Close()
		size, err := store.Size(ctx) // or helm.New, with the store as Options.Store
		fmt.Println(size, err)
		return err
	}
	if err := migrate(); err != nil {
		panic(err)
	}
	if err := run(); err != nil {
		panic(err)
	}
}
