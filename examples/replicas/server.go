//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// errAbsent is wrapped by the error of start if no server can be started here.
var errAbsent = pgtest.ErrAbsent

// start starts a server, which ends with this process.
func (d *database) start(ctx context.Context) error {
	server, err := pgtest.Start()
	if err != nil {
		return err
	}
	name, err := server.Database(ctx)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	d.owner, d.replica, d.server = server.URL(name), server.As(login, name), server
	return nil
}
