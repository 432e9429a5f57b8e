//go:build unix

package acceptance

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process is stopped in its turn, while it has the log. The server takes the log from it, another
// process that begins fences it, and then it goes on: its kernel is sealed, and nothing of it stands
// after its fence.
func TestStoppedInTurn(t *testing.T) {
	t.Parallel()
	const most = 4 // logs at a time: it is mostly a wait
	s := server(t)
	var sum totals
	var longest, all time.Duration
	n, began := faults(2), time.Now()
	for made := 0; made < n && !t.Failed(); {
		var fleets []*fleet
		for i := range min(most, n-made) {
			f := newFleet(t, s, *seed+uint64(made+i))
			for slot := range slots {
				f.start(slot, true)
			}
			fleets = append(fleets, f)
		}
		for range perLog {
			if made >= n || t.Failed() {
				break
			}
			for _, took := range stopped(fleets[:min(len(fleets), n-made)]) {
				longest, all = max(longest, took), all+took
				made++
			}
		}
		for _, f := range fleets {
			f.end()
			f.store.Close()
			sum.add(f)
		}
	}
	t.Logf("%d processes stopped in a turn, seed %d, in %v: the others went on after %v, at most %v "+
		"(idle_in_transaction_session_timeout 5 s, lock_timeout 10 s); %v", n, *seed,
		time.Since(began).Round(time.Second), (all / time.Duration(n)).Round(time.Millisecond),
		longest.Round(time.Millisecond), &sum)
}

// stopped stops a process of each fleet, and returns how long the others of each waited.
func stopped(fleets []*fleet) (took []time.Duration) {
	var victims []*process
	going := map[*fleet]func() bool{}
	for _, f := range fleets {
		f.goOn()
		p := f.slots[rand.New(rand.NewPCG(f.seed, uint64(f.started))).IntN(slots)]
		done, is := make(chan struct{}), false
		p.proxy.on(func(m *message) (bool, func()) {
			if !is && m.readied('T') && m.line.writes { // the server has begun the turn
				is = true
				p.signal(syscall.SIGSTOP)
				close(done)
			}
			return true, nil
		})
		f.await(p, done)
		going[f] = f.going(p)
		victims = append(victims, p)
	}
	began := time.Now()
	for _, f := range fleets {
		f.eventually("the others go on", func() bool {
			for other, on := range going {
				if on() {
					took = append(took, time.Since(began))
					delete(going, other)
				}
			}
			return going[f] == nil
		})
	}
	for i, f := range fleets {
		p := victims[i]
		f.start(p.slot, true) // which looks for dead writers
		p.signal(syscall.SIGCONT)
		f.eventually("the process that was stopped ends", func() bool { return !p.running() })
		assert.True(f, strings.Contains(p.sealed, "another writer has found this one dead"), "%q", p.sealed)
		f.gone(p)
		f.goOn()
	}
	return took
}
