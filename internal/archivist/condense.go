package archivist

import (
	"context"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/contain"
)

const (
	least  = 1024               // members of a set
	window = contracts.MaxRange // entries that are looked at together
)

// A Writer writes a condense entry with that set, which the log then forgets, and returns when it
// is durable. It sets no field.
type Writer func(c *contracts.Condense, set iter.Seq[uint64]) (contracts.Ref, error)

// Written is what [Archivist.Condense] wrote.
type Written struct {
	Entries []contracts.Ref // condense entries
	Members uint64          // of their sets
}

// Condense writes condense entries for what may go by now: for the entries that are durable, the
// sessions that are closed, and what is old enough at until. A set has at least 1,024 members.
func (a *Archivist) Condense(
	ctx context.Context, log Closer, until contracts.Time, write Writer,
) (w Written, err error) {
	defer contain.Error(&err, "Options.Store")
	if err := a.lock(ctx); err != nil {
		return Written{}, err
	}
	defer a.unlock()
	size := a.size.Load()
	if err := a.scan.advance(ctx, size); err != nil {
		return Written{}, err
	}
	for from := uint64(0); from < size; {
		s, next, err := a.find(ctx, log, from, size, until)
		if err != nil {
			return Written{}, err
		}
		if from = next; s == nil {
			continue
		}
		ref, err := write(&s.fields, s.members.all())
		if err != nil {
			return Written{}, err
		}
		s.index = ref.Index
		a.enter(s)
		a.whole = append(a.whole, s)
		w.Entries, w.Members = append(w.Entries, ref), w.Members+s.fields.Dropped
	}
	return w, nil
}

// find returns the set of a range in the window that begins at from, and where to look next. It
// returns nil if no range has members enough.
func (a *Archivist) find(
	ctx context.Context, log Closer, from, size uint64, until contracts.Time,
) (s *set, next uint64, err error) {
	to := min(from+window, size)
	for { // the range gets smaller
		computed, err := a.compute(ctx, log, from, to, size, until)
		if err != nil {
			return nil, 0, err
		}
		first, last, ok := best(computed.Members(), from, to)
		if !ok {
			return nil, to, nil
		}
		if first != from || last != to { // a call that is not all in it, and the last one of main, may go no more
			from, to = first, last
			continue
		}
		if computed, from, to, err = a.tighten(ctx, log, computed, from, to, size, until); err != nil {
			return nil, 0, err
		}
		root, err := a.scan.rootAt(ctx, to)
		if err != nil {
			return nil, 0, err
		}
		s := &set{members: bitsFrom(from), fields: contracts.Condense{Dropped: computed.Dropped, From: from,
			Root: root, Size: size, Stubs: computed.Stubs, To: to, Until: until}}
		for i := range computed.Members() {
			s.members.add(i)
		}
		return s, last, nil
	}
}

// tighten cuts off what has no members at both ends of a range, so that little is read again by who
// reads the condense entry. It leaves the end where the last of main would become another.
func (a *Archivist) tighten(
	ctx context.Context, log Closer, s *condense.Set, from, to, size uint64, until contracts.Time,
) (*condense.Set, uint64, uint64, error) {
	first, last := to, from
	for i := range s.Members() {
		first, last = min(first, i), i
	}
	tight, err := a.compute(ctx, log, first, last+1, size, until)
	if err == nil && tight.Dropped == s.Dropped {
		return tight, first, last + 1, nil
	}
	return s, first, to, err
}

// worth reports whether a range may have a condense entry of this kernel.
func worth(members, entries uint64) bool { return members >= least && entries <= 64*members }

// best returns the part of a range, from one multiple of block to another or to the end, that has
// members enough: all of it, but for blocks without members at its ends, or else the part that has
// the most to spare.
func best(members iter.Seq[uint64], from, to uint64) (first, last uint64, ok bool) {
	counts := make([]uint64, (to-from+block-1)/block) // from is a multiple of block
	for i := range members {
		counts[(i-from)/block]++
	}
	end := func(n int) uint64 { return min(from+uint64(n)*block, to) }
	i, j, total := 0, len(counts), uint64(0)
	for ; i < j && counts[i] == 0; i++ {
	}
	for ; i < j && counts[j-1] == 0; j-- {
	}
	for _, n := range counts[i:j] {
		total += n
	}
	if worth(total, end(j)-end(i)) {
		return end(i), end(j), true
	}
	var sum, most int64 // what is to spare
	begin := i
	i, j, total = 0, 0, 0
	for n, count := range counts {
		if sum < 0 {
			sum, begin = 0, n
		}
		sum += 64*int64(count) - int64(end(n+1)-end(n))
		if sum > most || sum == most && i == j {
			most, i, j = sum, begin, n+1
		}
	}
	for _, n := range counts[i:j] {
		total += n
	}
	return end(i), end(j), worth(total, end(j)-end(i))
}
