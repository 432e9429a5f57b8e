package proofgraph

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
