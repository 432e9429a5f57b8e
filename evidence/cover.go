package evidence

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
)

// packedSets are what a packer knows of letting go.
type packedSets struct {
	policies map[contracts.Digest]uint64 // their entries
	entries  []condenser
}

// A condenser is a condense entry.
type condenser struct {
	index uint64
	*contracts.Condense
}

// note notes the entry of that index.
func (x *packedSets) note(st *contracts.Statement, index uint64) {
	switch {
	case st.Policy != nil:
		if x.policies == nil {
			x.policies = map[contracts.Digest]uint64{}
		}
		x.policies[st.Policy.Policy] = index
	case st.Condense != nil:
		x.entries = append(x.entries, condenser{index, st.Condense})
	}
}

// cover checks that each stub is of the set of a condense entry that the pack has. The ranges are
// read again if there are stubs.
func (p *packer) cover(ctx context.Context) error {
	if len(p.log.stubs) == 0 {
		return nil
	}
	terms := p.terms(ctx)
	for _, c := range p.sets.entries {
		if c.Size > c.index {
			return fmt.Errorf("entry %d: of more entries than are before it", c.index)
		}
		set, err := setOf(&p.log, c.Condense, p.sets.policies, &terms,
			func(from, to uint64) iter.Seq2[contracts.Entry, error] { return p.again(ctx, from, to) })
		if err != nil {
			return fmt.Errorf("entry %d: %w", c.index, err)
		}
		p.log.letGo(set)
	}
	for _, s := range p.log.stubs {
		if !p.log.gone.has(uint64(s.index)) {
			return fmt.Errorf("entry %d: %w", s.index, ErrCondensed)
		}
	}
	return nil
}

var errDamaged = errors.New("the store changed below its checkpoint: it is damaged")

// same returns an error if a line that is read again is not the one that was surveyed.
func (p *packer) same(index uint64, line contracts.Entry) error {
	err := p.log.same(index, line)
	if err == errChanged {
		return errDamaged
	}
	return err
}

// again returns lines that were read before. It reads some at a time: a store may have to do one
// thing at a time.
func (p *packer) again(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for at := from; at < to; at += packItems {
			var lines []contracts.Entry
			for e, err := range p.store.Entries(ctx, at, min(at+packItems, to)) {
				if err == nil {
					err = p.same(at+uint64(len(lines)), e)
				}
				if err != nil {
					yield(nil, err)
					return
				}
				lines = append(lines, e)
			}
			if uint64(len(lines)) < min(packItems, to-at) {
				yield(nil, errDamaged)
				return
			}
			for _, e := range lines {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// terms reads what the policies of the store say of letting go.
func (p *packer) terms(ctx context.Context) termReader {
	var r contracts.Reader
	return termReader{
		policy: func(index uint64) (*contracts.PolicyRecord, error) {
			if index >= p.log.size() || p.log.stub(index) != nil {
				return nil, nil
			}
			for e, err := range p.again(ctx, index, index+1) {
				if err != nil {
					return nil, err
				}
				st, err := entry.Open(&r, e)
				if err != nil {
					return nil, err
				}
				return st.Policy, nil
			}
			return nil, errDamaged
		},
		document: func(d contracts.Digest) ([]byte, error) { return readBlob(ctx, p.store, d) },
	}
}
