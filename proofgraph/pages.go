package proofgraph

import "slices"

// pages is a list that grows by pages of fixed size. Elements never move, and no append copies
// those before it. A copy of the value is a snapshot of its length. Elements that do not change may
// be read while others are added.
type pages[T any] struct {
	list []*[page]T
	n    int
}

const page = 1 << pageBits
const pageBits = 9

func (p *pages[T]) at(i int) *T { return &p.list[i>>pageBits][i&(page-1)] }

func (p *pages[T]) add(x T) {
	if p.n == len(p.list)*page {
		p.list = append(p.list, new([page]T))
	}
	p.n++
	*p.at(p.n - 1) = x
}

// replace puts other elements in the place of those from the first of a page on. Values that were
// copied before keep theirs.
func (p *pages[T]) replace(number int, elements []T) {
	p.list = slices.Clone(p.list)
	other := *p.list[number]
	copy(other[:], elements)
	p.list[number] = &other
}

// drop removes the last element. Copies made before must not be used any more.
func (p *pages[T]) drop() {
	var none T
	*p.at(p.n - 1) = none
	p.n--
	if last := len(p.list) - 1; p.n <= (last-1)*page { // one page is kept for the next add
		p.list[last] = nil
		p.list = p.list[:last]
	}
}
