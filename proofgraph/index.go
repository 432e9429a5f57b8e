package proofgraph

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"math/bits"

	"github.com/helmkernel/helm/contracts"
)

// An Index finds entries by hash. It holds 44 bytes an entry, less than one byte for one that was
// forgotten, and at most 2^32 - 1 entries. The zero Index is empty. It is not safe for concurrent
// use.
//
// It is a hash table by linear hashing: with each entry one bucket is split, and with each that is
// forgotten two are joined, so that there is no moment at which all of them move.
type Index struct {
	first   uint64         // the number of the first entry, from which places are counted; none is below it
	records pages[indexed] // by place; a page is nil once one of its entries was forgotten
	thinned []*thinPage    // those pages, by the same places
	buckets pages[uint32]  // one for each entry that is found, and ahead: place of the first in it, counted from 1
	ahead   int            // buckets of entries that are not there yet
	thin    int            // a page with records that are forgotten and still held; counted from 1
	last    bool           // likewise the page that is not full yet
	keys    [4]uint64      // of spread
}

type indexed struct {
	hash    contracts.Digest
	lamport uint32 // at most the entry's number
	next    uint32 // in the bucket, counted from 1; or forgotten
}

const forgotten = math.MaxUint32 // more than the place of any entry

var errIndex = errors.New("proofgraph: index: full, or a Lamport time beyond the entry's number")

// Add adds the entry with the number Len. Of several entries with one hash, Lookup finds the last.
func (x *Index) Add(hash contracts.Digest, lamport uint64) error {
	n := x.records.n
	if number := x.Len(); number >= math.MaxUint32 || lamport > number {
		return errIndex
	}
	if x.last && n&(page-1) == 0 { // it is full now
		x.compact(n>>pageBits - 1)
		x.last = false
	}
	if n == 0 {
		x.keys = newKeys()
	}
	if x.ahead > 0 {
		x.ahead--
	} else {
		x.split()
	}
	first := x.buckets.at(x.bucket(&hash))
	x.records.add(indexed{hash, uint32(lamport), *first})
	*first = uint32(n + 1)
	return nil
}

// expect makes the buckets of the first n entries, so that adding these splits none. A large n is
// taken for less: it is what a store says of itself.
func (x *Index) expect(n uint64) {
	if x.records.n > 0 || x.buckets.n > 0 {
		return
	}
	x.ahead = int(min(n, 1<<22))
	for range x.ahead {
		x.buckets.add(0)
	}
}

// Lookup returns number and Lamport time of the entry with that hash.
func (x *Index) Lookup(hash contracts.Digest) (number, lamport uint64, ok bool) {
	if x.buckets.n == 0 {
		return 0, 0, false
	}
	for i := *x.buckets.at(x.bucket(&hash)); i != 0; {
		e := x.at(int(i - 1))
		if e.hash == hash {
			return x.first + uint64(i-1), uint64(e.lamport), true
		}
		i = e.next
	}
	return 0, 0, false
}

// Earlier returns the number of the last entry with the same hash that was added before this one.
// There is none if this one was forgotten.
func (x *Index) Earlier(number uint64) (earlier uint64, ok bool) {
	if !x.found(number) {
		return 0, false
	}
	e := x.at(int(number - x.first))
	for i := e.next; i != 0; {
		other := x.at(int(i - 1))
		if other.hash == e.hash {
			return x.first + uint64(i-1), true
		}
		i = other.next
	}
	return 0, false
}

// Hash returns the hash of the entry with that number, which must be below Len. If the entry was
// forgotten it returns the zero Digest.
func (x *Index) Hash(number uint64) contracts.Digest {
	if !x.found(number) {
		return contracts.Digest{}
	}
	return x.at(int(number - x.first)).hash
}

// found reports whether the entry with that number, which must be below Len, was not forgotten.
func (x *Index) found(number uint64) bool {
	e := x.at(int(number - x.first))
	return e != nil && e.next != forgotten
}

// Len returns the number of entries, the forgotten ones too.
func (x *Index) Len() uint64 { return x.first + uint64(x.records.n) }

// Forget has Lookup find the entry with that number no more. The number must be below Len. The
// numbers of other entries stay. If entries are forgotten in ascending order this takes, for all of
// them together, time in proportion to their number and to the range that they are in. Forgetting
// an entry again does nothing.
func (x *Index) Forget(number uint64) {
	if !x.found(number) {
		return
	}
	place := number - x.first
	e := x.at(int(place))
	link := x.buckets.at(x.bucket(&e.hash))
	for *link != uint32(place+1) {
		link = &x.at(int(*link - 1)).next
	}
	*link, e.next = e.next, forgotten
	x.join()
	n := int(place >> pageBits)
	if n == x.records.n>>pageBits {
		x.last = true
		return
	}
	if x.thin != n+1 {
		x.compact(x.thin - 1)
		x.thin = n + 1
	}
}

// at returns the record in a place. It is nil if the entry was forgotten and is not held any more.
func (x *Index) at(place int) *indexed {
	if p := x.records.list[uint(place)/page]; p != nil {
		return &p[uint(place)%page]
	}
	return x.left(place)
}

// left is at for thinned pages, apart because at is called for each step of a look-up.
//
//go:noinline
func (x *Index) left(place int) *indexed {
	return x.thinned[uint(place)/page].at(uint(place) % page)
}

// A thinPage is what is left of a page: the records that were not forgotten.
type thinPage struct {
	kept    [page / 64]uint64 // a bit for each record of the page
	records []indexed         // those with a bit
}

// noRecords is the page of which nothing is left.
var noRecords = new(thinPage)

func (p *thinPage) at(i uint) *indexed {
	word, bit := p.kept[i/64], uint64(1)<<(i%64)
	if word&bit == 0 {
		return nil
	}
	n := bits.OnesCount64(word & (bit - 1))
	for _, w := range p.kept[:i/64] {
		n += bits.OnesCount64(w)
	}
	return &p.records[n]
}

// compact frees the memory of the entries of a page that were forgotten.
func (x *Index) compact(n int) {
	if n < 0 {
		return
	}
	left, first := 0, n<<pageBits
	for i := range page {
		if x.found(x.first + uint64(first+i)) {
			left++
		}
	}
	p := noRecords
	if left > 0 {
		p = &thinPage{records: make([]indexed, 0, left)}
		for i := range page {
			if x.found(x.first + uint64(first+i)) {
				p.kept[i/64] |= 1 << (i % 64)
				p.records = append(p.records, *x.at(first + i))
			}
		}
	}
	for len(x.thinned) <= n {
		x.thinned = append(x.thinned, nil)
	}
	x.thinned[n], x.records.list[n] = p, nil
}

// spread returns the number of which the bucket is the low bits. It is keyed: a verifier's log may
// have stubs, whose hashes anyone can choose, and they must not all be in one bucket.
func (x *Index) spread(hash *contracts.Digest) int {
	a, b := bits.Mul64(
		binary.LittleEndian.Uint64(hash[:])^x.keys[0], binary.LittleEndian.Uint64(hash[8:])^x.keys[1])
	c, d := bits.Mul64(
		binary.LittleEndian.Uint64(hash[16:])^x.keys[2], binary.LittleEndian.Uint64(hash[24:])^x.keys[3])
	return int(uint32(a ^ b ^ c ^ d))
}

func newKeys() (keys [4]uint64) {
	seed := maphash.MakeSeed()
	for i := range keys {
		keys[i] = maphash.Comparable(seed, i)
	}
	return keys
}

// bucket returns the bucket of a hash: the hash's low bits as a number, without the highest of them
// if there is no such bucket yet.
func (x *Index) bucket(hash *contracts.Digest) int {
	mask := 1<<bits.Len(uint(x.buckets.n-1)) - 1
	b := x.spread(hash) & mask
	if b < x.buckets.n {
		return b
	}
	return b & (mask >> 1)
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
		e := x.at(int(*from - 1))
		if x.spread(&e.hash)&mask == n {
			*to, *from, e.next = *from, e.next, 0
			to = &e.next
		} else {
			from = &e.next
		}
	}
}

// join removes the last bucket, and moves its entries to the one that they came from.
func (x *Index) join() {
	n := x.buckets.n - 1
	if entries := *x.buckets.at(n); entries != 0 {
		mask := 1<<bits.Len(uint(n)) - 1
		end := x.buckets.at(n & (mask >> 1))
		for *end != 0 {
			end = &x.at(int(*end - 1)).next
		}
		*end = entries
	}
	x.buckets.drop()
}
