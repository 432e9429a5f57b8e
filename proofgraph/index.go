package proofgraph

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/helmkernel/helm/contracts"
)

// An Index finds entries by hash. It holds 44 bytes an entry and at most 2^32 - 1 entries. The zero
// Index is empty. It is not safe for concurrent use.
//
// It is a hash table by linear hashing: with each entry one bucket is split, so that there is no
// moment at which all of them move.
type Index struct {
	entries pages[indexed]
	buckets pages[uint32] // number of the first entry, counted from 1
}

type indexed struct {
	hash    contracts.Digest
	lamport uint32 // at most the entry's number
	next    uint32 // in the bucket, counted from 1
}

var errIndex = errors.New("proofgraph: index: full, or a Lamport time beyond the entry's number")

// Add adds the entry with the number Len. Of several entries with one hash, Lookup finds the last.
func (x *Index) Add(hash contracts.Digest, lamport uint64) error {
	n := x.entries.n
	if uint64(n) >= math.MaxUint32 || lamport > uint64(n) {
		return errIndex
	}
	x.split()
	first := x.buckets.at(x.bucket(&hash))
	x.entries.add(indexed{hash, uint32(lamport), *first})
	*first = uint32(n + 1)
	return nil
}

// Lookup returns number and Lamport time of the entry with that hash.
func (x *Index) Lookup(hash contracts.Digest) (number, lamport uint64, ok bool) {
	if x.entries.n == 0 {
		return 0, 0, false
	}
	for i := *x.buckets.at(x.bucket(&hash)); i != 0; {
		e := x.entries.at(int(i - 1))
		if e.hash == hash {
			return uint64(i - 1), uint64(e.lamport), true
		}
		i = e.next
	}
	return 0, 0, false
}

// Earlier returns the number of the last entry with the same hash that was added before this one.
func (x *Index) Earlier(number uint64) (earlier uint64, ok bool) {
	e := x.entries.at(int(number))
	for i := e.next; i != 0; {
		other := x.entries.at(int(i - 1))
		if other.hash == e.hash {
			return uint64(i - 1), true
		}
		i = other.next
	}
	return 0, false
}

// Hash returns the hash of the entry with that number, which must be below Len.
func (x *Index) Hash(number uint64) contracts.Digest { return x.entries.at(int(number)).hash }

// Len returns the number of entries.
func (x *Index) Len() uint64 { return uint64(x.entries.n) }

func spread(hash *contracts.Digest) int { return int(binary.LittleEndian.Uint32(hash[:])) }

// bucket returns the bucket of a hash: the hash's low bits as a number, without the highest of them
// if there is no such bucket yet.
func (x *Index) bucket(hash *contracts.Digest) int {
	mask := 1<<bits.Len(uint(x.buckets.n-1)) - 1
	if b := spread(hash) & mask; b < x.buckets.n {
		return b
	}
	return spread(hash) & (mask >> 1)
}

// split adds a bucket and moves into it the entries that belong there.
func (x *Index) split() {
	n := x.buckets.n
	x.buckets.add(0)
	if n == 0 {
		return
	}
	mask := 1<<bits.Len(uint(n)) - 1
	from, to := x.buckets.at(n&(mask>>1)), x.buckets.at(n)
	for *from != 0 {
		e := x.entries.at(int(*from - 1))
		if spread(&e.hash)&mask == n {
			*to, *from, e.next = *from, e.next, 0
			to = &e.next
		} else {
			from = &e.next
		}
	}
}
