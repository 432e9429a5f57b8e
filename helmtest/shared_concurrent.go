package helmtest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A crowd is writers at work at the same time, and what the store has acknowledged to them.
type crowd struct {
	*sharedTrial
	mu    sync.Mutex        // protects the fields below
	at    map[uint64]string // entries by the index that was returned
	moved uint64            // charges of the balance
	used  map[string]int    // how often a nonce was used
}

var crowdBudget = contracts.Balance{Budget: "calls", Of: "all"}

// A piece is one change of one writer in a crowd.
type piece struct {
	session, nonce string
	spends         bool
	text           string
}

// change returns the change that writes a piece to a log that is as the state says.
func (p piece) change(state proofgraph.State) (c proofgraph.Change) {
	end := state.Sessions[p.session]
	for i := range uint64(2) {
		e := contracts.Entry(fmt.Sprintf("%s %d %s", p.session, end.Next+i, p.text))
		c.Entries, c.Of = append(c.Entries, e), append(c.Of, p.session)
	}
	c.Blobs = texts("blob of " + p.text)
	c.Sessions = map[string]proofgraph.End{p.session: {Next: end.Next + 2, Last: c.Entries[1].Hash()}}
	if p.spends {
		b := crowdBudget
		b.Spent = state.Spent[0].Spent + 1
		c.Spent = []contracts.Balance{b}
	}
	if p.nonce != "" {
		c.Used = []string{p.nonce}
	}
	return c
}

// work writes a piece: by a guess on what the writer knows, and if that is wrong in a turn. It
// brings what the writer knows up to date.
func (t *crowd) work(w proofgraph.Writer, p piece, known *proofgraph.State, guesses bool) error {
	var (
		c   proofgraph.Change
		at  uint64
		err = proofgraph.ErrMoved
	)
	if guesses {
		guess := proofgraph.State{Sessions: map[string]proofgraph.End{p.session: known.Sessions[p.session]}}
		if p.spends {
			guess.Spent = known.Spent
		}
		c = p.change(*known)
		at, err = w.Put(t.ctx, guess, c)
	}
	if errors.Is(err, proofgraph.ErrMoved) {
		state, err := w.Turn(t.ctx, proofgraph.Ask{
			Sessions: []string{p.session}, Balances: []contracts.Balance{crowdBudget}, Nonces: []string{p.nonce},
		})
		if err != nil {
			return err
		}
		if len(state.Used) > 0 {
			p.nonce = ""
		}
		c = p.change(state)
		if at, err = state.Size, w.End(t.ctx, c); err != nil {
			return err
		}
		known.Spent = state.Spent
	} else if err != nil {
		return err
	}
	maps.Copy(known.Sessions, c.Sessions)
	if p.spends {
		known.Spent = c.Spent
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range c.Entries {
		t.at[at+uint64(i)] = string(e)
	}
	t.moved += uint64(len(c.Spent))
	for _, nonce := range c.Used {
		t.used[nonce]++
	}
	return nil
}

// Eight writers of two processes share two sessions, and each has one of its own. Each charges one
// balance, and all want the same nonces.
func atOnce(t *sharedTrial) {
	const writers = 8
	crowd := &crowd{sharedTrial: t, at: make(map[uint64]string), used: make(map[string]int)}
	stores := []proofgraph.Shared{t.another(), t.shared}
	rounds := t.some(40)
	var all sync.WaitGroup
	for i := range writers {
		w := t.join(stores[i%2])
		all.Go(func() {
			known := proofgraph.State{
				Sessions: make(map[string]proofgraph.End), Spent: []contracts.Balance{crowdBudget},
			}
			for round := range rounds {
				p := piece{session: fmt.Sprintf("of-%d", i), text: fmt.Sprintf("by %d in round %d", i, round)}
				p.spends = round%3 > 0
				if round%3 == 2 {
					p.session = fmt.Sprintf("shared-%d", round%2)
				}
				if round%4 == 0 {
					p.nonce = fmt.Sprintf("nonce-%d", round)
				}
				t.pause()
				if err := crowd.work(w, p, &known, (i+round)%5 > 0); err != nil {
					t.Errorf("while others put and take turns, a writer has the error %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	crowd.compare(2*writers*rounds, rounds)
	t.reopen()
	crowd.compare(2*writers*rounds, rounds)
}

// compare compares what is there with what was acknowledged.
func (t *crowd) compare(entries, rounds int) {
	t.Helper()
	list, err := read(t.ctx, t.shared, 0, uint64(entries))
	if size, sizeErr := t.shared.Size(t.ctx); err != nil || sizeErr != nil || size != uint64(entries) {
		t.Fatalf("Size returns %d (%v), and so many entries were acknowledged: %d (%v)", size, sizeErr, entries, err)
	}
	t.log.indexes, t.twin.entries = make(map[string][]uint64), nil
	for i, e := range list {
		words := strings.Fields(t.at[uint64(i)])
		if len(words) == 0 || string(e) != t.at[uint64(i)] || words[1] != fmt.Sprint(len(t.log.indexes[words[0]])) {
			t.Fatalf("entry %d is %s, and %q was acknowledged there: its session, its seq, its writer", i, brief(e),
				t.at[uint64(i)])
		}
		t.log.indexes[words[0]] = append(t.log.indexes[words[0]], uint64(i))
		t.twin.entries = append(t.twin.entries, string(e))
	}
	for name := range t.log.indexes {
		t.sameSession(name, 0)
	}
	state := t.takeTurn(t.watch, proofgraph.Ask{Balances: []contracts.Balance{crowdBudget}})
	t.end(t.watch, proofgraph.Change{})
	if len(state.Spent) != 1 || state.Spent[0].Spent != t.moved {
		t.Errorf("a balance was charged %d times by 1 and is %v", t.moved, state.Spent)
	}
	for round := 0; round < rounds; round += 4 {
		if nonce := fmt.Sprintf("nonce-%d", round); t.used[nonce] != 1 {
			t.Errorf("%q was used %d times", nonce, t.used[nonce])
		}
	}
}
