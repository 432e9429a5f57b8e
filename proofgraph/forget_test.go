package proofgraph

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// allowed makes a decision durable.
func (w *world) allowed(session string, parents ...contracts.Digest) *Slot {
	w.Helper()
	s := w.place(w.log.Chain(session), parents...)
	require.NoError(w, sign(s, &contracts.Statement{Decision: allow(Place{s}.Header())}))
	require.NoError(w, s.Wait())
	return s
}

// received makes the receipt of a decision durable.
func (w *world) received(session string, decision *Slot, parents ...contracts.Digest) *Slot {
	w.Helper()
	s := w.place(w.log.Chain(session), append(parents, decision.Hash())...)
	r := record()
	r.DecisionHash = decision.Hash()
	require.NoError(w, sign(s, &contracts.Statement{Receipt: r}))
	require.NoError(w, s.Wait())
	return s
}

// condensed makes a condense entry with that set durable. The log does not look at its fields.
func (w *world) condensed(set ...uint64) *Slot {
	w.Helper()
	c := w.log.Chain(contracts.SessionKernel)
	s, err := w.log.Place(Draft{Chain: c, Time: max(c.Time(), w.options.Now), Forget: slices.Values(set),
		Write: says(&contracts.Statement{Condense: &contracts.Condense{Dropped: max(uint64(len(set)), 1), To: 1, Size: 1}})})
	require.NoError(w, err)
	require.NoError(w, s.Wait())
	return s
}

// stub returns the stub of a decision, or of a receipt of it.
func (w *world) stub(s *Slot, names uint64) *contracts.Stub {
	w.Helper()
	var r contracts.Reader
	sealed, err := r.Open(s.Entry())
	require.NoError(w, err)
	st, err := sealed.Statement()
	require.NoError(w, err)
	return contracts.NewStub(st, s.Hash(), names)
}

// letGo puts stubs in the place of entries.
func (w *world) letGo(stubs map[uint64]*contracts.Stub) {
	w.Helper()
	require.NoError(w, w.memory.Condense(context.Background(), func(yield func(uint64, []byte) bool) {
		for _, i := range slices.Sorted(maps.Keys(stubs)) {
			if !yield(i, stubs[i].Append(nil)) {
				return
			}
		}
	}, func(func(contracts.Digest) bool) {}))
}

// What a set has is found no more, and is no parent, from the condense entry on.
func TestPlaceForgets(t *testing.T) {
	t.Parallel()
	w := opened(t)
	d := w.allowed("a")
	r := w.received("a", d)
	kept := w.allowed("b")
	w.say("b", d.Hash())
	w.condensed(d.Index(), r.Index())
	for _, s := range []*Slot{d, r} {
		_, ok := w.log.Lookup(s.Hash())
		assert.False(t, ok, "entry %d is found", s.Index())
		_, err := w.log.Place(Draft{Chain: w.log.Chain("b"), Time: w.options.Now,
			Parents: []contracts.Digest{kept.Hash(), s.Hash()}, Write: says(message())})
		assert.ErrorIs(t, err, ErrUnknownParent)
	}
	at, ok := w.log.Lookup(kept.Hash())
	assert.True(t, ok && at == kept.Index())
	w.say("b", kept.Hash())
	w.say("a")
	w.reread()
}

// A caller that looked its parents up before a condense entry, and is placed after it, names
// nothing of its set, nor does one whose parents stay notice anything.
func TestPlaceLooksParentsUpAgain(t *testing.T) {
	t.Parallel()
	w := opened(t)
	d, kept := w.allowed("a"), w.allowed("b")
	l := w.log
	var errs [2]error
	for i, p := range []*Slot{d, kept} {
		l.mu.Lock() // the place is taken with it, after the parents were looked up
		done := make(chan struct{})
		c := l.Chain([]string{"c", "d"}[i])
		go func() {
			defer close(done)
			_, errs[i] = l.Place(Draft{Chain: c, Time: w.options.Now, Parents: []contracts.Digest{p.Hash()},
				Write: says(message())})
		}()
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, l.forget(slices.Values([]uint64{d.Index()}), 100))
		l.forgotten.Add(1)
		l.mu.Unlock()
		<-done
	}
	assert.ErrorIs(t, errs[0], ErrUnknownParent)
	assert.NoError(t, errs[1])
}

// Calls in many sessions name one another while condense entries are written: after each, nothing
// names its set.
func TestCondenseRacesWithPlaces(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.options.Now = 5000
	var slots []*Slot
	for range 300 {
		slots = append(slots, w.allowed("old"))
	}
	stop, done := make(chan struct{}), make(chan bool)
	var named atomic.Int64
	for g := range 8 {
		go func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			defer func() { done <- true }()
			c := w.log.Chain(string(rune('a' + g)))
			for ended := false; !ended; {
				select {
				case <-stop:
					ended = true
				default:
				}
				p := slots[r.IntN(len(slots))].Hash()
				s, err := w.log.Place(Draft{Chain: c, Time: w.options.Now, Parents: []contracts.Digest{p},
					Write: says(message())})
				if errors.Is(err, ErrUnknownParent) {
					continue
				}
				if err == nil {
					named.Add(1)
					err = s.Wait()
				}
				assert.NoError(t, err)
			}
		}()
	}
	sets := map[uint64][]uint64{} // by the index of the condense entry
	for i := 0; i < 300; i += 30 {
		for before := named.Load(); named.Load() < before+20; {
			runtime.Gosched()
		}
		var set []uint64
		for _, s := range slots[i : i+30] {
			set = append(set, s.Index())
		}
		sets[w.condensed(set...).Index()] = set
	}
	close(stop)
	for range 8 {
		<-done
	}
	gone := map[string]bool{}
	list := w.reread()
	for i, f := range list {
		for _, p := range f.Predicate.Parents {
			assert.False(t, gone[p], "entry %d names what is gone", i)
		}
		for _, m := range sets[uint64(i)] {
			gone[list[m].hash.String()] = true
		}
	}
	assert.Len(t, gone, 300)
}

// A set that is none of entries before seals the log: it may have forgotten some.
func TestPlaceForgetsNothingElse(t *testing.T) {
	t.Parallel()
	for name, set := range map[string][]uint64{
		"not ascending": {2, 1}, "one twice": {1, 1}, "not durable": {3}, "far away": {1 << 40},
	} {
		w := opened(t)
		w.say("a")
		w.say("a")
		c := w.log.Chain(contracts.SessionKernel)
		_, err := w.log.Place(Draft{Chain: c, Time: 1000, Forget: slices.Values(set), Write: says(message())})
		assert.Error(t, err, name)
		assert.ErrorIs(t, w.log.Err(), ErrSealed, name)
	}
	w := opened(t)
	_, err := w.log.Place(Draft{Chain: w.log.Chain(contracts.SessionKernel), Time: 1, Forget: slices.Values([]uint64{0}),
		Write: says(message())})
	assert.Error(t, err, "time runs back")
	assert.NoError(t, w.log.Err(), "nothing was forgotten")
}

func TestClosed(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	s := w.place(w.log.Chain("b"))
	require.NoError(t, sign(s, &contracts.Statement{Close: &contracts.Close{Last: w.log.genesis}}))
	require.NoError(t, s.Wait())
	w.say("a")
	for range 2 {
		for name, closed := range map[string]bool{"a": false, "b": true, "never": false} {
			assert.Equal(t, closed, w.log.Closed(name, 100), name)
			assert.False(t, w.log.Closed(name, s.Index()), name)
			assert.Equal(t, closed, w.log.Closed(name, s.Index()+1), name)
		}
		w.open()
	}
}

// sessions is the state of all chains of a log, its root and its size.
func (w *world) state() (chains map[string]Chain, root contracts.Digest) {
	chains = map[string]Chain{}
	for name, c := range w.log.chains {
		copied := *c
		copied.log = nil
		chains[name] = copied
	}
	return chains, w.log.tree.Root()
}

// Whatever entries have become stubs, of random logs, the log that is opened again is the same.
func TestOpenOverStubs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := opened(t)
		var all []*Slot
		open := map[*Slot]string{}
		stubs := map[uint64]*contracts.Stub{}
		for range 120 {
			session := []string{"a", "b", "main"}[r.IntN(3)]
			var parents []contracts.Digest
			for range r.IntN(3) {
				if len(all) > 0 {
					parents = append(parents, all[r.IntN(len(all))].Hash())
				}
			}
			if r.IntN(2) == 0 {
				s := w.allowed(session, parents...)
				all, open[s] = append(all, s), session
				continue
			}
			for _, d := range all {
				if open[d] == "" {
					continue
				}
				s := w.received(open[d], d, parents...)
				delete(open, d)
				all = append(all, s)
				if r.IntN(4) > 0 {
					stubs[d.Index()] = w.stub(d, 0)
				}
				if r.IntN(4) > 0 {
					stubs[s.Index()] = w.stub(s, d.Index())
				}
				break
			}
		}
		_, err := w.log.Checkpoint(context.Background())
		require.NoError(t, err)
		w.condensed()
		set := slices.Sorted(maps.Keys(stubs))
		require.Greater(t, len(set), 20)
		chains, root := w.state()
		w.letGo(stubs)
		w.end()
		w.options.Condensed = func(l *Log, index uint64, c *contracts.Condense) (iter.Seq[uint64], error) {
			assert.EqualValues(t, w.size()-1, index)
			assert.EqualValues(t, 1, c.Dropped)
			return slices.Values(set), nil
		}
		next, left := uint64(0), 0
		w.log, err = Open(context.Background(), w.store, w.options, func(l Line) error {
			assert.Equal(t, next, l.Index)
			next++
			if assert.NotEqual(t, l.Stub == nil, l.Statement == nil) && l.Stub != nil {
				left++
				assert.Equal(t, string(stubs[l.Index].Append(nil)), string(l.Stub.Append(nil)))
			}
			if l.Index > 0 && int(l.Index) <= len(all) {
				s := all[l.Index-1]
				assert.Equal(t, s.Hash(), l.Hash)
				parents := []contracts.Digest{}
				for _, p := range l.Parents {
					parents = append(parents, all[p-1].Hash())
				}
				slices.SortFunc(parents, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
				want := Place{s}.Header().Parents
				if l.Stub != nil {
					want = l.Stub.Parents
				}
				assert.True(t, slices.Equal(want, parents))
			}
			assert.Equal(t, l.Index+1, l.Tree.Size())
			return nil
		})
		require.NoError(t, err, "seed %d", seed)
		assert.Equal(t, len(stubs), left)
		again, reRoot := w.state()
		assert.Equal(t, chains, again, "seed %d", seed)
		assert.Equal(t, root, reRoot)
		for _, s := range all {
			at, ok := w.log.Lookup(s.Hash())
			assert.Equal(t, stubs[s.Index()] == nil, ok)
			assert.True(t, !ok || at == s.Index())
		}
		w.say("main")
	}
}

// Stubs that do not follow from the lines before them.
func TestOpenRefusesStubsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(d, r *contracts.Stub)
		says  string
	}{
		"untouched":               {func(d, r *contracts.Stub) {}, ""},
		"a seq that is skipped":   {func(d, r *contracts.Stub) { d.Seq++ }, "entry 6: seq"},
		"a Lamport time too low":  {func(d, r *contracts.Stub) { d.Lamport-- }, "entry 6: lamport"},
		"a Lamport time too high": {func(d, r *contracts.Stub) { r.Lamport++ }, "entry 8: lamport"},
		"an earlier time":         {func(d, r *contracts.Stub) { d.Time-- }, "entry 6: time"},
		"another session":         {func(d, r *contracts.Stub) { d.Session = "b" }, "entry 6: seq"},
		"a new session":           {func(d, r *contracts.Stub) { r.Session = "new" }, "entry 8: seq"},
		"an unknown parent":       {func(d, r *contracts.Stub) { d.Parents = []contracts.Digest{{1}} }, "entry 6: proofgraph: parent"},
		"no parent":               {func(d, r *contracts.Stub) { r.Parents = nil }, "entry 8: lamport"},
		"a decision after it":     {func(d, r *contracts.Stub) { r.Receipt.Decision = 8 }, "entry 8: proofgraph: parent"},
		"another hash":            {func(d, r *contracts.Stub) { d.Entry[0]++ }, "entry 7: prev"},
	} {
		w := opened(t)
		w.options.Now = 2000
		w.say("a")
		for range 3 {
			w.say("b")
		}
		far := w.allowed("b")
		d := w.allowed("a") // 6
		w.say("a")
		r := w.received("a", d, far.Hash())
		ds, rs := w.stub(d, 0), w.stub(r, d.Index())
		require.Len(t, rs.Parents, 1)
		c.spoil(ds, rs)
		var lines []contracts.Entry
		for i := range w.size() {
			lines = append(lines, w.entry(i))
		}
		lines[d.Index()], lines[r.Index()] = ds.Append(nil), rs.Append(nil)
		m := NewMemory()
		mustAppend(t, m, Batch{Entries: lines})
		_, err := Open(context.Background(), m, w.options, nil)
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		assert.True(t, err != nil && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
	}
	w := opened(t)
	d := w.allowed("a")
	m := NewMemory()
	mustAppend(t, m, Batch{Entries: []contracts.Entry{w.stub(d, 0).Append(nil)}})
	_, err := Open(context.Background(), m, w.options, nil)
	assert.ErrorContains(t, err, "genesis")
}

// What Open forgot at a condense entry no later line names, and an error of Condensed is one of
// Open.
func TestOpenForgetsAtCondenseEntries(t *testing.T) {
	t.Parallel()
	w := opened(t)
	d := w.allowed("a")
	r := w.received("a", d)
	w.condensed()
	w.say("b", d.Hash())
	w.end()
	set := []uint64{r.Index()}
	no := errors.New("no set")
	var fails error
	w.options.Condensed = func(*Log, uint64, *contracts.Condense) (iter.Seq[uint64], error) {
		return slices.Values(set), fails
	}
	open := func() error {
		l, err := Open(context.Background(), w.store, w.options, nil)
		if err == nil {
			l.Seal(nil)
		}
		return err
	}
	require.NoError(t, open())
	set = []uint64{d.Index(), r.Index()}
	assert.ErrorIs(t, open(), ErrUnknownParent)
	set = []uint64{100}
	assert.ErrorContains(t, open(), "entry 3: ")
	set, fails = nil, no
	assert.ErrorIs(t, open(), no)
	w.options.Condensed = nil
	assert.NoError(t, open(), "without a function nothing is forgotten")
}

// While Open asks for the set of a condense entry the store may be read.
func TestCondensedMayReadTheStore(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.condensed()
	w.condensed()
	w.say("a")
	w.end()
	asked := 0
	reading := 0
	w.store = &oneReader{Store: w.memory, reading: &reading}
	w.options.Condensed = func(l *Log, index uint64, c *contracts.Condense) (iter.Seq[uint64], error) {
		asked++
		assert.Zero(t, reading)
		assert.False(t, l.Closed("a", 1))
		return slices.Values([]uint64(nil)), nil
	}
	w.open()
	assert.Equal(t, 2, asked)
}

// A oneReader counts iterations that are under way.
type oneReader struct {
	Store
	reading *int
}

func (o *oneReader) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		*o.reading++
		defer func() { *o.reading-- }()
		for e, err := range o.Store.Entries(ctx, from, to) {
			if !yield(e, err) {
				return
			}
		}
	}
}
