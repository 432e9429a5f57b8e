package helmtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

func turnAnswers(t *sharedTrial) {
	balance := func(of, window string) contracts.Balance {
		return contracts.Balance{Budget: "euros", Of: of, Window: window, Spent: 77} // Spent is not read
	}
	all := proofgraph.Ask{
		Sessions: []string{"c", "never-begun", "", "a", "b"},
		Balances: []contracts.Balance{
			balance("nobody", "2026-01"), balance("acme", ""), balance("acme", "2026-01"), balance("acme", "2026-02"),
			{Budget: "never-charged"}, {Budget: "calls", Of: "acme", Window: "2026-01", Spent: 3},
		},
		Nonces: []string{"never-used", nonceOf("change 1"), "another-" + nonceOf("change 0"),
			"another-" + nonceOf("change 1"), nonceOf("change 2"), nonceOf("change 0")},
	}
	w := t.join(t.another())
	for i := range 3 {
		for _, a := range []proofgraph.Ask{
			{}, all, {Sessions: all.Sessions[1:2]}, {Balances: all.Balances[2:3]}, {Nonces: all.Nonces[2:3]},
			{Sessions: []string{""}, Nonces: all.Nonces[:1]},
		} {
			got := t.takeTurn(w, a)
			t.answered(a, got)
			clear(got.Sessions) // it is the caller's
			clear(got.Spent)
			clear(got.Used)
			t.end(w, proofgraph.Change{})
		}
		guess, c := t.full(fmt.Sprintf("change %d", i))
		t.put(t.watch, guess, c)
	}
}

func zeroChange(t *sharedTrial) {
	w := t.join(t.another())
	for i := range 3 {
		t.takeTurn(w, proofgraph.Ask{})
		t.end(w, proofgraph.Change{})
		t.holds()
		t.takeTurn(w, proofgraph.Ask{Sessions: []string{"a", "new"}, Nonces: []string{"new"}})
		t.end(w, proofgraph.Change{})
		t.holds()
		guess, c := t.full(fmt.Sprintf("change %d", i))
		t.put(t.watch, guess, c)
	}
	t.reopen()
	t.holds()
}

func wholeTurn(t *sharedTrial) {
	other := t.join(t.another())
	guess, c := t.full("the first")
	at := t.put(other, guess, c)
	for i := range 3 {
		_, c := t.full(fmt.Sprintf("change %d", i))
		before := uint64(len(t.twin.entries))
		gone := t.join(t.shared)
		t.write(gone, c)
		t.holds()
		t.leave(gone)
		_, c = t.draft(fmt.Sprintf("settling: %d", i))
		c.Settled = []uint64{before + 2, before + 3}
		t.write(t.watch, c)
		t.holds()
		c = proofgraph.Change{Batch: proofgraph.Batch{Blobs: texts(fmt.Sprint(i)), Checkpoint: []byte("alone")}}
		t.write(t.watch, c)
		t.holds()

		for _, p := range []struct {
			name  string
			wrong func(c *proofgraph.Change)
		}{
			{"a nonce is used", func(c *proofgraph.Change) { c.Used = append(c.Used, nonceOf("the first")) }},
			{"what it settles is settled", func(c *proofgraph.Change) { c.Settled = []uint64{before + 2} }},
			{"what it settles is no decision", func(c *proofgraph.Change) { c.Settled = []uint64{0} }},
			{"what it settles is another's, who lives", func(c *proofgraph.Change) { c.Settled = []uint64{at + 3} }},
		} {
			t.step = p.name + ": "
			_, c := t.full(p.name + fmt.Sprint(i))
			p.wrong(&c)
			t.takeTurn(t.watch, proofgraph.Ask{Balances: c.Spent})
			t.moved(t.watch.End(t.ctx, c), c)
			guess, c := t.draft("a: the turn has ended")
			t.put(other, guess, c)
			t.holds()
		}
		t.step = ""
	}
	t.reopen()
	t.holds()
}

// What is read in a turn holds until it ends: each turn adds one to a balance and an entry to a
// session.
func turnsExclude(t *sharedTrial) {
	const writers = 6
	stores := []proofgraph.Shared{t.another(), t.shared}
	budget := contracts.Balance{Budget: "turns"}
	rounds := t.some(24)
	var (
		all    sync.WaitGroup
		inside atomic.Int64 // writers in their turns
		failed atomic.Bool
	)
	for i := range writers {
		w := t.join(stores[i%2])
		all.Go(func() {
			for j := 0; j < rounds && !failed.Load(); j++ {
				ask := proofgraph.Ask{Sessions: []string{"s"}, Balances: []contracts.Balance{budget}}
				state, err := w.Turn(t.ctx, ask)
				alone := inside.Add(1) == 1
				t.pause()
				t.pause()
				alone = inside.Add(-1) == 0 && alone
				if err == nil && len(state.Spent) == 1 {
					e := contracts.Entry(fmt.Sprintf("turn %d", state.Spent[0].Spent))
					err = w.End(t.ctx, proofgraph.Change{
						Batch:    proofgraph.Batch{Entries: []contracts.Entry{e}},
						Of:       []string{"s"},
						Sessions: map[string]proofgraph.End{"s": {Next: state.Sessions["s"].Next + 1, Last: e.Hash()}},
						Spent:    []contracts.Balance{{Budget: "turns", Spent: state.Spent[0].Spent + 1}},
					})
				}
				if err != nil || !alone {
					failed.Store(true)
					t.Errorf("while others take turns too, a turn is alone: %t, and its error is %v", alone, err)
				}
			}
		})
	}
	all.Wait()
	for i := range writers * rounds {
		e := contracts.Entry(fmt.Sprintf("turn %d", i))
		t.wrote(proofgraph.Change{
			Batch:    proofgraph.Batch{Entries: []contracts.Entry{e}},
			Of:       []string{"s"},
			Sessions: map[string]proofgraph.End{"s": {Next: uint64(i) + 1, Last: e.Hash()}},
			Spent:    []contracts.Balance{{Budget: "turns", Spent: uint64(i) + 1}},
		})
	}
	t.holds()
}

// The guess is right when the put begins. If the turn moves what was guessed, the put is ErrMoved,
// and else it is written.
func putWaits(t *sharedTrial) {
	other := t.join(t.another())
	for i := range t.some(8) {
		moves := i%2 == 0
		t.takeTurn(other, proofgraph.Ask{Sessions: []string{"s"}})
		var (
			guess, put  = t.draft(fmt.Sprintf("s: put %d", i))
			_, end      = t.draft(fmt.Sprintf("s: turn %d", i))
			done        = make(chan struct{})
			at, expects uint64
			err         error
		)
		go func() {
			defer close(done)
			at, err = t.watch.Put(t.ctx, guess, put)
		}()
		t.linger()
		select {
		case <-done:
			t.Errorf("Put returns during another writer's turn (%v)", err)
		default:
		}
		if !moves {
			_, end = t.draft(fmt.Sprintf("another: turn %d", i))
		}
		t.end(other, end)
		<-done
		if moves {
			t.moved(err, put)
		} else if expects = uint64(len(t.twin.entries)); err != nil || at != expects {
			t.Errorf("after another writer's turn, Put returns %d (%v), want %d", at, err, expects)
		} else {
			t.wrote(put)
		}
		t.holds()
	}
}

// A reader sees what is written, and nothing of a turn that has not ended.
func readsInTurn(t *sharedTrial) {
	other := t.join(t.another())
	for i := range 3 {
		guess, c := t.full(fmt.Sprintf("put %d", i))
		t.put(t.watch, guess, c)
		_, c = t.full(fmt.Sprintf("turn %d", i))
		t.refused(c) // so far
		t.takeTurn(other, proofgraph.Ask{Balances: c.Spent})
		t.same()
		t.sameSession("a", 0)
		t.end(other, c)
		t.holds()
	}
}

// A decision of a writer that left may be settled by any other, once.
func oneSettles(t *sharedTrial) {
	const writers = 8
	var ws [writers]proofgraph.Writer
	stores := []proofgraph.Shared{t.another(), t.shared}
	for i := range ws {
		ws[i] = t.join(stores[i%2])
	}
	for round := range t.some(16) {
		gone := t.join(t.shared)
		guess, c := t.draft(fmt.Sprintf("decisions: %d", round))
		c.Opened = []int{0}
		at := t.put(gone, guess, c)
		t.leave(gone)
		var (
			changes [writers]proofgraph.Change
			errs    [writers]error
			all     sync.WaitGroup
			start   = make(chan struct{})
		)
		for i, w := range ws {
			guess, c := t.draft(fmt.Sprintf("of-%d: receipt of %d", i, round)) // no two need the same session
			c.Settled = []uint64{at}
			changes[i] = c
			all.Go(func() {
				<-start
				if (i+round)%2 == 0 {
					_, errs[i] = w.Put(t.ctx, guess, c)
				} else if _, errs[i] = w.Turn(t.ctx, proofgraph.Ask{}); errs[i] == nil {
					errs[i] = w.End(t.ctx, c)
				}
			})
		}
		close(start)
		all.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
				t.wrote(changes[i])
			case errors.Is(err, proofgraph.ErrMoved):
				t.refused(changes[i])
			default:
				t.Fatalf("settling what others settle: %v, want ErrMoved", err)
			}
		}
		if won != 1 {
			t.Fatalf("%d of %d writers have settled one decision", won, writers)
		}
		t.holds()
	}
}
