package archivist

import (
	"context"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

const (
	least  = 1024               // members of a set
	window = contracts.MaxRange // entries that are looked at together
	part   = 1 << 16            // entries that a range has more or less, if not all in a window go
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
	ctx context.Context, log Log, until contracts.Time, write Writer,
) (w Written, err error) {
	defer contain.Error(&err, "Options.Store")
	if err := a.lock(ctx); err != nil {
		return Written{}, err
	}
	defer a.unlock()
	tree := log.Tree()
	if err := a.scan.advance(ctx, &tree); err != nil {
		return Written{}, err
	}
	size := tree.Size()
	left := size
	for from := a.left; from < size; {
		f, err := a.find(ctx, log, from, size, until)
		if err != nil {
			return Written{}, err
		}
		left, from = min(left, f.left), f.next
		s := f.set
		if s == nil {
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
	a.left = left
	return w, nil
}

// A found is what was found in a window.
type found struct {
	set  *set   // nil if no range has members enough
	left uint64 // the first entry that may go later
	next uint64 // where to look next
}

// find returns the set of a range in the window that begins at from.
func (a *Archivist) find(
	ctx context.Context, log Closer, from, size uint64, until contracts.Time,
) (f found, err error) {
	to := min(from+window, size)
	f.left = to
	for { // the range gets smaller
		computed, err := a.compute(ctx, log, from, to, size, until, true)
		if err != nil {
			return f, err
		}
		f.left, f.next = min(f.left, computed.Left), to
		if computed.Dropped == 0 {
			return f, nil
		}
		first, last := computed.Least()
		if !worth(computed.Dropped, last-first) {
			f.left = min(f.left, first)
			var ok bool
			if from, to, ok = best(computed.Members(), from, to); !ok {
				return f, nil
			}
			continue // a call that is not all in it, and the last one of main, may go no more
		}
		root, err := a.scan.rootAt(ctx, last)
		if err != nil {
			return f, err
		}
		f.set = &set{members: bitsFrom(first), fields: contracts.Condense{Dropped: computed.Dropped, From: first,
			Root: root, Size: size, Stubs: computed.Stubs, To: last, Until: until}}
		for i := range computed.Members() {
			f.set.members.add(i)
		}
		return f, nil
	}
}

// worth reports whether a range may have a condense entry of this kernel.
func worth(members, entries uint64) bool { return members >= least && entries <= 64*members }

// best returns neighbouring parts of a range that have members enough together: all of it, but for
// parts without members at its ends, or else those that have the most to spare.
func best(members iter.Seq[uint64], from, to uint64) (first, last uint64, ok bool) {
	counts := make([]uint64, (to-from+part-1)/part)
	for i := range members {
		counts[(i-from)/part]++
	}
	end := func(n int) uint64 { return min(from+uint64(n)*part, to) }
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
