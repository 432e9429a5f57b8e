package condense

import (
	"iter"

	"github.com/helmkernel/helm/contracts"
)

// A Set is the set of a range.
type Set struct {
	Dropped uint64           // number of members
	Stubs   contracts.Digest // RFC 6962 root over their stubs by index

	// Left is the first entry of the range that is no member and may be one of a later range; if
	// there is none, the end of the range. What main let nobody repeat, by an idempotency key, does
	// not count: main is not closed.
	Left uint64

	from    uint64
	beyond  uint64
	members []uint32 // by index, counted from from
}

// Members returns the indexes of the members, ascending.
func (s *Set) Members() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, m := range s.members {
			if !yield(s.from + uint64(m)) {
				return
			}
		}
	}
}

// Least returns the least range that has the same set, which must have members. Both ends are those
// of members, or the end is after the entry of main for which the last of its calls may go.
func (s *Set) Least() (from, to uint64) {
	first, last := s.from+uint64(s.members[0]), s.from+uint64(s.members[len(s.members)-1])
	return first, max(last+1, s.beyond)
}
