package archivist

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

var errSaved = errors.New("not the form of a saved archivist")

// A saved is what an [Archivist] knows of the first entries, without what is read again (policies,
// and the fields of condense entries) and without the members of all sets, which the log forgot.
type saved struct {
	Latest contracts.Time       `json:"latest"`
	Times  []contracts.Time     `json:"times"`
	Trees  [][]contracts.Digest `json:"trees"` // nodes of each
	Whole  []savedSet           `json:"whole,omitempty"`
}

type savedSet struct {
	Index   uint64 `json:"index"`
	Members bitset `json:"members"`
}

// MarshalJSON returns what the archivist knows when [Archivist.Opened] has returned nil.
func (a *Archivist) MarshalJSON() ([]byte, error) {
	x := saved{Latest: a.scan.latest, Times: a.scan.times, Trees: a.scan.trees}
	for _, s := range a.whole {
		x.Whole = append(x.Whole, savedSet{s.index, s.members})
	}
	return json.Marshal(x)
}

// Load sets an archivist that was told of nothing to one of the first entries, which was saved.
// tree is the log's there, and forgotten has a bit for each entry of a set: see
// [proofgraph.Prefix].
// Policy entries and condense entries are to be added by [Archivist.Again].
func (a *Archivist) Load(b []byte, tree *proofgraph.Tree, forgotten []byte) error {
	var x saved
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	own := *tree
	s, size := &a.scan, own.Size()
	if uint64(len(x.Times)) != 1+size/interval || uint64(len(x.Trees)) != 1+size/block {
		return errSaved
	}
	a.base = size
	s.size, s.tree, s.latest, s.times, s.trees = size, &own, x.Latest, x.Times, x.Trees
	for i, nodes := range x.Trees {
		if _, err := proofgraph.NewTree(uint64(i)*block, nodes); err != nil {
			return err
		}
	}
	for i, x := range forgotten {
		for ; x != 0; x &= x - 1 {
			a.bits.add(8*uint64(i) + uint64(bits.TrailingZeros8(x)))
		}
	}
	if !a.bits.below(size) {
		return errSaved
	}
	for _, w := range x.Whole {
		if w.Index >= size || !w.Members.below(w.Index) {
			return errSaved
		}
		a.whole = append(a.whole, &set{index: w.Index, members: w.Members})
	}
	return nil
}

// Again adds an entry of the first ones that is a policy or a condense entry.
func (a *Archivist) Again(index uint64, st *contracts.Statement) {
	if st.Policy != nil {
		a.scan.policy(index, st.Policy)
	}
	if st.Condense != nil {
		for _, s := range a.whole {
			if s.index == index {
				s.fields = *st.Condense
			}
		}
	}
}

// Hold waits until no Condense and no Drop runs, and keeps others from running until release is
// called.
func (a *Archivist) Hold(ctx context.Context) (release func(), err error) {
	if err := a.lock(ctx); err != nil {
		return nil, err
	}
	return a.unlock, nil
}

// Standing is called after Load and Again. It forgets the sets of which only stubs are left by now,
// as if their lines had been read.
func (a *Archivist) Standing(ctx context.Context) (err error) {
	defer contain.Error(&err, "Options.Store")
	var whole []*set
	for _, s := range a.whole {
		stands, err := a.stands(ctx, s)
		if err != nil {
			return fmt.Errorf("the set of entry %d: %w", s.index, err)
		}
		if stands {
			whole = append(whole, s)
		}
	}
	a.whole = whole
	return nil
}

// stands reports whether a member of the set is no stub. If all are, they must be those that the
// condense entry covers.
func (a *Archivist) stands(ctx context.Context, s *set) (bool, error) {
	if s.fields.Dropped == 0 {
		return false, errSaved // it is no condense entry
	}
	var tree proofgraph.Tree
	index := s.fields.From
	for line, err := range a.store.Entries(ctx, s.fields.From, s.fields.To) {
		if err != nil {
			return false, err
		}
		if s.members.has(index) {
			if !contracts.IsStub(line) {
				return true, nil
			}
			tree.Append(crypto.LeafHash(line))
		}
		index++
	}
	if tree.Root() != s.fields.Stubs {
		return false, errors.New("the store has other stubs than it covers")
	}
	return false, nil
}

// Whole returns the indexes of the condense entries of whose sets entries stand whole, ascending.
func (a *Archivist) Whole() (indexes []uint64) {
	for _, s := range a.whole {
		indexes = append(indexes, s.index)
	}
	return indexes
}

// A savedBits is a bitset. A page is nil, or has the bits of 4,096 numbers.
type savedBits struct {
	First uint64   `json:"first"`
	Pages [][]byte `json:"pages"`
}

// MarshalJSON returns the pages.
func (b bitset) MarshalJSON() ([]byte, error) {
	x := savedBits{First: b.first, Pages: make([][]byte, len(b.pages))}
	for i, p := range b.pages {
		if p == nil {
			continue
		}
		for _, word := range p {
			x.Pages[i] = binary.LittleEndian.AppendUint64(x.Pages[i], word)
		}
	}
	return json.Marshal(x)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (b *bitset) UnmarshalJSON(text []byte) error {
	var x savedBits
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	if x.First%bitsPage != 0 {
		return errSaved
	}
	b.first, b.pages = x.First, make([]*[bitsPage / 64]uint64, len(x.Pages))
	for i, p := range x.Pages {
		if p == nil {
			continue
		}
		if len(p) != bitsPage/8 {
			return errSaved
		}
		b.pages[i] = new([bitsPage / 64]uint64)
		for w := range b.pages[i] {
			b.pages[i][w] = binary.LittleEndian.Uint64(p[8*w:])
		}
	}
	return nil
}

// below reports whether all numbers of the set are less than n.
func (b *bitset) below(n uint64) bool {
	last := uint64(0)
	for i := range b.all() {
		last = i + 1
	}
	return last <= n
}
