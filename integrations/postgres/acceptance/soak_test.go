//go:build unix

package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

const (
	slots  = 3  // processes at a time
	perLog = 25 // faults, and then the log is verified and another one begun
)

// soak makes n faults under the load of three processes. After each of them all processes have to
// go on, and the log is compared with what they did; after 25 it is verified.
func soak(t *testing.T, s *pgtest.Server, n int, fault func(f *fleet, random *rand.Rand)) {
	t.Helper()
	var sum totals
	made, began := 0, time.Now()
	for made < n && !t.Failed() && !late(t) {
		from := *seed + uint64(made)
		f := newFleet(t, s, from)
		random := rand.New(rand.NewPCG(from, 0))
		for slot := range slots {
			f.start(slot, true)
		}
		f.goOn()
		for range min(perLog, n-made) {
			fault(f, random)
			f.goOn()
			if made++; t.Failed() || late(t) {
				break
			}
		}
		f.end()
		f.store.Close()
		sum.add(f)
	}
	t.Logf("%d faults of %d, seed %d, in %v: %v", made, n, *seed, time.Since(began).Round(time.Second), &sum)
}

// totals are what the fleets of a test have come to.
type totals struct {
	logs, entries, ran, acked, unknown, denied, processes int
	sealed, odd                                           map[string]int
}

func (s *totals) add(f *fleet) {
	if s.sealed == nil {
		s.sealed, s.odd = map[string]int{}, map[string]int{}
	}
	s.logs++
	s.entries += int(f.ledger.size)
	s.ran += f.ledger.ran
	s.unknown += f.ledger.unknown
	s.denied += f.ledger.denied
	s.processes += f.started
	for _, n := range f.ledger.acked {
		s.acked += n
	}
	for why, n := range f.sealed {
		s.sealed[why] += n
	}
	for why, n := range f.odd {
		s.odd[why] += n
	}
}

func (s *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d logs checked and verified, %d entries, %d runs, %d receipts given, %d denials, %d calls settled as unknown, "+
		"%d processes", s.logs, s.entries, s.ran, s.acked, s.denied, s.unknown, s.processes)
	for what, list := range map[string]map[string]int{"sealed": s.sealed, "without a receipt": s.odd} {
		for _, why := range slices.Sorted(maps.Keys(list)) {
			fmt.Fprintf(&b, "\n\t%s, %d times: %s", what, list[why], why)
		}
	}
	return b.String()
}
