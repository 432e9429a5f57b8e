//go:build unix

package acceptance

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// A step is a place at which a process can be killed: before or after a message is sent on, of its
// own or of the server. An answer that is not sent on is one of a statement that was made.
type step struct {
	label string
	front bool
	after bool
	place int // among those of the label and the side
}

func (s step) String() string {
	side, when := "answer", "before"
	if s.front {
		side = "statement"
	}
	if s.after {
		when = "after"
	}
	return fmt.Sprintf("%s the %s %s", when, side, s.label)
}

// kill returns a hook that kills a process at a step.
func (s step) kill(done chan struct{}) func(*process) hook {
	return func(p *process) hook {
		seen, made := 0, false
		return func(m *message) (bool, func()) {
			if made {
				return s.after, nil // nothing of a process that is not there, but what it has sent
			}
			if m.label != s.label || m.front != s.front {
				return true, nil
			}
			if seen++; seen <= s.place {
				return true, nil
			}
			made = true
			kill := func() {
				close(done)
				p.kill()
			}
			if s.after {
				return true, kill
			}
			kill()
			return false, nil
		}
	}
}

// script is what a process does, one after the other: guesses, turns, and all else that a writer
// can do. Before a turn another process moves what it guesses by. At "lose" it loses its
// connection, and the server does not know.
var script = []string{
	"read S 1", "write S 2", "write S 3", "never S 4", "scarce S 5", "pay S 1", "write S 7 K", "write S 7 K",
	"other write main 2", "write main 4", "other scarce O 1", "scarce S 1", "other read S 1", "read S 2", "checkpoint",
	"lose", "read S 8", "lose", "write main 3", "message S", "checkpoint", "close S",
}

// play has a process go through the script, until it is killed.
func (f *fleet) play(arm func(*process) hook) {
	f.Helper()
	p := f.start(0, false, arm)
	name := strings.NewReplacer("S", fmt.Sprint("s", p.number), "K", "key", "O", fmt.Sprint("o", p.number))
	for _, line := range script {
		other, isOther := strings.CutPrefix(line, "other ")
		switch {
		case !p.running():
			return
		case isOther:
			require.True(f, f.slots[1].tell(name.Replace(other)))
		case line == "lose":
			p.proxy.lose()
		default:
			p.tell(name.Replace(line))
		}
	}
	io.WriteString(p.in, "stop\n")
	select {
	case <-p.ended:
	case <-time.After(patience):
		f.Fatalf("seed %d: process %d does not stop", f.seed, p.number)
	}
}

// steps are those of a run of the script in which nobody is killed.
func steps(f *fleet) (list []step) {
	f.Helper()
	seen := map[step]int{}
	f.play(func(*process) hook {
		return func(m *message) (bool, func()) {
			s := step{label: m.label, front: m.front}
			s.place = seen[s]
			seen[step{label: m.label, front: m.front}]++
			list = append(list, s)
			s.after = true
			list = append(list, s)
			return true, nil
		}
	})
	f.gone(f.slots[0])
	return list
}

// A process is killed at every step of a script, and another one begins.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	s := server(t)
	random := rand.New(rand.NewPCG(*seed, 0))
	f := scripted(t, s, *seed)
	all := steps(f)
	var found []string
	for _, x := range all {
		if !slices.Contains(found, x.label) {
			found = append(found, x.label)
		}
	}
	for _, label := range append([]string{"connect", "settings", "prepare", "join", "dead", "checkpoint", "lock", "terminate",
		"lock again", "raise", "leave", "rollback"}, writes...) {
		require.Contains(t, found, label, "a step that no process comes to")
	}

	// In any order, but each label of each side comes before one comes again.
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	rank, seen := map[step]int{}, map[step]int{}
	for _, x := range all {
		kind := x
		kind.place = 0
		rank[x] = seen[kind]
		seen[kind]++
	}
	slices.SortStableFunc(all, func(a, b step) int { return rank[a] - rank[b] })

	n := min(len(all), faults(15))
	at, missed := map[string]int{}, 0
	var sum totals
	began := time.Now()
	for i, x := range all[:n] {
		if late(t) {
			n = i
			break
		}
		if f.started > maxProcesses-10 {
			f.end()
			sum.add(f)
			f = scripted(t, s, *seed+uint64(i))
		}
		done := make(chan struct{})
		f.play(x.kill(done))
		select {
		case <-done:
			at[x.String()]++
		default:
			missed++ // how many appends and readers' connections there are is not always the same
		}
		f.gone(f.slots[0])
		f.check()
		if t.Failed() {
			t.Fatalf("seed %d: killed %v, %d of its kind", *seed, x, x.place)
		}
	}
	f.end()
	sum.add(f)
	t.Logf("%d of %d steps, %d not come to, seed %d, in %v: %v", n, len(all), missed, *seed,
		time.Since(began).Round(time.Second), &sum)
	for _, name := range slices.Sorted(maps.Keys(at)) {
		t.Logf("%4d %s", at[name], name)
	}
	require.LessOrEqual(t, missed, n/10+4) // four: a few steps are one of each kind, the rare ones too
}

// A process is killed at a step, under the load of others.
func TestKilledInStep(t *testing.T) {
	t.Parallel()
	at := map[string]int{}
	made := 0
	soak(t, server(t), faults(4), func(f *fleet, random *rand.Rand) {
		slot := random.IntN(slots)
		x := step{label: writes[made%len(writes)], front: random.IntN(2) == 0, after: random.IntN(2) == 0, place: random.IntN(5)}
		made++
		done := make(chan struct{})
		p := f.slots[slot]
		p.proxy.on(x.kill(done)(p))
		f.await(p, done)
		at[x.String()]++
	})
	for _, name := range slices.Sorted(maps.Keys(at)) {
		t.Logf("%4d %s", at[name], name)
	}
}

// scripted makes a fleet of which the second process moves what the first one guesses by.
func scripted(t *testing.T, s *pgtest.Server, seed uint64) *fleet {
	t.Helper()
	f := newFleet(t, s, seed)
	f.slots = make([]*process, 2)
	f.start(1, false)
	return f
}
