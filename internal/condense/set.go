package condense

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Set is the set of a range. It is not safe for concurrent use.
type Set struct {
	Dropped uint64           // number of members
	Stubs   contracts.Digest // RFC 6962 root over their stubs by index
	members []member         // by index
	reader  contracts.Reader
}

// Members returns the indexes of the members, ascending.
func (s *Set) Members() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range s.members {
			if !yield(s.members[i].index) {
				return
			}
		}
	}
}

// Stub returns the line that is left of a member, without a line end. line is the line of the
// member in the log: the entry, or its stub. It is an error if the index is of no member, or if the
// line is not the one that was added to the range.
func (s *Set) Stub(index uint64, line contracts.Entry) ([]byte, error) {
	stub, err := s.stub(index, line)
	if err != nil {
		return nil, fmt.Errorf("condense: entry %d: %w", index, err)
	}
	return stub, nil
}

var errOther = errors.New("not the line that was added to the range")

func (s *Set) stub(index uint64, line contracts.Entry) ([]byte, error) {
	i, ok := slices.BinarySearchFunc(s.members, index, func(m member, index uint64) int {
		return cmp.Compare(m.index, index)
	})
	if !ok {
		return nil, errors.New("not a member of the set")
	}
	m := &s.members[i]
	stub := slices.Clone(line)
	if !contracts.IsStub(line) {
		sealed, err := s.reader.Open(line)
		if err != nil {
			return nil, err
		}
		st, err := sealed.Statement()
		if err != nil {
			return nil, err
		}
		if st.Decision == nil && (st.Receipt == nil || st.Receipt.Decision != nil) {
			return nil, errOther
		}
		stub = contracts.NewStub(st, line.Hash(), m.names).Append(nil)
	}
	if crypto.LeafHash(stub) != m.leaf {
		return nil, errOther
	}
	return stub, nil
}
