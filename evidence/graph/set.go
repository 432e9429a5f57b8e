package graph

import (
	"iter"
	"math/bits"
)

// A Set holds entries of a graph, by index. The zero Set is empty. A Set does not change.
type Set struct {
	words []uint64
	n     int
}

func (s *Set) add(i uint64) {
	for uint64(len(s.words)) <= i/64 {
		s.words = append(s.words, 0)
	}
	if w := &s.words[i/64]; *w>>(i%64)&1 == 0 {
		*w |= 1 << (i % 64)
		s.n++
	}
}

// Len returns the number of entries in the set.
func (s Set) Len() int { return s.n }

// Has reports whether entry i is in the set.
func (s Set) Has(i uint64) bool { return i/64 < uint64(len(s.words)) && s.words[i/64]>>(i%64)&1 == 1 }

// All returns the entries in log order.
func (s Set) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for k, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(uint64(k)*64 + uint64(bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}
