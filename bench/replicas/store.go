//go:build unix

package main

import (
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// What a process of a row writes to: the store itself, with what it was asked to append counted.

// appends are how a process's log was written to. One goroutine appends at a time, before the calls
// return whose entries it appends.
type appends struct {
	Guesses int // that were right
	Turns   int
	Wrong   int // guesses that were not
	Entries int
}

func (a *appends) all() int { return a.Guesses + a.Turns }

func (a *appends) add(b appends) {
	a.Guesses, a.Turns = a.Guesses+b.Guesses, a.Turns+b.Turns
	a.Wrong, a.Entries = a.Wrong+b.Wrong, a.Entries+b.Entries
}

// files is a log that one process has to itself.
type files struct {
	*filestore.Store
	count *appends
}

func (f files) Append(ctx context.Context, b proofgraph.Batch) error {
	f.count.Guesses++
	f.count.Entries += len(b.Entries)
	return f.Store.Append(ctx, b)
}

// database is a log that several processes share.
type database struct {
	*postgres.Store
	count *appends
	alone bool
}

func (d database) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := d.Store.Join(ctx, origin)
	if err != nil {
		return nil, err
	}
	if d.alone {
		w = turning{w}
	}
	return counting{w, d.count}, nil
}

type counting struct {
	proofgraph.Writer
	count *appends
}

func (c counting) Put(ctx context.Context, guess proofgraph.State, x proofgraph.Change) (uint64, error) {
	at, err := c.Writer.Put(ctx, guess, x)
	if err == nil {
		c.count.Guesses++
	} else {
		c.count.Wrong++
	}
	if err == nil {
		c.count.Entries += len(x.Entries)
	}
	return at, err
}

func (c counting) End(ctx context.Context, x proofgraph.Change) error {
	err := c.Writer.End(ctx, x)
	c.count.Turns++
	if err == nil {
		c.count.Entries += len(x.Entries)
	}
	return err
}

// A turning writer refuses every guess about sessions of calls without asking the server. So the
// log takes turns, in which it reads, signs and writes; of 65 batches it signs one for naught.
type turning struct{ proofgraph.Writer }

func (t turning) Put(ctx context.Context, guess proofgraph.State, x proofgraph.Change) (uint64, error) {
	if _, kernel := guess.Sessions[contracts.SessionKernel]; len(x.Entries) == 0 || kernel {
		return t.Writer.Put(ctx, guess, x)
	}
	return 0, proofgraph.ErrMoved
}
