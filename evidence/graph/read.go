package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
)

// each reads the entries with from ≤ i < to and calls f with those in the set, or with all if in is
// nil. It ends whatever the source does, unless the source waits for ever.
func each(ctx context.Context, s Source, from, to uint64, in *Set, f func(uint64, *entry.Line) error) (err error) {
	i := from
	defer func() {
		if err != nil {
			err = fmt.Errorf("entry %d: %w", i, err)
		}
	}()
	var reader contracts.Reader
	for e, err := range s.Entries(ctx, from, to) {
		if err == nil {
			err = ctx.Err() // a source need not check it
		}
		if err != nil {
			return err
		}
		if i == to {
			return errors.New("the source has more entries than it says")
		}
		if in == nil || in.Has(i) {
			l, err := entry.Read(&reader, e)
			if err != nil {
				return err
			}
			if err := f(i, l); err != nil {
				return err
			}
		}
		i++
	}
	if i < to {
		return errors.New("the source has fewer entries than it says")
	}
	return nil
}

// name names the package in an error. It is deferred before contain.Error, so that it sees a panic
// in the source or the writer too.
func name(err *error) {
	if *err != nil {
		*err = fmt.Errorf("graph: %w", *err)
	}
}

// foreign is the code of the caller that may panic.
const foreign = "the source or the writer"
