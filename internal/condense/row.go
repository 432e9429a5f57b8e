package condense

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A row has a place for each entry that may go, in the order of the log. As soon as it is decided
// of an entry and of all before it, the row holds no more of it than that it is a member.
type row struct {
	from    uint64   // index that members count from
	members []uint32 // that are decided, as are all before them
	tree    proofgraph.Tree
	places  []place
	head    int    // the first that is not decided
	first   uint64 // number of the first that is held
}

// A place is an entry and the leaf hash of its stub.
type place struct {
	member uint32
	fate   fate
	leaf   contracts.Digest
}

// A fate is what was decided of an entry.
type fate uint8

const (
	undecided fate = iota
	goes
	stays
)

// add adds the entry at an index, and returns the number of its place.
func (r *row) add(index uint64, leaf contracts.Digest) uint64 {
	r.places = append(r.places, place{uint32(index - r.from), undecided, leaf})
	return r.first + uint64(len(r.places)) - 1
}

// decide decides of the entry of a place, once.
func (r *row) decide(number uint64, f fate) {
	r.places[number-r.first].fate = f
	for ; r.head < len(r.places) && r.places[r.head].fate != undecided; r.head++ {
		r.settle(&r.places[r.head])
	}
	if r.head >= len(r.places)-r.head { // so each place moves once at most, in the mean
		r.first += uint64(r.head)
		r.places = r.places[:copy(r.places, r.places[r.head:])]
		r.head = 0
	}
}

func (r *row) settle(p *place) {
	if p.fate == goes {
		r.members = append(r.members, p.member)
		r.tree.Append(p.leaf)
	}
}

// end decides that all others stay.
func (r *row) end() {
	for i := range r.places[r.head:] {
		r.settle(&r.places[r.head+i])
	}
	r.places, r.head = nil, 0
}
