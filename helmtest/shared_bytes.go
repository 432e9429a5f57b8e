package helmtest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/helmkernel/helm/proofgraph"
)

// cloneChange returns a deep copy.
func cloneChange(c proofgraph.Change) proofgraph.Change {
	c.Batch = clone(c.Batch)
	c.Of, c.Sessions, c.Spent = slices.Clone(c.Of), maps.Clone(c.Sessions), slices.Clone(c.Spent)
	c.Used, c.Opened, c.Settled = slices.Clone(c.Used), slices.Clone(c.Opened), slices.Clone(c.Settled)
	return c
}

// A log reuses all of a change as soon as Put or End returns. The store neither keeps it nor writes
// to it.
func givenToWriters(t *sharedTrial) {
	for i := range 4 {
		guess, c := t.full(fmt.Sprintf("change %d", i))
		before, guessed := cloneChange(c), proofgraph.State{Size: guess.Size, Kernel: guess.Kernel,
			Sessions: maps.Clone(guess.Sessions), Spent: slices.Clone(guess.Spent)}
		switch i {
		case 0:
			t.put(t.watch, guess, c)
		case 1:
			t.write(t.watch, c)
		default:
			c.Used[0] = nonceOf("change 0")
			before.Used[0] = c.Used[0]
			var err error
			if i == 2 {
				_, err = t.watch.Put(t.ctx, guess, c)
			} else {
				t.takeTurn(t.watch, proofgraph.Ask{Balances: c.Spent})
				err = t.watch.End(t.ctx, c)
			}
			t.moved(err, before)
		}
		if !reflect.DeepEqual(c, before) || !reflect.DeepEqual(guess, guessed) {
			t.Errorf("a writer changes its arguments")
		}
		for _, e := range c.Entries {
			fill(e, 'X')
		}
		for _, b := range append(c.Blobs, c.Checkpoint) {
			fill(b, 'X')
		}
		clear(c.Entries)
		clear(c.Blobs)
		clear(c.Of)
		clear(c.Sessions)
		c.Sessions["a"] = proofgraph.End{Next: 1 << 40}
		clear(c.Spent)
		clear(c.Used)
		clear(guess.Sessions)
		clear(guess.Spent)
		t.holds()
	}
	t.reopen()
	t.holds()
}

// The caller may write to entries of a session, and append to them.
func gotFromSession(t *sharedTrial) {
	guess, c := t.draft("a: one", "a: two, longer", "b: of another", "a: three")
	t.put(t.watch, guess, c)
	for range 2 {
		list, err := placed(t.ctx, t.shared, "a", 0)
		if err != nil || len(list) != 3 {
			t.Fatalf("Session returns %d entries (%v), want 3", len(list), err)
		}
		for i, p := range list {
			fill(p.Entry, byte(i))
		}
		for _, p := range list {
			fill(p.Entry[len(p.Entry):cap(p.Entry)], 0xff) // where append writes
		}
		for i, p := range list {
			if slices.ContainsFunc(p.Entry, func(c byte) bool { return c != byte(i) }) {
				t.Errorf("entries of a session share memory")
			}
		}
		t.holds()
		i := 0
		for p, err := range t.shared.Session(t.ctx, "a", 0) {
			if err != nil || string(p.Entry) != t.twin.entries[t.log.indexes["a"][i]] {
				t.Fatalf("entry %d of a session is %s (%v), after those before it were written to", i, brief(p.Entry),
					err)
			}
			fill(p.Entry[:cap(p.Entry)], 0xff)
			i++
		}
		t.holds()
		t.reopen()
	}
}
