package evidence

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
)

// holdings are what the caller has of the log from elsewhere: the hashes of condense entries that
// were verified with their sets whole (Options.Seen), and entries of which the log may have stubs
// (Options.Kept).
type holdings struct {
	fold    *fold
	seen    map[contracts.Digest]struct{}
	kept    map[contracts.Digest]contracts.Entry
	unknown []contracts.Digest // of kept, those that no kernel key of the log signed
}

// take does the check INPUT of what Options have of them.
func (x *holdings) take(o *Options, by *opener) *Error {
	x.seen, x.kept = map[contracts.Digest]struct{}{}, map[contracts.Digest]contracts.Entry{}
	for _, d := range o.Seen {
		x.seen[d] = struct{}{}
	}
	for i, e := range o.Kept {
		s, f := by.sealed(e, 0)
		if f == nil {
			_, f = by.record(s, 0)
		}
		if f != nil {
			return newError(ErrInput, fmt.Sprintf("Kept.%d", i), "no entry: "+f.Check.Error()+": "+f.What)
		}
		x.kept[e.Hash()] = e
	}
	return nil
}

// saw reports whether a condense entry was verified with its set whole.
func (x *holdings) saw(hash contracts.Digest) bool {
	_, ok := x.seen[hash]
	return ok
}

// compare is the check GAP of a stub whose entry the caller has kept. If a kernel key signed that
// entry, it must be one that may go, and have this stub.
func (x *holdings) compare(s *contracts.Stub, line []byte, by *opener) *Error {
	e, ok := x.kept[s.Entry]
	if !ok {
		return nil
	}
	index := x.fold.size()
	sealed, f := by.sealed(e, index)
	if f == nil {
		f = by.signed(sealed, x.fold.state, index)
	}
	if f != nil {
		x.unknown = append(x.unknown, s.Entry)
		return nil
	}
	st, f := by.record(sealed, index)
	if f != nil {
		return f // cannot be: INPUT has checked it
	}
	bad := func(what string) *Error { return x.fold.fault(ErrGap, "stub", "of an entry in Options.Kept "+what) }
	var names uint64
	switch d, r := st.Decision, st.Receipt; {
	case d != nil && (len(d.Approvals) > 0 || len(d.Signals) > 0), r != nil && len(r.Signals) > 0:
		return bad("that has approvals or signals, and may not go")
	case d != nil:
		names, ok = x.fold.policies[d.PolicyHash]
	case r != nil && (r.Outcome == contracts.Executed || r.Reason == contracts.ReasonToolError):
		names, _, ok = x.fold.index.Lookup(r.DecisionHash)
	default:
		return bad("that is no ALLOW or its receipt, or of an outcome that may not go")
	}
	if !ok || !bytes.Equal(contracts.NewStub(st, s.Entry, names).Append(nil), line) {
		return bad("whose stub is another")
	}
	return nil
}

// strange returns what the log does not have, sorted. It is nil if there is nothing.
func (x *holdings) strange() []contracts.Digest {
	list := x.unknown
	for d := range x.seen {
		if !x.fold.has(d) {
			list = append(list, d)
		}
	}
	for d := range x.kept {
		if !x.fold.has(d) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, entry.Compare)
	return slices.Compact(list)
}
