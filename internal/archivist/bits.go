package archivist

import (
	"iter"
	"math/bits"
)

// bitsPage is how many bits are allocated at once.
const bitsPage = 1 << 12

// A bitset is a set of numbers. It holds a bit for each in the pages that have one. The zero bitset
// is empty, and takes numbers from first on.
type bitset struct {
	first uint64 // a multiple of bitsPage
	pages []*[bitsPage / 64]uint64
}

// bitsFrom returns an empty set for numbers from from on.
func bitsFrom(from uint64) bitset { return bitset{first: from - from%bitsPage} }

func (b *bitset) add(i uint64) {
	i -= b.first
	n := int(i / bitsPage)
	for len(b.pages) <= n {
		b.pages = append(b.pages, nil)
	}
	if b.pages[n] == nil {
		b.pages[n] = new([bitsPage / 64]uint64)
	}
	b.pages[n][i%bitsPage/64] |= 1 << (i % 64)
}

func (b *bitset) has(i uint64) bool {
	i -= b.first // a smaller one is a large number then, which is in no page
	n := i / bitsPage
	return n < uint64(len(b.pages)) && b.pages[n] != nil && b.pages[n][i%bitsPage/64]&(1<<(i%64)) != 0
}

// all returns the numbers, ascending.
func (b *bitset) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n, p := range b.pages {
			if p == nil {
				continue
			}
			for w, word := range p {
				for ; word != 0; word &= word - 1 {
					if !yield(b.first + uint64(n*bitsPage+w*64+bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}
