package evidence

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
)

// ranges are those of the condense entries so far: the check GAP.
type ranges struct {
	fold   *fold
	reread *rereader
	held   *holdings
	list   []Range          // Report.Condensed
	times  []contracts.Time // of the condense entries
}

// add is the check GAP of a condense entry, of that hash: what it says of its set is what follows
// from the log before it. The entries and stubs of the range are read again. From then on no entry
// may name one of the set.
func (x *ranges) add(st *contracts.Statement, hash contracts.Digest) *Error {
	c, at := st.Condense, x.fold.size()
	bad := func(field, what string) *Error { return x.fold.fault(ErrGap, "predicate."+field, what) }
	switch {
	case c.Size > at:
		return bad("size", "more than the entries before it")
	case c.Root != x.fold.rootAt(c.To):
		return bad("root", "not that of the log at size to")
	}
	set, err := setOf(&x.fold.log, c, x.fold.policies, &x.fold.terms, x.reread.lines)
	var f *Error
	switch {
	case errors.As(err, &f):
		return f
	case err != nil: // the lines were verified, so they are others by now
		return x.reread.from.unreadable(nil, errChanged)
	case c.Dropped != set.Dropped:
		return bad("dropped", "not how many entries of the range may go")
	case c.Stubs != set.Stubs:
		return bad("stubs", "not the root over the stubs of the set")
	}
	x.list = append(x.list, Range{
		From:    c.From,
		To:      c.To,
		Index:   at,
		Dropped: c.Dropped,
		Stubs:   x.fold.letGo(set),
		Hash:    hash,
		Seen:    x.held.saw(hash),
	})
	x.times = append(x.times, st.Time)
	return nil
}

// finish is the check GAP of the stubs that are left: each is of a set.
func (x *ranges) finish() *Error {
	for _, s := range x.fold.stubs {
		if !x.fold.gone.has(uint64(s.index)) {
			return errorAt(uint64(s.index), ErrGap, "stub", "of the set of no condense entry")
		}
	}
	return nil
}
