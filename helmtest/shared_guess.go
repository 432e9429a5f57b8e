package helmtest

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

func beginsEmpty(t *sharedTrial) {
	t.holds()
	t.join(t.shared)
	t.holds()
	t.another()
	t.holds()
}

func appendIsErrShared(t *sharedTrial) {
	for range 2 {
		b := t.batch("entry")
		b.Blobs, b.Checkpoint = texts("blob"), []byte("note")
		for _, b := range []proofgraph.Batch{b, {At: b.At}, {At: b.At + 1}} {
			if err := t.shared.Append(t.ctx, b); !errors.Is(err, proofgraph.ErrShared) {
				t.Errorf("Append returns the error %v, want ErrShared", err)
			}
			t.twin.refuse(b)
		}
		t.holds()
		guess, c := t.draft("a: entry")
		t.put(t.watch, guess, c)
	}
	t.holds()
}

// Writers leave, die and stay, and the store is opened again.
func numbers(t *sharedTrial) {
	seen := map[uint64]bool{t.watch.ID(): true}
	for i := range 12 {
		w := t.join(t.shared)
		id := w.ID()
		if seen[id] {
			t.Errorf("the number %d is of an earlier writer", id)
		}
		if w.ID() != id {
			t.Errorf("a writer has another number than before")
		}
		seen[id] = true
		guess, c := t.draft(fmt.Sprintf("a: entry %d", i))
		t.put(w, guess, c)
		if k, ok := w.(killer); ok && i%4 == 1 {
			k.Kill()
			t.dead(t.watch)
		} else if i%4 == 2 {
			t.leave(w)
		}
		if i%3 == 2 {
			t.reopen()
			seen[t.watch.ID()] = true
		}
	}
	t.holds()
}

func nonceOf(name string) string { return "nonce-of-" + strings.ReplaceAll(name, " ", "-") }

// full returns a change that has some of everything, and the guess that it needs.
func (t *sharedTrial) full(name string) (guess proofgraph.State, c proofgraph.Change) {
	guess, c = t.draft("a: "+name, ": trust "+name, "a: and then "+name, "b: "+name, "c: "+name)
	c.Blobs, c.Checkpoint = texts("blob of "+name, "kept"), []byte("note of "+name)
	t.spend(&guess, &c, contracts.Balance{Budget: "euros", Of: "acme", Window: "2026-01"}, 5)
	t.spend(&guess, &c, contracts.Balance{Budget: "euros", Of: "acme"}, 7)
	t.spend(&guess, &c, contracts.Balance{Budget: "calls", Of: "acme", Window: "2026-01"}, 1)
	c.Used, c.Opened = []string{nonceOf(name), "another-" + nonceOf(name)}, []int{2, 3}
	return guess, c
}

func rightGuess(t *sharedTrial) {
	first := t.another()
	writers := []proofgraph.Writer{t.join(first), t.join(t.shared), t.watch}
	for i := range t.some(12) {
		w := writers[i%len(writers)]
		guess, c := t.full(fmt.Sprintf("change %d", i))
		at := t.put(w, guess, c)
		t.holds()

		guess, c = t.draft(fmt.Sprintf("a: closed %d, closed", i))
		c.Settled = []uint64{at + 2, at + 3}
		guess.Sessions["never-begun"] = proofgraph.End{} // it is right, and nothing of it changes
		guess.Spent = append(guess.Spent, contracts.Balance{Budget: "never-charged"})
		t.put(w, guess, c)

		guess, c = t.draft()
		c.Blobs, c.Checkpoint = texts(fmt.Sprintf("alone %d", i)), []byte("alone")
		t.put(w, guess, c)
		guess, c = t.draft()
		t.put(w, guess, c)
		t.holds()
	}
	t.reopen()
	t.holds()
}

// Each part of a guess is wrong by itself. After that the same change with a right guess is
// written.
func wrongGuess(t *sharedTrial) {
	other := t.join(t.another())
	w := t.watch
	before, c := t.full("the first")
	at := t.put(other, before, c) // 2 and 3 are open, and of a writer that lives
	before, c = t.full("the second")
	own := t.put(w, before, c)
	_, settles := t.draft("settling: own")
	settles.Settled = []uint64{own + 2}
	t.write(w, settles)
	end := func(name string, change func(e *proofgraph.End)) func(*proofgraph.State, *proofgraph.Change) {
		return func(g *proofgraph.State, _ *proofgraph.Change) {
			e := g.Sessions[name]
			if e.Next == 0 {
				e = proofgraph.End{Next: t.log.ends[name].Next, Last: t.log.ends[name].Last}
			}
			change(&e)
			g.Sessions[name] = e
		}
	}
	earlier := func(e *proofgraph.End) { e.Next-- }
	later := func(e *proofgraph.End) { e.Next++ }
	anotherLast := func(e *proofgraph.End) { e.Last[31] ^= 1 }
	type part struct {
		name  string
		wrong func(g *proofgraph.State, c *proofgraph.Change)
	}
	parts := []part{
		{"Kernel is lower", func(g *proofgraph.State, _ *proofgraph.Change) { g.Kernel-- }},
		{"Kernel is higher", func(g *proofgraph.State, _ *proofgraph.Change) { g.Kernel++ }},
		{"Next is lower", end("a", earlier)},
		{"Next is higher", end("c", later)},
		{"Last is another", end("b", anotherLast)},
		{"Next of a session without an entry is lower", end("d", earlier)},
		{"Last of a session without an entry is another", end("d", anotherLast)},
		{"a session that is there is guessed not to be",
			end("a", func(e *proofgraph.End) { *e = proofgraph.End{} })},
		{"a session that is not there is guessed to be", end("never-begun", later)},
		{"a balance is lower", func(g *proofgraph.State, _ *proofgraph.Change) { g.Spent[0].Spent-- }},
		{"a balance is higher", func(g *proofgraph.State, _ *proofgraph.Change) { g.Spent[2].Spent++ }},
		{"a balance of another window", func(g *proofgraph.State, _ *proofgraph.Change) {
			g.Spent = append(g.Spent, contracts.Balance{Budget: "euros", Of: "acme", Window: "2026-02", Spent: 10})
		}},
		{"a balance of another tenant", func(g *proofgraph.State, _ *proofgraph.Change) {
			g.Spent = append(g.Spent, contracts.Balance{Budget: "euros", Of: "other", Window: "2026-01", Spent: 10})
		}},
		{"a nonce is used", func(_ *proofgraph.State, c *proofgraph.Change) {
			c.Used = append(c.Used, "another-"+nonceOf("the first"))
		}},
		{"what it settles is no decision", func(_ *proofgraph.State, c *proofgraph.Change) { c.Settled = []uint64{0} }},
		{"what it settles is not there yet", func(_ *proofgraph.State, c *proofgraph.Change) {
			c.Settled = []uint64{uint64(len(t.twin.entries)) + 2}
		}},
		{"what it settles is another's, who lives", func(_ *proofgraph.State, c *proofgraph.Change) {
			c.Settled = []uint64{at + 2}
		}},
		{"one of two that it settles is another's", func(_ *proofgraph.State, c *proofgraph.Change) {
			c.Settled = []uint64{at + 3, own + 3}
		}},
	}
	guess, d := t.draft("d: begun")
	t.put(other, guess, d)
	for i, p := range parts {
		t.step = p.name + ": "
		guess, c := t.full(fmt.Sprintf("part %d", i))
		p.wrong(&guess, &c)
		_, err := w.Put(t.ctx, guess, c)
		t.moved(err, c)
		t.holds()
		empty := proofgraph.Change{Used: c.Used, Settled: c.Settled}
		_, err = w.Put(t.ctx, guess, empty) // with nothing else
		t.moved(err, empty)
		t.holds()
		guess, c = t.full(fmt.Sprintf("part %d", i))
		t.put(w, guess, c)
		t.holds()
	}
	t.step = "a decision of its own that it has settled: "
	guess, c = t.full("settled")
	c.Settled = []uint64{own + 2}
	_, err := w.Put(t.ctx, guess, c)
	t.moved(err, c)
	t.reopen()
	t.holds()
}

// A writer is of no more use after such an error.
func contradicts(t *sharedTrial) {
	guess, c := t.full("the first")
	t.put(t.watch, guess, c)
	for _, turn := range []bool{false, true} {
		for i, p := range []struct {
			name  string
			wrong func(g *proofgraph.State, c *proofgraph.Change)
		}{
			{"an entry is of no session", func(_ *proofgraph.State, c *proofgraph.Change) {
				c.Of = c.Of[:len(c.Of)-1]
			}},
			{"a session has no entry", func(_ *proofgraph.State, c *proofgraph.Change) { c.Of = append(c.Of, "a") }},
			{"a session has no end", func(_ *proofgraph.State, c *proofgraph.Change) { delete(c.Sessions, "b") }},
			{"a seq of a session is there", func(g *proofgraph.State, c *proofgraph.Change) {
				delete(g.Sessions, "a")
				c.Sessions["a"] = proofgraph.End{Next: c.Sessions["a"].Next - 1, Last: c.Sessions["a"].Last}
			}},
			{"a decision is not among the entries", func(_ *proofgraph.State, c *proofgraph.Change) {
				c.Opened = []int{len(c.Entries)}
			}},
		} {
			t.step = fmt.Sprintf("%s, turn %t: ", p.name, turn)
			w := t.join(t.shared)
			guess, c := t.full(fmt.Sprintf("change %d %t", i, turn))
			c.Sessions = maps.Clone(c.Sessions)
			p.wrong(&guess, &c)
			var err error
			if turn {
				t.takeTurn(w, proofgraph.Ask{Balances: c.Spent})
				err = w.End(t.ctx, c)
			} else {
				_, err = w.Put(t.ctx, guess, c)
			}
			if err == nil {
				t.Fatalf("there is no error")
			}
			t.refused(c)
			t.holds()
			guess, c = t.full(fmt.Sprintf("change %d %t", i, turn))
			t.put(t.watch, guess, c)
			t.holds()
		}
	}
}
