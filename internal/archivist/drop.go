package archivist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// ErrNoCondenser is returned by [Archivist.Drop] if the store lets nothing go.
var ErrNoCondenser = errors.New("the store is no proofgraph.Condenser: it lets nothing go")

// Let is what [Archivist.Drop] let go of.
type Let struct {
	Entries uint64 // members of the sets
	Blobs   uint64 // that no entry names any more
	Waiting uint64 // members of sets whose condense entries are not below the size that was given
}

// Drop has the store put stubs in the place of the members of all sets whose condense entries are
// below size, and forget the blobs that no entry names any more. It reads the log once for that,
// and the ranges of the sets twice. Modules stay: a later receipt may name one that the kernel does
// not bring again.
func (a *Archivist) Drop(ctx context.Context, size uint64) (let Let, err error) {
	defer contain.Error(&err, "Options.Store")
	store, ok := a.store.(proofgraph.Condenser)
	if !ok {
		return Let{}, ErrNoCondenser
	}
	if err := a.lock(ctx); err != nil {
		return Let{}, err
	}
	defer a.unlock()
	n := 0
	for ; n < len(a.whole) && a.whole[n].index < size; n++ {
		let.Entries += a.whole[n].fields.Dropped
	}
	for _, s := range a.whole[n:] {
		let.Waiting += s.fields.Dropped
	}
	if n == 0 && a.owed == nil {
		return let, nil
	}
	d := &drop{a: a, ctx: ctx, names: a.owed, pace: pace{store: a.store}}
	if err := d.check(a.whole[:n]); err != nil {
		return Let{}, err
	}
	a.owed = d.names // of members that are stubs nobody can tell any more which blobs they named
	err = store.Condense(ctx, d.stubs(a.whole[:n]), d.blobs)
	if d.err != nil { // a sequence cannot say so itself
		err = d.err
	}
	if err != nil {
		return Let{}, err
	}
	let.Blobs = d.forgot
	a.whole, a.owed = slices.Clone(a.whole[n:]), nil
	return let, nil
}

// A drop is one [Archivist.Drop].
type drop struct {
	a      *Archivist
	ctx    context.Context
	all    bitset             // members of all its sets
	names  []contracts.Digest // the blobs that they name, or named, sorted
	stay   []bool             // which of names stay; nil: the log was not read for that
	forgot uint64
	err    error // of a sequence; from then on both are empty
	pace   pace  // of what is read before the stubs: with these the store rests itself
	reader contracts.Reader
}

// check reads the members of each set. It returns an error if their stubs are not those that the
// condense entry covers, and notes the blobs that they name.
func (d *drop) check(sets []*set) error {
	for _, s := range sets {
		var tree proofgraph.Tree
		for m, err := range d.members(&s.members, s.fields.From, s.fields.To) {
			if err != nil {
				return fmt.Errorf("the set of entry %d: %w", s.index, err)
			}
			tree.Append(crypto.LeafHash(m.stub))
			if m.entry != nil {
				entry.Blobs(m.entry, func(b contracts.Digest, role entry.Role) {
					if role != entry.Module {
						d.names = append(d.names, b)
					}
				})
			}
			d.all.add(m.index)
			d.pace.line(d.ctx)
		}
		if tree.Size() != s.fields.Dropped || tree.Root() != s.fields.Stubs {
			return fmt.Errorf("the set of entry %d: the store has other entries than it was made of", s.index)
		}
	}
	slices.SortFunc(d.names, entry.Compare)
	d.names = slices.Compact(d.names)
	return nil
}

// A member is an entry of a set, or the stub of one.
type member struct {
	index uint64
	stub  []byte
	entry *contracts.Statement // nil if the store has the stub
}

// members reads the members of a set, or of several, in a range.
func (d *drop) members(members *bitset, from, to uint64) iter.Seq2[member, error] {
	return func(yield func(member, error) bool) {
		decisions := map[contracts.Digest]uint64{}
		index := from
		for line, err := range d.a.store.Entries(d.ctx, from, to) {
			if err != nil {
				yield(member{}, err)
				return
			}
			if members.has(index) {
				m, err := d.member(index, line, decisions)
				if !yield(m, err) || err != nil {
					return
				}
			}
			index++
		}
	}
}

// member reads a member. decisions are the indexes of those read before it.
func (d *drop) member(index uint64, line contracts.Entry, decisions map[contracts.Digest]uint64) (member, error) {
	bad := func(err error) (member, error) { return member{}, fmt.Errorf("entry %d: %w", index, err) }
	if contracts.IsStub(line) {
		s, err := d.reader.Stub(line)
		if err != nil {
			return bad(err)
		}
		if s.Decision != nil {
			decisions[s.Entry] = index
		}
		return member{index, line, nil}, nil
	}
	x, err := readLine(&d.reader, line)
	if err != nil {
		return bad(err)
	}
	var names uint64
	var ok bool
	switch st := x.entry; {
	case st.Decision != nil:
		decisions[x.hash] = index
		names, ok = d.a.scan.policyOf(st.Decision.PolicyHash)
	case st.Receipt != nil && st.Receipt.Decision == nil:
		names, ok = decisions[st.Receipt.DecisionHash]
		delete(decisions, st.Receipt.DecisionHash)
	}
	if !ok {
		return bad(errors.New("neither a decision nor the receipt of one in the set"))
	}
	return member{index, contracts.NewStub(x.entry, x.hash, names).Append(nil), x.entry}, nil
}

// stubs returns the stubs of all members, ascending. It reads them again, so that none is held.
// There are none if the blobs are not known that go with them: nobody could tell from stubs which
// blobs their entries named.
func (d *drop) stubs(sets []*set) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		if !d.begin() {
			return
		}
		for from, to := range ranges(sets) {
			for m, err := range d.members(&d.all, from, to) {
				if err != nil {
					d.err = err
					return
				}
				if !yield(m.index, m.stub) {
					return
				}
			}
		}
	}
}

// ranges joins the ranges of sets, ascending.
func ranges(sets []*set) iter.Seq2[uint64, uint64] {
	sorted := slices.SortedFunc(slices.Values(sets), func(a, b *set) int {
		return cmp.Compare(a.fields.From, b.fields.From)
	})
	return func(yield func(uint64, uint64) bool) {
		for i := 0; i < len(sorted); {
			from, to := sorted[i].fields.From, sorted[i].fields.To
			for i++; i < len(sorted) && sorted[i].fields.From <= to; i++ {
				to = max(to, sorted[i].fields.To)
			}
			if !yield(from, to) {
				return
			}
		}
	}
}

// begin finds out which blobs stay, when the store asks for the first of the two sequences. The
// store has begun then: so an entry that names one of the blobs has been appended before, and is
// read here, or the store keeps what is appended with it. It reports false if that failed, or the
// context has ended.
func (d *drop) begin() bool {
	if d.err == nil && d.stay == nil {
		d.stay, d.err = make([]bool, len(d.names)), errUnread // if the store panics, and goes on
		d.err = d.staying(d.stay)
	}
	if d.err == nil {
		d.err = d.ctx.Err()
	}
	return d.err == nil
}

var errUnread = errors.New("the log was not read to its end")

// blobs yields the blobs that members name and no other entry does.
func (d *drop) blobs(yield func(contracts.Digest) bool) {
	if !d.begin() {
		return
	}
	for i, name := range d.names {
		if d.stay[i] {
			continue
		}
		d.forgot++
		if !yield(name) {
			return
		}
	}
}

// staying marks the names of which an entry that stays has one.
func (d *drop) staying(stay []bool) error {
	size, err := d.a.store.Size(d.ctx)
	if err != nil {
		return err
	}
	index := uint64(0)
	for line, err := range d.a.store.Entries(d.ctx, 0, size) {
		if err != nil {
			return err
		}
		if !d.all.has(index) && !contracts.IsStub(line) {
			x, err := readLine(&d.reader, line)
			if err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
			entry.Blobs(x.entry, func(b contracts.Digest, _ entry.Role) {
				if i, ok := slices.BinarySearchFunc(d.names, b, entry.Compare); ok {
					stay[i] = true
				}
			})
		}
		d.pace.line(d.ctx)
		index++
	}
	if index != size {
		return errors.New("the store has fewer entries than it says")
	}
	return nil
}
