//go:build !unix

package main

import (
	"context"
	"errors"
)

var errAbsent = errors.New("no PostgreSQL server: one is started on a Unix only")

func (d *database) start(context.Context) error { return errAbsent }
