//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
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
	unfenced   = "a fenced process goes on"
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
	for _, x := range []struct {
		what, finds string
		fault       func(f *fleet, random *rand.Rand)
	}{
		{ranEarly, "has no ALLOW in the log", func(f *fleet, random *rand.Rand) {
			pause(random, 20)
			f.slots[0].kill()
		}},
		{ranTwice, "ran twice", func(f *fleet, random *rand.Rand) { f.slots[0].kill() }},
		{lostCommit, "in the log", func(f *fleet, random *rand.Rand) {
			pause(random, 20)
			require.NoError(f, f.server.Stop(true))
			require.NoError(f, f.server.Start())
		}},
		{unfenced, "and was fenced when the log had", func(f *fleet, random *rand.Rand) {
			f.unfence()
			p := f.stopAndCut(random)
			f.start(p.slot, true)
			p.signal(syscall.SIGCONT)
			pause(random, 2000) // a busy machine takes long to connect again
			p.kill()
			f.check()
			f.fenced()
		}},
	} {
		t.Run(x.what, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			if x.what == lostCommit {
				s = ownServer(t)
			}
			f := newFleet(t, s, *seed)
			f.sabotage = x.what
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
			assert.Contains(t, strings.Join(f.found, "\n"), x.finds)
		})
	}
}

// rewrites change what processes send.
var rewrites = map[string]func([]byte){
	lostCommit: replace("SET synchronous_commit = on", "SET synchronous_commit =off"),
	unfenced:   replace("AND NOT fenced", "AND id > 0    "),
}

// replace returns a function that replaces a part of a message by one of the same length.
func replace(old, by string) func([]byte) {
	return func(message []byte) {
		for at := 0; ; {
			i := bytes.Index(message[at:], []byte(old))
			if i < 0 {
				return
			}
			at += i + copy(message[at+i:], by)
		}
	}
}

// unfence has the functions of the log write what a fenced writer has.
func (f *fleet) unfence() {
	f.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, f.server.URL(f.database))
	require.NoError(f, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `DO $$ DECLARE f text; BEGIN
		FOR f IN SELECT replace(pg_get_functiondef(oid), 'AND NOT fenced', '') FROM pg_proc
			WHERE pronamespace = 'helm'::regnamespace AND proname IN ('put', 'write')
		LOOP EXECUTE f; END LOOP; END $$`)
	require.NoError(f, err)
}
