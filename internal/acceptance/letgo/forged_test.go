package letgo

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// forgeries are stubs of one entry, which all have its hash, so that the log has the same root with
// them. Only the first one is true, and it is of no set either.
func forgeries(t testing.TB, e contracts.Entry, decision uint64) map[string]contracts.Entry {
	t.Helper()
	all := map[string]contracts.Entry{}
	for name, forge := range map[string]func(s *contracts.Stub){
		"true":            func(*contracts.Stub) {},
		"another session": func(s *contracts.Stub) { s.Session = "calm" },
		"a lower lamport": func(s *contracts.Stub) { s.Lamport-- },
		"another outcome": func(s *contracts.Stub) { s.Receipt.Outcome, s.Receipt.FactsHash = contracts.Failed, nil },
		"another call":    func(s *contracts.Stub) { s.Receipt.Decision -= 2 },
	} {
		s := contracts.NewStub(statement(t, e), e.Hash(), decision)
		forge(s)
		all[name] = s.Append(nil)
	}
	return all
}

// put puts a line in the place of another one, as someone does who can write in the store.
func (f *fork) put(index uint64, line contracts.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[index] = line
}

// asks is a call that is denied if its session is tainted.
func (w *world) asks(session string, after ...contracts.Ref) contracts.ReasonCode {
	w.Helper()
	d, _ := w.call(helm.Intent{Tool: "tell", Args: json.RawMessage(`{}`), Session: session, Caller: kim, After: after})
	return d.Reason
}

// A causal is a log with an entry below a state, of a tainted session, which a call after the state
// names: a permitted one, or only a refused one.
type causal struct {
	*world
	cause contracts.Ref
	saved []byte // the state
}

func newCausal(t testing.TB, refused bool) *causal {
	t.Helper()
	c := &causal{world: newWorld(t, proofgraph.NewMemory())}
	c.mustCall("calm", "notes", `{"q":5}`)
	c.cause = c.mustCall("chat", "web", `{"q":5}`).Ref()
	late := c.mustCall("calm", "notes", `{"q":10}`).Ref()
	c.saved = c.stateAt(c.store, len(lines(t, c.store)), nil)
	if refused {
		_, r := c.call(helm.Intent{Tool: "never", Args: json.RawMessage(`{}`), Session: "odd", Caller: kim,
			After: []contracts.Ref{c.cause, late}})
		require.NotNil(t, r.Record.Decision, "a denial")
	} else {
		c.mustCall("new", "notes", `{"q":5}`, c.cause, late) // "new" is tainted from now on
	}
	_, err := c.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	return c
}

// A stub below the state, in the place of an entry that a later one names, is not believed: it is
// of no set. So New reads the whole log, and does not open it.
func TestStubBelowAState(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		c := newCausal(t, refused)
		for name, line := range forgeries(t, lines(t, c.store)[c.cause.Index], c.cause.Index-1) {
			bad := &keeping{fork: newFork(t, c.store), state: c.saved}
			x, events := c.quiet(bad)
			require.Empty(t, events(), "or the refusals below would prove nothing")
			if !refused {
				require.Equal(t, contracts.ReasonPolicyViolation, x.asks("new"), name)
			}
			require.NoError(t, x.kernel.Close())
			bad = &keeping{fork: newFork(t, c.store), state: c.saved}
			bad.put(c.cause.Index, line)
			for _, store := range []proofgraph.Store{bad, hashed{bad}} {
				var told []helm.Event
				o := c.options
				o.Store, o.Observe = store, func(_ context.Context, e helm.Event) { told = append(told, e) }
				_, err := helm.New(o)
				require.Error(t, err, "%s, refused %t", name, refused)
				require.Len(t, told, 1, name)
				assert.ErrorContains(t, told[0].Err, "no condense entry covers", name)
				require.Equal(t, string(c.saved), string(bad.state), name)
				o.Store = struct{ proofgraph.Store }{store}
				_, whole := helm.New(o)
				require.EqualError(t, whole, err.Error(), name)
			}
		}
	}
}

// Nor is it by a kernel that runs, however the log came to know the entry: by a call that was open
// in the state, by an entry after it, or by a question since. What is put back is believed again,
// and nothing false was signed.
func TestStubBelowAStateOfARunningKernel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	w.mustCall("calm", "notes", `{"q":5}`)
	in := helm.Intent{Tool: "web", Args: json.RawMessage(`{"q":5}`), Session: "chat", Idempotency: "k", Caller: kim}
	_, r := w.call(in)
	asked := r.Ref()
	named := w.mustCall("chat", "web", `{"q":10}`).Ref()
	last := w.mustCall("chat", "web", `{"q":15}`)
	open := contracts.Ref{Index: last.Index - 1, Hash: last.Record.DecisionHash}
	saved := w.stateAt(w.store, int(last.Index), nil) // the last call has no receipt in it
	w.mustCall("late", "notes", `{"q":5}`, named)
	all := lines(t, w.store)
	for what, cause := range map[string]contracts.Ref{"open": open, "named": named, "asked for": asked} {
		stubs := map[string]contracts.Entry{}
		if what != "open" {
			stubs = forgeries(t, all[cause.Index], cause.Index-1)
		} else {
			for name, session := range map[string]string{"true": "chat", "another session": "calm"} {
				s := contracts.NewStub(statement(t, all[cause.Index]), cause.Hash, 1)
				s.Session = session
				stubs[name] = s.Append(nil)
			}
		}
		require.NotEmpty(t, stubs)
		for name, line := range stubs {
			store := &keeping{fork: newFork(t, w.store), state: saved}
			x, events := w.quiet(store)
			if what == "asked for" {
				_, again := x.call(in)
				require.Equal(t, asked, again.Ref(), "a repeat")
			}
			store.put(cause.Index, line)
			assert.Equal(t, contracts.ReasonIntentMalformed, x.asks("new", cause), "%s, %s", what, name)
			store.put(cause.Index, all[cause.Index])
			assert.Equal(t, contracts.ReasonPolicyViolation, x.asks("new", cause), "%s, %s", what, name)
			require.Empty(t, events())
			x.verify()

			// No state is made over it.
			require.NoError(t, x.kernel.Close())
			require.NotEqual(t, string(saved), string(store.state))
			store.state = saved
			x, events = w.quiet(store)
			x.asks("more", named)
			store.put(cause.Index, line)
			had := store.saves
			require.NoError(t, x.kernel.Close())
			require.Len(t, events(), 1, "%s, %s", what, name)
			require.Equal(t, had, store.saves, "%s, %s", what, name)
			require.True(t, bytes.Equal(saved, store.state))
		}
	}
}

// A condense entry is signed over the log's own entries, whatever is in the store by now: a stub
// that no set covers, or an entry in the place of another, below a state or since New. With the
// entries back it is written, and the pack verifies.
func TestCondenseOverForgedLines(t *testing.T) {
	t.Parallel()
	w := old(t, 520)
	w.fill("late", 10)
	size := len(lines(t, w.store))
	saved := w.stateAt(w.store, size, nil)
	before := w.stateAt(w.store, size/2, nil)
	all := lines(t, w.store)
	at := uint64(size - 9)
	require.NotNil(t, statement(t, all[at]).Receipt)
	for name, forge := range map[string]func(f *fork){
		"a true stub": func(f *fork) { f.put(at, forgeries(t, all[at], at-1)["true"]) },
		"a stub of another outcome": func(f *fork) {
			f.put(11, forgeries(t, all[11], 10)["another outcome"])
		},
		"the entries of two calls": func(f *fork) {
			for i := range uint64(2) {
				f.put(10+i, all[14+i])
				f.put(14+i, all[10+i])
			}
		},
		"an entry of the last block": func(f *fork) { f.put(at, all[at-2]) },
	} {
		for what, from := range map[string][]byte{"whole": nil, "state": saved, "an older state": before} {
			store := &keeping{fork: newFork(t, w.store), state: from}
			x, events := w.quiet(store)
			x.mustCall("since", "notes", `{"q":5}`)
			now := lines(t, store)
			forge(store.fork)
			_, err := x.kernel.Condense(context.Background(), time.Time{})
			require.Error(t, err, "%s, %s", name, what)
			require.Len(t, lines(t, store), len(now), "%s, %s", name, what)
			require.NoError(t, x.kernel.Err())
			store.all = now
			require.NotZero(t, x.condense().Members, "%s, %s: it was read again", name, what)
			x.verify()
			require.NoError(t, x.kernel.Close())
			require.Empty(t, events())
		}
	}

	// So it is of what was appended since, for the rest of the process.
	store := &keeping{fork: newFork(t, w.store), state: saved}
	x, _ := w.quiet(store)
	last := x.mustCall("since", "notes", `{"q":5}`)
	store.put(last.Index, all[at])
	_, err := x.kernel.Condense(context.Background(), time.Time{})
	require.ErrorContains(t, err, "other entries than the log")
	store.put(last.Index, last.Entry)
	_, err = x.kernel.Condense(context.Background(), time.Time{})
	require.ErrorContains(t, err, "other entries than the log")
	require.NoError(t, x.kernel.Close())
	x, _ = w.quiet(store)
	require.NotZero(t, x.condense().Members)
}

// The members of a set are where the log has them: to exchange two calls below the state, of which
// one is in a set after it, leaves nothing to be named that is forgotten.
func TestSetBelowAState(t *testing.T) {
	t.Parallel()
	w := old(t, 520)
	w.mustCall("open", "notes", `{"q":5}`)
	size := len(lines(t, w.store))
	saved := w.stateAt(w.store, size, nil)
	w.condense()
	all := lines(t, w.store)
	condensed := w.stateAt(w.store, len(all), nil) // the set stands whole in it
	dropped := newFork(t, w.store)
	o := w.over(dropped)
	o.drop()
	require.NoError(t, o.kernel.Close())
	_, events := w.quiet(&keeping{fork: newFork(t, dropped), state: condensed})
	require.Empty(t, events(), "or the refusals below would prove nothing")
	for name, forge := range map[string]func(f *fork){
		"the calls of two sessions": func(f *fork) {
			for i := range uint64(2) {
				a, b := 10+i, uint64(size)-2+i
				f.all[a], f.all[b] = f.all[b], f.all[a]
			}
		},
		"a stub of another outcome": func(f *fork) { f.put(11, forgeries(t, all[11], 10)["another outcome"]) },
		"a stub of another session": func(f *fork) { f.put(11, forgeries(t, all[11], 10)["another session"]) },
	} {
		for _, base := range []proofgraph.Store{w.store, dropped} {
			for _, from := range [][]byte{nil, saved, condensed} {
				if bytes.Equal(from, condensed) && !contracts.IsStub(lines(t, base)[11]) ||
					bytes.Equal(from, condensed) && name == "the calls of two sessions" {
					continue // a member stands whole, and nobody asks for more
				}
				bad := &keeping{fork: newFork(t, base), state: from}
				forge(bad.fork)
				o := w.options
				o.Store = bad
				_, err := helm.New(o)
				require.Error(t, err, name)
			}
		}
	}
}
