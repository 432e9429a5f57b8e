package guardian

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Names that could be taken for one another: subjects about the length from which on a digest stands for them, texts that are the digest of
// others, with the byte that marks it, and words that run into one another.
func confusable() (all []contracts.Charge) {
	var subjects []string
	for n := range 40 {
		subjects = append(subjects, strings.Repeat("x", n), strings.Repeat("x", n)+"y", strings.Repeat("x", n)+"\x00")
	}
	for _, long := range subjects[60:] {
		d := crypto.Sum([]byte(long))
		subjects = append(subjects, string(d[:27]), string(d[:27])+"\xff", string(d[:28]), string(d[:]))
	}
	for _, s := range subjects {
		all = append(all, contracts.Charge{Budget: "P1:a:b", Of: s, Window: "total"})
	}
	for _, name := range []string{"P1:a:b", "P1:a:bt", "P1:a:", "P0:a:b", ""} {
		for _, window := range []string{"total", "otal", "btotal", "session", ""} {
			for _, of := range []string{"ann", "nn", ""} {
				all = append(all, contracts.Charge{Budget: name, Of: of, Window: window})
			}
		}
	}
	return all
}

// Every budget, window and subject has a balance of its own: a ledger beside a map of the words themselves, over random charges and refunds.
func TestLedgerModel(t *testing.T) {
	type key struct{ budget, of, window string }
	model := map[key]uint64{}
	all := confusable()
	var l Ledger
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 20_000 {
		c := all[r.IntN(len(all))]
		k := key{c.Budget, c.Of, c.Window}
		c.Amount, c.Limit = uint64(r.IntN(5)), 20
		if l.Spent(c) != model[k] {
			t.Fatalf("%q: %d spent, want %d", k, l.Spent(c), model[k])
		}
		list := []contracts.Charge{c}
		switch fit := model[k]+c.Amount <= c.Limit; r.IntN(4) {
		case 0, 1:
			if l.Reserve(list, new(contracts.Inputs)) != fit || list[0].Before != model[k] {
				t.Fatalf("%q: reserved %+v on %d", k, list[0], model[k])
			}
			if fit {
				model[k] += c.Amount
			}
		case 2:
			list[0].Before = model[k]
			if err := l.Charge(list); (err == nil) != fit {
				t.Fatalf("%q: charged %+v: %v", k, list[0], err)
			}
			if fit {
				model[k] += c.Amount
			}
		case 3:
			there := model[k] >= c.Amount
			if err := l.Settle(list, []contracts.Settlement{{Budget: c.Budget, Of: c.Of}}, contracts.ReasonToolError); (err == nil) != there {
				t.Fatalf("%q: gave back %d of %d: %v", k, c.Amount, model[k], err)
			}
			if there {
				model[k] -= c.Amount
			}
		}
		if i%1000 == 0 {
			for _, c := range all {
				if k := (key{c.Budget, c.Of, c.Window}); l.Spent(c) != model[k] {
					t.Fatalf("%q: %d spent, want %d", k, l.Spent(c), model[k])
				}
			}
		}
	}
	if len(model) != len(all)-1 { // (P1:a:b, "", total) is there twice
		t.Errorf("%d balances of %d", len(model), len(all))
	}
}

// More charges than a decision holds, on windows that are new to the ledger, are each made.
func TestLedgerMany(t *testing.T) {
	var l Ledger
	var list []contracts.Charge
	for i := range 3 * contracts.MaxCharges {
		list = append(list, contracts.Charge{Amount: uint64(i), Budget: "P1:a:b", Limit: 100, Of: fmt.Sprint(i % 20), Window: fmt.Sprint(i % 2)})
	}
	if !l.Reserve(list[:20], new(contracts.Inputs)) {
		t.Fatal("not reserved")
	}
	for i, c := range list[:20] {
		if l.Spent(c) != uint64(i) {
			t.Errorf("%+v: %d spent", c, l.Spent(c))
		}
	}
}

// 64 callers reserve, look, fail and are refunded, over subjects and windows that are new to the ledger as they come: no balance is ever over
// its limit, what was reserved before is what each is told, and in the end exactly what was kept is spent.
func TestLedgerRace(t *testing.T) {
	const callers, each, limit = 64, 60, 40
	var l Ledger
	var wg sync.WaitGroup
	var kept [5][7]atomic.Int64 // by window and subject
	var lost atomic.Int64
	charge := func(window, subject int, amount uint64) contracts.Charge {
		of := fmt.Sprint(strings.Repeat("x", subject*8), subject) // of some, a digest
		return contracts.Charge{Amount: amount, Budget: "P1:a:b", Limit: limit, Of: of, Window: fmt.Sprint("w", window)}
	}
	for i := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range each {
				w, s := (n/20+r.IntN(2))%len(kept), r.IntN(len(kept[0]))
				list := []contracts.Charge{charge(w, s, 1+uint64(r.IntN(2)))}
				if spent := l.Spent(list[0]); spent > limit {
					t.Errorf("%d spent of %d", spent, limit)
				}
				in := contracts.Inputs{State: contracts.SessionState{Budgets: []contracts.Balance{{Budget: "P1:a:b"}}}}
				made := l.Reserve(list, &in)
				if list[0].Before != in.State.Budgets[0].Spent || made != (list[0].Before+list[0].Amount <= limit) {
					t.Errorf("reserved %v on %+v, and the inputs say %d", made, list[0], in.State.Budgets[0].Spent)
				}
				if !made {
					lost.Add(1)
					continue
				}
				kept[w][s].Add(int64(list[0].Amount))
				if r.IntN(3) == 0 {
					kept[w][s].Add(-int64(list[0].Amount))
					if err := l.Settle(list, []contracts.Settlement{{Budget: "P1:a:b", Of: list[0].Of}}, contracts.ReasonToolError); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for w := range kept {
		for s := range kept[w] {
			if got, want := l.Spent(charge(w, s, 1)), uint64(kept[w][s].Load()); got != want {
				t.Errorf("window %d, subject %d: %d spent, %d kept", w, s, got, want)
			}
		}
	}
	if lost.Load() == 0 {
		t.Error("nobody lost: the limit was not reached")
	}
}

// Of nothing nothing is given back, from a ledger of which nothing was charged too.
func TestLedgerSettlesNothing(t *testing.T) {
	charges := []contracts.Charge{{Budget: "P1:a:b", Limit: 9, Window: "total"}}
	l := new(Ledger)
	if err := l.Settle(charges, []contracts.Settlement{{Budget: "P1:a:b"}}, contracts.ReasonToolError); err != nil || l.Spent(charges[0]) != 0 {
		t.Errorf("%v, %d spent", err, l.Spent(charges[0]))
	}
}
