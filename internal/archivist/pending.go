package archivist

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// pendingPage is how many entries follow one another of which the stubs are kept together.
const pendingPage = 1 << 9

// pending are the stubs that were read and are of no set so far.
type pending struct {
	pages map[uint64][]pendingStub // by index
}

// A pendingStub is a stub, by its index in its page, and the leaf hash of its line.
type pendingStub struct {
	at   uint16
	leaf contracts.Digest
}

// add adds a stub. Its index is above those before.
func (p *pending) add(index uint64, line contracts.Entry) {
	if p.pages == nil {
		p.pages = make(map[uint64][]pendingStub)
	}
	n := index / pendingPage
	page := p.pages[n]
	if page == nil {
		page = make([]pendingStub, 0, pendingPage/4)
	}
	p.pages[n] = append(page, pendingStub{uint16(index % pendingPage), crypto.LeafHash(line)})
}

// are reports whether the stubs in the range of a condense entry are its set. If so they are
// pending no more, and are added to members.
func (p *pending) are(c *contracts.Condense, members *bitset) bool {
	var tree proofgraph.Tree
	each := func(f func(index uint64, s pendingStub)) {
		for n := c.From / pendingPage; n <= (c.To-1)/pendingPage; n++ {
			for _, s := range p.pages[n] {
				if index := n*pendingPage + uint64(s.at); c.From <= index && index < c.To {
					f(index, s)
				}
			}
		}
	}
	count := uint64(0)
	if each(func(uint64, pendingStub) { count++ }); count != c.Dropped {
		return false
	}
	if each(func(_ uint64, s pendingStub) { tree.Append(s.leaf) }); tree.Root() != c.Stubs {
		return false
	}
	each(func(index uint64, _ pendingStub) { members.add(index) })
	return p.remove(members) == c.Dropped
}

// remove removes the stubs that are of a set, and returns how many there were.
func (p *pending) remove(members *bitset) (removed uint64) {
	last := ^uint64(0)
	for index := range members.all() {
		n := index / pendingPage
		if n == last {
			continue
		}
		last = n
		page := p.pages[n]
		kept := slices.DeleteFunc(page, func(s pendingStub) bool { return members.has(n*pendingPage + uint64(s.at)) })
		removed += uint64(len(page) - len(kept))
		if len(kept) > 0 {
			p.pages[n] = kept
		} else {
			delete(p.pages, n)
		}
	}
	return removed
}

// first returns the index of the first stub.
func (p *pending) first() (uint64, bool) {
	least, found := uint64(0), false
	for n, page := range p.pages {
		if i := n*pendingPage + uint64(page[0].at); !found || i < least {
			least, found = i, true
		}
	}
	return least, found
}
