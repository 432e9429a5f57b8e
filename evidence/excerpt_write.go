package evidence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
)

// An Excerpt says of which receipt [WriteExcerpt] writes one.
type Excerpt struct {
	// Receipt is the index of the receipt's entry.
	Receipt uint64

	// Blobs adds inputs, output and facts of the call, as far as the store has them: arguments and
	// outputs as they were.
	Blobs bool

	// Entries are entries that were kept elsewhere, while the store has no more than their
	// stubs. The receipt and its decision are looked up here, by their hashes; others are passed
	// over.
	Entries []contracts.Entry
}

// WriteExcerpt writes the excerpt of one receipt: the receipt and its decision, or the receipt of a
// denial alone, with proofs that they are in the log of the store's latest checkpoint, and that
// checkpoint. It needs no key. The same store and Excerpt make the same bytes. It reads the entries
// from the decision to the receipt, and the hashes of the proofs as [Inclusion] does: from a store
// that has them, else by a pass. After an error, the bytes that it wrote are no excerpt. A nil ctx
// never ends.
//
// WriteExcerpt verifies the proofs, and no signatures: that is for those who receive the excerpt.
func WriteExcerpt(ctx context.Context, w io.Writer, s proofgraph.Store, x Excerpt) error {
	switch {
	case w == nil:
		return errors.New("evidence: excerpt: no writer was given")
	case s == nil:
		return errors.New("evidence: excerpt: no store was given")
	case ctx == nil:
		ctx = context.Background()
	}
	p := excerpter{ctx: ctx, store: s, given: map[contracts.Digest]contracts.Entry{}}
	for _, e := range x.Entries {
		p.given[e.Hash()] = e
	}
	members, err := p.members(&x)
	if err != nil {
		return fmt.Errorf("evidence: excerpt: %w", err)
	}
	to := bufio.NewWriter(w) // it keeps its first error, which Flush returns
	for _, m := range members {
		ustar.WriteMember(to, m.name, m.content)
	}
	to.Write(ustar.Zeros[:])
	to.Write(ustar.Zeros[:])
	if err := to.Flush(); err != nil {
		return fmt.Errorf("evidence: excerpt: %w", err)
	}
	return nil
}

// An excerpter makes one excerpt.
type excerpter struct {
	ctx   context.Context
	store proofgraph.Store
	given map[contracts.Digest]contracts.Entry // by hash
	mark  *signed
}

// A named is a member that is to be written.
type named struct {
	name    string
	content []byte
}

// members returns the members in order.
func (p *excerpter) members(x *Excerpt) ([]named, error) {
	note, err := p.store.Checkpoint(p.ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("checkpoint: %w", err)
	case len(note) == 0:
		return nil, errors.New("the store has no checkpoint: make one with Kernel.Checkpoint first")
	}
	if p.mark, err = parseSigned(note); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if x.Receipt >= p.mark.Size {
		return nil, fmt.Errorf("entry %d: the latest checkpoint is of %d entries: make one with Kernel.Checkpoint "+
			"first", x.Receipt, p.mark.Size)
	}
	entries, err := p.entries(x.Receipt)
	if err != nil {
		return nil, err
	}
	names := ustar.Denial
	if len(entries) > 1 {
		names = ustar.Call
	}
	list := []named{{names[0], note}}
	for i, e := range entries {
		proof, err := p.proof(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.index, err)
		}
		list = append(list, named{names[1+2*i], e.bytes}, named{names[2+2*i], proof})
	}
	if !x.Blobs {
		return list, nil
	}
	blobs, err := p.blobs(entries)
	return append(list, blobs...), err
}

// A located is an entry that is to be written.
type located struct {
	index     uint64
	bytes     contracts.Entry
	statement *contracts.Statement
}

// entries returns the decision and the receipt of that index, or the receipt of a denial.
func (p *excerpter) entries(index uint64) ([]located, error) {
	receipt, err := p.find(index, index+1, nil)
	if err != nil {
		return nil, err
	}
	r := receipt.statement.Receipt
	if r == nil {
		return nil, fmt.Errorf("entry %d is no receipt: its kind is %s", index, receipt.statement.Kind())
	}
	if r.Decision != nil {
		return []located{*receipt}, nil
	}
	for to, width := index, uint64(8); to > 0; width *= 2 { // mostly it is the entry before
		from := to - min(to, width)
		decision, err := p.find(from, to, &r.DecisionHash)
		if err != nil {
			return nil, err
		}
		if decision != nil {
			return []located{*decision, *receipt}, nil
		}
		to = from
	}
	return nil, fmt.Errorf("entry %d: its decision is not before it: the store is damaged", index)
}

// find returns the first entry of a range that has that hash, or nil if none has it. If hash is
// nil, any entry has it.
func (p *excerpter) find(from, to uint64, hash *contracts.Digest) (*located, error) {
	index := from
	var r contracts.Reader
	for e, err := range p.store.Entries(p.ctx, from, to) {
		var leaf contracts.Digest
		if err == nil {
			leaf, err = r.Leaf(e)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", index, err)
		}
		if hash == nil || leaf == *hash {
			return p.parse(index, leaf, e)
		}
		index++
	}
	if index < to {
		return nil, fmt.Errorf("entry %d: the store does not return it: it is damaged", index)
	}
	return nil, nil
}

// parse parses an entry of that hash, or the one that was given if the store has its stub.
func (p *excerpter) parse(index uint64, leaf contracts.Digest, e contracts.Entry) (*located, error) {
	if contracts.IsStub(e) {
		var ok bool
		if e, ok = p.given[leaf]; !ok {
			return nil, fmt.Errorf("entry %d: the store has no more than its stub: give it in Excerpt.Entries", index)
		}
	}
	st, err := entry.Open(new(contracts.Reader), e)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", index, err)
	}
	return &located{index, e, st}, nil
}

// proof returns the proof of an entry.
func (p *excerpter) proof(e located) ([]byte, error) {
	hashes, err := proofs.Inclusion(p.ctx, p.store, e.index, p.mark.Size)
	if err != nil {
		return nil, err
	}
	x := proof{index: int64(e.index), checkpoint: p.mark.Note}
	for _, h := range hashes {
		x.path = append(x.path, tlog.Hash(h))
	}
	if x.check(e.bytes.Hash(), p.mark.Size, p.mark.Root) != nil {
		return nil, errors.New("the entries are not those of the checkpoint: the store is damaged")
	}
	return x.append(nil), nil
}

// blobs returns those that the entries name and that the store has, without modules.
func (p *excerpter) blobs(entries []located) (list []named, err error) {
	var names []contracts.Digest
	for _, e := range entries {
		entry.Blobs(e.statement, func(d contracts.Digest, as entry.Role) {
			if as != entry.Module {
				names = append(names, d)
			}
		})
	}
	slices.SortFunc(names, entry.Compare)
	for _, d := range slices.Compact(names) {
		b, err := readBlob(p.ctx, p.store, d)
		switch {
		case errors.Is(err, proofgraph.ErrNoBlob):
			continue
		case err != nil:
			return nil, err
		case len(b) > maxBlob:
			return nil, fmt.Errorf("blob %s is longer than any may be", d)
		}
		list = append(list, named{ustar.BlobPrefix + d.String(), b})
	}
	return list, nil
}
