//go:build unix

package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process is stopped in its turn, while it has the log: between two statements, or within one.
// The server or another process takes the log from it, one that begins fences it, and then it goes
// on: its kernel is sealed, and nothing of it stands after its fence.
func TestStoppedInTurn(t *testing.T) {
	t.Parallel()
	const most, rounds = 4, 4 // logs at a time, since it is mostly a wait, and processes of each
	s := server(t)
	var sum totals
	var between, within waits
	n, made, began := faults(2), 0, time.Now()
	for made < n && !t.Failed() && !late(t) {
		var fleets []*fleet
		for i := range min(most, n-made) {
			f := newFleet(t, s, *seed+uint64(made+i))
			for slot := range slots {
				f.start(slot, true)
			}
			fleets = append(fleets, f)
		}
		for range rounds {
			if made >= n || t.Failed() || late(t) {
				break
			}
			fleets := fleets[:min(len(fleets), n-made)]
			stopped(fleets, &between, &within)
			made += len(fleets)
		}
		for _, f := range fleets {
			f.end()
			f.store.Close()
			sum.add(f)
		}
	}
	t.Logf("%d processes of %d stopped in a turn, seed %d, in %v; %v", made, n, *seed, time.Since(began).Round(time.Second), &sum)
	t.Logf("between statements (idle_in_transaction_session_timeout 5 s): the others went on after %v", &between)
	t.Logf("within a statement (lock_timeout 10 s): the others went on after %v", &within)
}

// waits are how long others waited for the log.
type waits struct {
	n        int
	sum, top time.Duration
}

func (w *waits) add(d time.Duration) { w.n, w.sum, w.top = w.n+1, w.sum+d, max(w.top, d) }

func (w *waits) String() string {
	return fmt.Sprintf("%v on average, %v at most, %d times", (w.sum / time.Duration(max(w.n, 1))).Round(time.Millisecond),
		w.top.Round(time.Millisecond), w.n)
}

// stopped stops a process of each fleet, of every other one within a statement.
func stopped(fleets []*fleet, between, within *waits) {
	var victims []*process
	going := map[*fleet]func() bool{}
	took := map[*fleet]*waits{}
	for i, f := range fleets {
		f.goOn()
		p := f.slots[rand.New(rand.NewPCG(f.seed, uint64(f.started))).IntN(slots)]
		done := make(chan struct{})
		if took[f] = between; i%2 == 1 {
			took[f] = within
		}
		p.proxy.on(stopInTurn(p, i%2 == 1, done))
		f.await(p, done)
		going[f] = f.going(p)
		victims = append(victims, p)
	}
	began := time.Now()
	for _, f := range fleets {
		f.eventually("the others go on", func() bool {
			for other, on := range going {
				if on() {
					took[other].add(time.Since(began))
					delete(going, other)
				}
			}
			return going[f] == nil
		})
	}
	for i, f := range fleets {
		f.continued(victims[i])
		f.goOn()
	}
}

// stopInTurn returns a hook that stops a process in a turn.
func stopInTurn(p *process, within bool, done chan struct{}) hook {
	var of *line
	stop := func(m *message) {
		of = m.line
		p.signal(syscall.SIGSTOP)
		close(done)
	}
	return func(m *message) (bool, func()) {
		switch {
		case of != nil: // the rest of the statement stays with the process
			return m.line != of || !m.front, nil
		case !within && m.readied('T') && m.line.writes:
			stop(m)
		case within && m.front && m.label == "write" && m.kind == 'E':
			stop(m)
			return false, nil
		}
		return true, nil
	}
}

// continued has a process that was stopped go on after another one has found it dead.
func (f *fleet) continued(p *process) {
	f.Helper()
	f.start(p.slot, true) // which looks for dead writers
	p.signal(syscall.SIGCONT)
	f.eventually("the process that was stopped ends", func() bool { return !p.running() })
	assert.True(f, strings.Contains(p.sealed, "another writer has found this one dead"), "%q", p.sealed)
	f.gone(p)
}

// A process is stopped anywhere, and its connections end. It is fenced, and goes on.
func TestFenced(t *testing.T) {
	t.Parallel()
	soak(t, server(t), faults(3), func(f *fleet, random *rand.Rand) {
		p := f.stopAndCut(random)
		f.continued(p)
	})
}

// stopAndCut stops a process, and has the server end its connections.
func (f *fleet) stopAndCut(random *rand.Rand) *process {
	f.Helper()
	pause(random, 30)
	p := f.slots[random.IntN(slots)]
	p.signal(syscall.SIGSTOP)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, f.server.URL(f.database))
	require.NoError(f, err)
	defer conn.Close(ctx)
	f.eventually("the server ends what has lost its client", func() bool {
		p.proxy.cut() // also what it had just begun
		var n int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`,
			fmt.Sprint("process ", p.number)).Scan(&n)
		return err == nil && n == 0
	})
	return p
}
