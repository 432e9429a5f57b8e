package past

import (
	"iter"
	"math/bits"
	"slices"
)

// Forget forgets the marks of entries, in ascending order, and frees their memory. Nobody may ask
// for them any more as parents, and all entries below end must have their marks.
func (m *Marks) Forget(entries iter.Seq[uint64], end uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pages := m.pages.Load()
	if pages == nil {
		return
	}
	var gone [pageSize / 64]uint64
	at, any := uint64(0), false
	flush := func() {
		if any && at < uint64(len(*pages)) {
			if p := (*pages)[at].Load(); p != nil && (at+1)*pageSize <= end {
				(*pages)[at].Store(p.without(&gone))
			}
		}
		clear(gone[:])
	}
	for index := range entries {
		if n := index / pageSize; n != at {
			flush()
			at = n
		}
		any = true
		gone[index%pageSize/64] |= 1 << (index % 64)
	}
	flush()
}

// without returns the page without some of its entries. It is nil if nothing is left.
func (p *page) without(gone *[pageSize / 64]uint64) *page {
	left := new(remnant)
	for i := range uint64(pageSize) {
		if gone[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		x := Mark(0)
		if p.all != nil {
			x = Mark(p.all[i].Load())
		} else {
			x = p.left.of(i)
		}
		if x != 0 {
			left.kept[i/64] |= 1 << (i % 64)
			left.marks = append(left.marks, x)
		}
	}
	if left.marks == nil {
		return nil
	}
	left.marks = slices.Clone(left.marks) // no larger than needed
	return &page{left: left}
}

// A remnant is what is left of a page of which entries were forgotten. It does not change.
type remnant struct {
	kept  [pageSize / 64]uint64 // a bit for each entry with a mark
	marks []Mark                // those marks
}

// of returns the mark of an entry by its place in the page.
func (r *remnant) of(i uint64) Mark {
	word, bit := r.kept[i/64], uint64(1)<<(i%64)
	if word&bit == 0 {
		return 0
	}
	n := bits.OnesCount64(word & (bit - 1))
	for _, w := range r.kept[:i/64] {
		n += bits.OnesCount64(w)
	}
	return r.marks[n]
}
