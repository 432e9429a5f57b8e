package graph

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/helmkernel/helm/contracts"
)

// each reads entries from ≤ i < to, and gives f those of a set, all where it is nil. Whatever the source does, but wait for ever, it ends.
func each(ctx context.Context, s Source, from, to uint64, in *Set, f func(uint64, contracts.Digest, *contracts.Statement) error) (err error) {
	i := from
	defer func() {
		if err != nil {
			err = fmt.Errorf("entry %d: %w", i, err)
		}
	}()
	var reader contracts.Reader
	for e, err := range s.Entries(ctx, from, to) {
		if err == nil {
			err = ctx.Err() // a source need not honour it
		}
		if err != nil {
			return err
		}
		if i == to {
			return errors.New("the source has more entries than it says")
		}
		if in == nil || in.Has(i) {
			st, err := open(&reader, e)
			if err != nil {
				return err
			}
			if err := f(i, e.Hash(), st); err != nil {
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

func open(r *contracts.Reader, e contracts.Entry) (*contracts.Statement, error) {
	sealed, bad := r.Open(e)
	if bad != nil {
		return nil, bad
	}
	st, bad := sealed.Statement()
	if bad != nil {
		return nil, bad
	}
	return st, nil
}

// contain names the package in an error, and makes one of a panic in a source or a writer, which are somebody else's code. Its value may hold
// what must not be shown; the runtime's own does not.
func contain(err *error) {
	switch x := recover().(type) {
	case nil:
	case runtime.Error:
		*err = fmt.Errorf("the source or the writer panicked: %w", x)
	default:
		*err = fmt.Errorf("the source or the writer panicked with a %T", x)
	}
	if *err != nil {
		*err = fmt.Errorf("graph: %w", *err)
	}
}
