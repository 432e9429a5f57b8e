package helmtest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// dead returns what Dead of a writer does.
func (t *sharedTrial) dead(w proofgraph.Writer) []uint64 {
	t.Helper()
	open, err := w.Dead(t.ctx)
	if err != nil {
		t.Fatalf("Dead: %v", err)
	}
	return open
}

// sameDead compares the open decisions of writers that died or left.
func (t *sharedTrial) sameDead(w proofgraph.Writer, want ...uint64) {
	t.Helper()
	if got := t.dead(w); !slices.Equal(got, want) {
		t.Errorf("Dead returns the decisions %d, want %d", got, want)
	}
}

// leave ends a writer.
func (t *sharedTrial) leave(w proofgraph.Writer) {
	t.Helper()
	if err := w.Leave(t.ctx); err != nil {
		t.Fatalf("Leave: %v", err)
	}
}

// mortal skips a promise about dead writers if the test has no way to have one.
func (t *sharedTrial) mortal() {
	t.Helper()
	if _, ok := t.watch.(killer); !ok {
		t.Skipf("its writers have no method Kill: none of them dies in this test")
	}
}

// kill ends a writer as the end of its process would.
func (t *sharedTrial) kill(w proofgraph.Writer) { w.(killer).Kill() }

func writersAgain(t *sharedTrial) {
	for i := range 3 {
		guess, c := t.full(fmt.Sprintf("put %d", i))
		t.put(t.watch, guess, c)
		t.reopen()
		t.holds()
		_, c = t.full(fmt.Sprintf("turn %d", i))
		t.write(t.watch, c)
		t.reopen()
		t.holds()
	}
	w := t.join(t.shared)
	guess, c := t.draft("leaving: 0", "leaving: 1")
	c.Opened = []int{1}
	at := t.put(w, guess, c)
	t.leave(w)
	t.reopen()
	if open := t.dead(t.watch); !slices.Contains(open, at+1) {
		t.Errorf("opened again, Dead returns the decisions %d, and not %d of a writer that left", open, at+1)
	}
	t.reopen()
	guess, c = t.draft("leaving: settled")
	c.Settled = []uint64{at + 1}
	t.put(t.watch, guess, c)
	t.reopen()
	_, err := t.watch.Put(t.ctx, proofgraph.State{Kernel: guess.Kernel}, proofgraph.Change{Settled: c.Settled})
	t.moved(err, proofgraph.Change{})
	t.holds()
}

// opening writes changes of a writer that open decisions, and settle one of them. It returns those
// that are open.
func (t *sharedTrial) opening(w proofgraph.Writer) (open []uint64) {
	t.Helper()
	guess, c := t.full("of one that ends")
	at := t.put(w, guess, c) // opens 2 and 3
	_, c = t.draft("a: receipt", "a: decision", "a: another")
	c.Opened, c.Settled = []int{1, 2}, []uint64{at + 3}
	t.write(w, c)
	return []uint64{at + 2, at + 6, at + 7}
}

// settling settles decisions, each in another way.
func (t *sharedTrial) settling(open []uint64) {
	t.Helper()
	guess, c := t.draft("settling: one")
	c.Settled = open[:1]
	t.put(t.watch, guess, c)
	t.sameDead(t.watch, open[1:]...)
	_, c = t.draft("settling: the others")
	c.Settled = open[1:]
	t.write(t.watch, c)
	t.sameDead(t.watch)
	t.holds()
	t.reopen()
	t.sameDead(t.watch)
	t.holds()
}

func leaves(t *sharedTrial) {
	first := t.another()
	w, other := t.join(first), t.join(t.shared)
	open := t.opening(w)
	guess, c := t.draft("b: of one that stays")
	c.Opened = []int{0}
	t.put(other, guess, c)
	t.sameDead(t.watch)
	t.leave(w)
	t.sameDead(t.watch, open...)
	t.sameDead(other, open...)
	guess, c = t.full("after it has left")
	if _, err := w.Put(t.ctx, guess, c); err == nil {
		t.Errorf("a writer that left writes")
	}
	t.refused(c)
	t.holds()
	t.leave(other)
	open = append(open, open[2]+1)
	t.sameDead(t.watch, open...)
	t.settling(open)
}

// A writer lives that has nothing to do, and one that is in its turn.
func lives(t *sharedTrial) {
	w := t.join(t.another())
	open := t.opening(w)
	for i := range 3 {
		t.sameDead(t.watch)
		guess, c := t.draft(fmt.Sprintf("a: it lives %d", i))
		t.put(w, guess, c)
		t.takeTurn(w, proofgraph.Ask{})
		done := make(chan struct{})
		go func() { // it may wait for the turn
			defer close(done)
			if open, err := t.watch.Dead(t.ctx); err != nil || len(open) > 0 {
				t.Errorf("while another writer is in its turn, Dead returns the decisions %d (%v)", open, err)
			}
		}()
		t.linger()
		_, c = t.draft(fmt.Sprintf("a: it lives in its turn %d", i))
		t.end(w, c)
		<-done
		t.holds()
	}
	guess, c := t.draft("a: receipts")
	c.Settled = open
	t.put(w, guess, c)
	t.holds()
}

func dies(t *sharedTrial) {
	t.mortal()
	first := t.another()
	w, inTurn, other := t.join(first), t.join(first), t.join(t.shared)
	open := t.opening(w)
	guess, c := t.draft("b: of one that lives")
	c.Opened = []int{0}
	t.put(other, guess, c)
	t.kill(w)
	t.sameDead(t.watch, open...)
	t.sameDead(other, open...)
	t.sameDead(t.watch, open...)

	guess, c = t.draft("c: of one that dies in its turn")
	c.Opened = []int{0}
	open = append(open, t.put(inTurn, guess, c))
	t.takeTurn(inTurn, proofgraph.Ask{})
	t.kill(inTurn)
	t.sameDead(t.watch, open...)
	t.holds() // the log is free
	guess, c = t.draft("b: receipt")
	c.Settled = []uint64{open[2] + 1}
	t.put(other, guess, c)
	t.holds()
	t.settling(open)
}

func fenced(t *sharedTrial) {
	t.mortal()
	first := t.another()
	for _, inTurn := range []bool{false, true} {
		t.step = fmt.Sprintf("fenced, in its turn %t: ", inTurn)
		w := t.join(first)
		guess, c := t.full(fmt.Sprintf("opened %t", inTurn))
		at := t.put(w, guess, c)
		_, c = t.full(fmt.Sprintf("late %t", inTurn))
		if inTurn {
			t.takeTurn(w, proofgraph.Ask{Balances: c.Spent})
		}
		t.kill(w)
		t.dead(t.watch)
		isFenced := func(method string, err error) {
			t.Helper()
			if !errors.Is(err, proofgraph.ErrFenced) {
				t.Errorf("%s returns the error %v, want ErrFenced", method, err)
			}
			t.refused(c)
			t.holds()
		}
		if inTurn {
			isFenced("End", w.End(t.ctx, c))
		}
		for range 2 {
			guess, c = t.full(fmt.Sprintf("late %t", inTurn))
			_, err := w.Put(t.ctx, guess, c)
			isFenced("Put", err)
			guess.Kernel++
			_, err = w.Put(t.ctx, guess, c)
			isFenced("Put of a wrong guess", err)
			_, err = w.Turn(t.ctx, proofgraph.Ask{})
			isFenced("Turn", err)
			_, err = w.Dead(t.ctx)
			isFenced("Dead", err)
			guess, c = t.draft("a: the others go on")
			t.put(t.watch, guess, c)
			c = proofgraph.Change{}
		}
		guess, c = t.draft("a: settled")
		c.Settled = []uint64{at + 2, at + 3}
		t.put(t.watch, guess, c)
		_, err := w.Put(t.ctx, guess, c) // its own decisions
		isFenced("Put of a receipt", err)
		if err := w.Leave(t.ctx); errors.Is(err, proofgraph.ErrFenced) {
			t.Errorf("Leave returns the error %v", err)
		}
	}
}

// A writer puts decisions until it has an error. All of those that are written are found open when
// it was fenced, those that were acknowledged among them, and none is written after that.
func diesWhilePutting(t *sharedTrial) {
	t.mortal()
	first := t.another()
	for round := range t.some(8) {
		w := t.join(first)
		name := fmt.Sprintf("dying-%d", round)
		var (
			some  atomic.Int64 // acknowledged
			acked []uint64
			done  = make(chan struct{})
			ready = make(chan struct{})
			fault error
		)
		kernel := t.log.ends[""].Next
		go func() {
			defer close(done)
			var end proofgraph.End
			for i := 0; i < 1_000_000; i++ {
				b := proofgraph.Batch{Entries: t.batch(fmt.Sprintf("%s: %d", name, i)).Entries}
				next := proofgraph.End{Next: end.Next + 1, Last: b.Entries[0].Hash()}
				guess := proofgraph.State{Kernel: kernel, Sessions: map[string]proofgraph.End{name: end}}
				at, err := w.Put(t.ctx, guess, proofgraph.Change{
					Batch: b, Of: []string{name}, Sessions: map[string]proofgraph.End{name: next}, Opened: []int{0},
				})
				if fault = err; err != nil {
					break
				}
				acked, end = append(acked, at), next
				if some.Add(1) == int64(round)+1 {
					close(ready)
				}
			}
			if some.Load() <= int64(round) {
				close(ready)
			}
		}()
		<-ready
		t.kill(w)
		open := t.dead(t.watch)
		<-done
		list, err := placed(t.ctx, t.shared, name, 0)
		if written := indexesOf(list); err != nil || !slices.Equal(written, open) {
			t.Fatalf("a writer that died has written the decisions %d (%v), and Dead returns %d", written, err, open)
		}
		if fault == nil || len(acked) > len(open) || !slices.Equal(acked, open[:len(acked)]) {
			t.Fatalf("a writer that died had the decisions %d acknowledged, and then the error %v; Dead returns %d",
				acked, fault, open)
		}
		for i, p := range list {
			c := proofgraph.Change{
				Batch:    proofgraph.Batch{Entries: []contracts.Entry{p.Entry}},
				Of:       []string{name},
				Sessions: map[string]proofgraph.End{name: {Next: uint64(i) + 1, Last: p.Entry.Hash()}},
			}
			t.wrote(c)
		}
		guess, c := t.draft("settling: " + name)
		c.Settled = open
		t.put(t.watch, guess, c)
		t.holds()
	}
}
