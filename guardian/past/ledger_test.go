package past

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Names that could be taken for one another: subjects about the length from which on a digest
// stands for them, callers and what is like the canonical form of one, texts that are the digest of
// others, with the byte that marks it, and words that run into one another.
func confusable() (all []contracts.Charge) {
	var subjects []string
	for n := range 40 {
		subjects = append(subjects, strings.Repeat("x", n), strings.Repeat("x", n)+"y", strings.Repeat("x", n)+"\x00")
	}
	for n := range 24 {
		id := strings.Repeat("x", n)
		subjects = append(subjects, `{"id":"`+id+`"}`, `{"id":"`+id+`y"}`, `{"id":"`+id+`","tenant":"x"}`,
			`{"id":"x","tenant":"`+id+`"}`, `{"id":"`+id+`\",\"tenant\":\"x"}`, `{"id":"`+id+"\x00x\"}", id+"\x00x",
			`{"id":"x","tenant":"`+id+`","tenant":"x"}`, `{"id":"`+id)
	}
	for _, long := range subjects[60:] {
		d := crypto.Sum([]byte(long))
		subjects = append(subjects, string(d[:27]), string(d[:27])+"\xff", string(d[:28]), string(d[:]))
	}
	slices.Sort(subjects)
	for _, s := range slices.Compact(subjects) {
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

// Every budget, window and subject has a balance of its own: a ledger compared with a map of the
// words themselves, over random charges and refunds.
func TestLedgerModel(t *testing.T) {
	t.Parallel()
	type key struct{ budget, of, window string }
	model := map[key]uint64{}
	all := confusable()
	var l Ledger
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 20_000 {
		c := all[r.IntN(len(all))]
		k := key{c.Budget, c.Of, c.Window}
		c.Amount, c.Limit = uint64(r.IntN(5)), 20
		require.Equal(t, model[k], l.Spent(c), "%q: %d spent", k, l.Spent(c))
		list := []contracts.Charge{c}
		switch fit := model[k]+c.Amount <= c.Limit; r.IntN(4) {
		case 0, 1:
			require.True(t, l.Reserve(list, nil) == fit && list[0].Before == model[k], "%q: reserved %+v on %d", k,
				list[0], model[k])
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
			if err := l.Settle(list, []contracts.Settlement{{Budget: c.Budget, Of: c.Of}},
				contracts.ReasonToolError); (err == nil) != there {
				t.Fatalf("%q: gave back %d of %d: %v", k, c.Amount, model[k], err)
			}
			if there {
				model[k] -= c.Amount
			}
		}
		if i%1000 == 0 {
			for _, c := range all {
				k := key{c.Budget, c.Of, c.Window}
				require.Equal(t, model[k], l.Spent(c), "%q: %d spent", k, l.Spent(c))
			}
		}
	}
	if len(model) != len(all)-1 { // (P1:a:b, "", total) is there twice
		t.Errorf("%d balances of %d", len(model), len(all))
	}
}

// More charges than a decision holds, on windows that are new to the ledger, are each made.
func TestLedgerMany(t *testing.T) {
	t.Parallel()
	var l Ledger
	var list []contracts.Charge
	for i := range 3 * contracts.MaxCharges {
		list = append(list, contracts.Charge{Amount: uint64(i), Budget: "P1:a:b", Limit: 100, Of: fmt.Sprint(i % 20),
			Window: fmt.Sprint(i % 2)})
	}
	require.True(t, l.Reserve(list[:20], nil), "not reserved")
	for i, c := range list[:20] {
		assert.Equal(t, uint64(i), l.Spent(c), "%+v: %d spent", c, l.Spent(c))
	}
}

// 64 callers reserve, look, fail and are refunded, over subjects and windows that are new to the
// ledger as they come: no balance is ever over its limit, what was reserved before is what each is
// told, and in the end exactly what was kept is spent.
func TestLedgerRace(t *testing.T) {
	t.Parallel()
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
				spent := l.Spent(list[0])
				assert.True(t, spent <= limit, "%d spent of %d", spent, limit)
				balances := []contracts.Balance{{Budget: "P1:a:b"}}
				made := l.Reserve(list, balances)
				assert.True(t, list[0].Before == balances[0].Spent && made == (list[0].Before+list[0].Amount <= limit),
					"reserved %v on %+v, and the inputs say %d", made, list[0], balances[0].Spent)
				if !made {
					lost.Add(1)
					continue
				}
				kept[w][s].Add(int64(list[0].Amount))
				if r.IntN(3) == 0 {
					kept[w][s].Add(-int64(list[0].Amount))
					assert.NoError(t, l.Settle(list, []contracts.Settlement{{Budget: "P1:a:b", Of: list[0].Of}},
						contracts.ReasonToolError))
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
	assert.NotEqual(t, int64(0), lost.Load(), "nobody lost: the limit was not reached")
}

// Of nothing nothing is given back, from a ledger of which nothing was charged too.
func TestLedgerSettlesNothing(t *testing.T) {
	t.Parallel()
	charges := []contracts.Charge{{Budget: "P1:a:b", Limit: 9, Window: "total"}}
	l := new(Ledger)
	if err := l.Settle(charges, []contracts.Settlement{{Budget: "P1:a:b"}}, contracts.ReasonToolError); err != nil ||
		l.Spent(charges[0]) != 0 {
		t.Errorf("%v, %d spent", err, l.Spent(charges[0]))
	}
}

// BenchmarkLedger is what a call makes of a ledger with balances of so many callers: it peeks, and
// reserves.
func BenchmarkLedger(b *testing.B) {
	for _, n := range []int{1, 10_000, 1_000_000} {
		var l Ledger
		charges := make([]contracts.Charge, n)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range charges {
			charges[i] = contracts.Charge{Amount: 1, Budget: "P1:bank:payments", Limit: 1 << 50,
				Of: fmt.Sprint("caller-", r.IntN(n)), Window: "2026-07-15T00:00:00.000Z"}
			if !l.Reserve(charges[i:i+1], nil) {
				b.Fatal("not reserved")
			}
		}
		b.Run(fmt.Sprint("peek/", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if l.Spent(charges[i%n]) == 0 {
					b.Fatal("nothing is spent")
				}
				i++
			}
		})
		b.Run(fmt.Sprint("reserve/", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				c, balances := make([]contracts.Charge, 1), make([]contracts.Balance, 1)
				for i := 0; pb.Next(); i++ {
					c[0] = charges[i%n]
					balances[0].Budget = c[0].Budget
					if !l.Reserve(c, balances) || balances[0].Spent == 0 {
						b.Error("not reserved")
					}
				}
			})
		})
	}
}

// However many reserve at once, a balance never goes over its limit, and a charge is made on all
// its budgets or on none.
func TestLedgerReserve(t *testing.T) {
	t.Parallel()
	var l Ledger
	var made atomic.Uint64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				c := []contracts.Charge{{Amount: 3, Budget: "P0:a:b", Limit: 1000, Window: "total"},
					{Amount: 1, Budget: "P1:a:b", Limit: 5000, Of: "x", Window: "total"}}
				if l.Reserve(c, nil) {
					made.Add(1)
				}
			}
		})
	}
	wg.Wait()
	one, other := contracts.Charge{Budget: "P0:a:b", Window: "total"},
		contracts.Charge{Budget: "P1:a:b", Of: "x", Window: "total"}
	assert.True(t, made.Load() == 333 && l.Spent(one) == 999 && l.Spent(other) == 333, "%d made, %d and %d spent",
		made.Load(), l.Spent(one), l.Spent(other))
	assert.True(t, l.Spent(contracts.Charge{Budget: "P1:a:b", Window: "total"}) == 0 &&
		l.Spent(contracts.Charge{Budget: "P1:a:b", Of: "x", Window: "session"}) == 0, "balances of others")
}

func TestLedgerFold(t *testing.T) {
	t.Parallel()
	charge := func(before, amount uint64) []contracts.Charge {
		return []contracts.Charge{{Amount: amount, Before: before, Budget: "P1:a:b", Limit: 10, Of: "x",
			Window: "total"}}
	}
	settled := func(amount uint64, budget, of string) []contracts.Settlement {
		return []contracts.Settlement{{Amount: amount, Budget: budget, Of: of}}
	}
	var l Ledger
	for _, c := range []struct {
		what string
		err  error
		ok   bool
	}{
		{"charge", l.Charge(charge(0, 4)), true},
		{"another balance", l.Charge(charge(0, 4)), false},
		{"over the limit", l.Charge(charge(4, 7)), false},
		{"overflow", l.Charge(charge(4, 1<<64-1)), false},
		{"to the limit", l.Charge(charge(4, 6)), true},
		{"kept", l.Settle(charge(0, 4), settled(4, "P1:a:b", "x"), contracts.ReasonAllow), true},
		{"refund of a success", l.Settle(charge(4, 6), settled(0, "P1:a:b", "x"), contracts.ReasonAllow), false},
		{"refund of a panic", l.Settle(charge(4, 6), settled(0, "P1:a:b", "x"), contracts.ReasonToolPanic), false},
		{"refund of a part", l.Settle(charge(4, 6), settled(5, "P1:a:b", "x"), contracts.ReasonToolError), false},
		{"another budget", l.Settle(charge(4, 6), settled(6, "P1:a:c", "x"), contracts.ReasonAllow), false},
		{"another's", l.Settle(charge(4, 6), settled(6, "P1:a:b", "y"), contracts.ReasonAllow), false},
		{"none", l.Settle(charge(4, 6), nil, contracts.ReasonAllow), false},
		{"refund", l.Settle(charge(4, 6), settled(0, "P1:a:b", "x"), contracts.ReasonToolError), true},
		{"refund of what was not charged", l.Settle(charge(4, 6), settled(0, "P1:a:b", "x"), contracts.ReasonToolError),
			false},
	} {
		assert.Equal(t, c.ok, c.err == nil, "%s: %v", c.what, c.err)
	}
	if left := l.Spent(charge(0, 0)[0]); left != 4 {
		t.Errorf("%d spent", left)
	}
}
