package letgo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// From the condense entry on what it covers is not known: as a cause of a call, live and after a
// restart, before anything went and after.
func TestAfterNamesNothingThatWent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	w.mustCall("chat", "web", `{"q":1}`)
	cause := w.mustCall("chat", "notes", `{"q":0}`)
	w.fill("chat", 600)
	w.close("chat")
	kept := w.mustCall("kept", "notes", `{"q":0}`, cause.Ref())
	ask := func(ref contracts.Ref) (contracts.ReasonCode, []contracts.Digest) {
		d, r := w.call(helm.Intent{Tool: "tell", Args: json.RawMessage(`{}`), Session: "new", Caller: kim,
			After: []contracts.Ref{ref}})
		return d.Reason, statement(t, r.Entry).Parents
	}
	reason, _ := ask(kept.Ref())
	assert.Equal(t, contracts.ReasonPolicyViolation, reason, "the session is tainted by what its cause read")
	w.later(25 * time.Hour)
	w.condense()
	for _, then := range []func(){func() {}, func() { w.drop() }, func() { require.NoError(t, w.kernel.Close()); w.open() }} {
		then()
		reason, parents := ask(cause.Ref())
		assert.Equal(t, contracts.ReasonIntentMalformed, reason)
		assert.Empty(t, parents)
		reason, parents = ask(kept.Ref())
		assert.Equal(t, contracts.ReasonPolicyViolation, reason, "what stays brings what it brought")
		assert.Equal(t, []contracts.Digest{kept.Ref().Hash}, parents)
	}
	w.verify()
}

// A call judged before a condense entry and placed after it names nothing of its set: it waits for
// the clock when the condense entry is written, and has looked its causes up before.
func TestJudgedBeforePlacedAfter(t *testing.T) {
	t.Parallel()
	var waits atomic.Bool
	asked, goOn := make(chan bool), make(chan bool)
	w := newWorld(t, proofgraph.NewMemory())
	now := w.options.Now
	w.options.Now = func() time.Time {
		if waits.CompareAndSwap(true, false) {
			asked <- true
			<-goOn
		}
		return now()
	}
	require.NoError(t, w.kernel.Close())
	w.open()
	cause := w.mustCall("chat", "web", `{"q":1}`) // it taints
	w.fill("chat", 600)
	w.close("chat")
	w.later(25 * time.Hour)
	for _, ref := range []contracts.Ref{cause.Ref(), w.mustCall("kept", "web", `{"q":1}`).Ref()} {
		waits.Store(true)
		done := make(chan helm.Receipt)
		var d helm.Decision
		go func() {
			var r helm.Receipt
			d, r = w.kernel.Guard(context.Background(), helm.Intent{Tool: "tell", Args: json.RawMessage(`{}`),
				Session: "new", Caller: kim, After: []contracts.Ref{ref}})
			done <- r
		}()
		<-asked
		c := w.condense()
		goOn <- true
		r := <-done
		st := statement(t, r.Entry)
		if c.Members > 0 {
			require.Len(t, c.Entries, 1)
			require.Greater(t, r.Index, c.Entries[0].Index)
			assert.Equal(t, contracts.ReasonIntentMalformed, d.Reason)
			assert.Empty(t, st.Parents)
		} else {
			assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason)
			assert.Equal(t, []contracts.Digest{ref.Hash}, st.Parents)
		}
	}
	w.drop()
	w.verify()
}

// Calls name one another all the time while the log is condensed and let go of, read again and
// verified: nothing names what went, nothing that is tainted by its causes is allowed, and the log
// verifies.
func TestRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	var refs sync.Map // of receipts, by number
	var count, denied, most atomic.Int64
	note := func(r helm.Receipt) { refs.Store(count.Add(1)-1, r.Ref()) }
	ctx := context.Background()
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if count.Load() > most.Load() {
					time.Sleep(time.Millisecond)
					i--
					continue
				}
				session := fmt.Sprintf("chat-%d-%d", g, i/100)
				in := helm.Intent{Tool: []string{"web", "notes", "tell"}[r.IntN(3)], Args: json.RawMessage(`{"q":0}`),
					Session: session, Caller: kim}
				if in.Tool == "tell" {
					in.Args = json.RawMessage(`{}`)
				}
				if n := count.Load(); n > 0 && r.IntN(2) == 0 {
					if ref, ok := refs.Load(r.Int64N(n)); ok {
						in.After = []contracts.Ref{ref.(contracts.Ref)}
					}
				}
				d, receipt := w.kernel.Guard(ctx, in)
				if d.Err() == nil {
					note(receipt)
				} else if d.Reason == contracts.ReasonIntentMalformed {
					denied.Add(1)
				}
				if i%100 == 99 {
					assert.NoError(t, w.kernel.CloseSession(ctx, session))
				}
			}
		}()
	}
	members, rounds := uint64(0), 4
	if race.Enabled {
		rounds = 2
	}
	for range rounds {
		most.Add(1600) // half of them while the log is condensed
		for count.Load() < most.Load()-800 {
			time.Sleep(time.Millisecond)
		}
		w.later(25 * time.Hour)
		members += w.condense().Members
		w.drop()
	}
	close(stop)
	wait.Wait()
	assert.Greater(t, members, uint64(1024))
	assert.Positive(t, denied.Load())
	w.verify() // names what went: GRAPH; allowed though tainted: REPLAY
	require.NoError(t, w.kernel.Close())
	w.open()
	w.verify()
}
