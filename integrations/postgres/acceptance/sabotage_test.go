//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/proofgraph"
)

// What a fleet does wrong on purpose, and these tests have to find.
const (
	ranEarly   = "tools run before their permission is durable"
	lostCommit = "the server does not wait for the disk"
	ranTwice   = "tools run again after the receipt"
)

// early has the effects of calls before their decisions are written.
type early struct {
	*postgres.Store
	child *child
}

func (s early) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := s.Store.Join(ctx, origin)
	return earlyWriter{w, s.child}, err
}

type earlyWriter struct {
	proofgraph.Writer
	child *child
}

func (w earlyWriter) run(c *proofgraph.Change) {
	for _, i := range c.Opened {
		note(w.child.runs, c.Entries[i].Hash(), w.child.Process)
	}
}

func (w earlyWriter) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
	w.run(&c)
	return w.Writer.Put(ctx, guess, c)
}

func (w earlyWriter) End(ctx context.Context, c proofgraph.Change) error {
	w.run(&c)
	return w.Writer.End(ctx, c)
}

// What the other tests say is nothing if they would not find this.
func TestSabotageIsFound(t *testing.T) {
	t.Parallel()
	for what, x := range map[string]struct {
		finds string
		fault func(f *fleet, random *rand.Rand)
	}{
		ranEarly: {"has no ALLOW in the log", func(f *fleet, random *rand.Rand) {
			pause(random, 20)
			f.slots[0].kill()
		}},
		ranTwice: {"ran twice", func(f *fleet, random *rand.Rand) { f.slots[0].kill() }},
		lostCommit: {"receipt that is not in the log", func(f *fleet, random *rand.Rand) {
			pause(random, 20)
			require.NoError(f, f.server.Stop(true))
			require.NoError(f, f.server.Start())
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, ownServer(t), *seed)
			f.sabotage = what
			random := rand.New(rand.NewPCG(*seed, 0))
			for slot := range slots {
				f.start(slot, true)
			}
			f.goOn()
			for n := 0; len(f.found) == 0 && n < 30; n++ {
				x.fault(f, random)
				f.goOn()
			}
			require.NotEmpty(t, f.found, "not found")
			assert.True(t, strings.Contains(strings.Join(f.found, "\n"), x.finds), "%q", f.found)
		})
	}
}

// asleep makes the statement of a connection that has the server wait for the disk one that does
// not, of the same length.
func asleep(message []byte) {
	const waits, doesNot = "SET synchronous_commit = on", "SET synchronous_commit =off"
	if i := bytes.Index(message, []byte(waits)); i >= 0 {
		copy(message[i:], doesNot)
	}
}
