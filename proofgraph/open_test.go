package proofgraph

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func TestOpenBeginsALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen []contracts.Digest
	l, err := Open(context.Background(), w.store, w.options,
		func(l Line) error {
			g := l.Statement.Genesis
			assert.True(t, l.Index == 0 && g != nil && g.Origin == origin &&
				g.Nonce == "07000000000000000000000000000000" && g.Trust == crypto.Sum(w.options.Trust) &&
				l.Statement.Time == 1000 && l.Bytes.Hash() == l.Hash, "entry %d: %+v", l.Index, l.Statement)
			seen = append(seen, l.Hash)
			return nil
		})
	require.NoError(t, err)
	list := w.reread()
	assert.True(t, len(list) == 1 && len(seen) == 1 && list[0].hash == seen[0], "each saw something else")
	b, err := w.memory.Blob(context.Background(), crypto.Sum(w.options.Trust))
	assert.True(t, err == nil && bytes.Equal(b, w.options.Trust), "the trust state is not kept: %v", err)
	w.log = l
	w.say("a")
}

// Each sees every entry, in order, and the statements stay as they were after Open.
func TestOpenReadsEveryEntryOnce(t *testing.T) {
	t.Parallel()
	w := opened(t)
	var want []string
	for i := range 50 {
		s := w.say([]string{"a", "b", "c"}[i%3])
		want = append(want, string(s.Entry()))
	}
	w.end()
	var list []*contracts.Statement
	_, err := Open(context.Background(), w.store, w.options,
		func(l Line) error {
			assert.True(t, l.Index == uint64(len(list)) && l.Bytes.Hash() == l.Hash &&
				(l.Index <= 0 || string(l.Bytes) == want[l.Index-1]), "entry %d", l.Index)
			list = append(list, l.Statement)
			return nil
		})
	require.NoError(t, err)
	for i, f := range w.reread() {
		if st := list[i]; st.Session != f.Predicate.Session || st.Seq != f.Predicate.Seq ||
			st.Prev.String() != f.Predicate.Prev {
			t.Errorf("entry %d became %+v", i, st.Header)
		}
	}
	assert.Len(t, list, 51)
}

func TestOpenHearsEach(t *testing.T) {
	t.Parallel()
	no := errors.New("not this one")
	for _, w := range []*world{newWorld(t), opened(t)} {
		w.end()
		l, err := Open(context.Background(), w.store, w.options,
			func(Line) error { return no })
		assert.True(t, l == nil && errors.Is(err, no), "%v", err)
	}
	w := newWorld(t)
	Open(context.Background(), w.store, w.options,
		func(Line) error { return no })
	assert.Equal(t, uint64(0), w.size(), "a genesis that was refused is in the store")
}

// The next process may have another key; a log goes on under it.
func TestOpenWithAnotherKey(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	w.options.Key = seedKey(t, 9)
	w.options.Trust = nil // a log that is there needs none
	w.open()
	s := w.say("a")
	pub, _ := crypto.PublicOf(w.options.Key)
	f := readForeign(t, s.Entry(), pub)
	assert.Equal(t, uint64(1), f.Predicate.Seq)
}

func TestOpenRefusesOptions(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world){
		"no store":                   func(w *world) { w.store = nil },
		"no origin":                  func(w *world) { w.options.Origin = "" },
		"an illegal origin":          func(w *world) { w.options.Origin = "a b" },
		"no key":                     func(w *world) { w.options.Key = nil },
		"no log key":                 func(w *world) { w.options.LogKey = nil },
		"the zero key":               func(w *world) { w.options.Key = crypto.PrivateKey{} },
		"no trust state":             func(w *world) { w.options.Trust = nil },
		"a time that has no text":    func(w *world) { w.options.Now = -1 },
		"a store that says nothing":  func(w *world) { w.store = liar{Store: w.memory, err: errDisk} },
		"a store that panics":        func(w *world) { w.store = liar{} },
		"a store that takes nothing": func(w *world) { w.watch().before = func(int, Batch) error { return errDisk } },
	} {
		w := newWorld(t)
		spoil(w)
		l, err := Open(context.Background(), w.store, w.options, nil)
		assert.True(t, err != nil && l == nil, "%s: opened", name)
		assert.Equal(t, uint64(0), w.size(), "%s: something was written", name)
	}
}

// A liar is a store that reports a wrong size or wrong entries.
type liar struct {
	Store
	more       uint64
	err        error
	extra      contracts.Entry
	note       []byte
	checkpoint error
}

func (l liar) Size(ctx context.Context) (uint64, error) {
	n, err := l.Store.Size(ctx)
	return n + l.more, errors.Join(err, l.err)
}

func (l liar) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range l.Store.Entries(ctx, from, to-l.more) {
			if !yield(e, err) {
				return
			}
		}
		if l.extra != nil {
			yield(l.extra, nil)
		}
	}
}

func (l liar) Checkpoint(ctx context.Context) ([]byte, error) {
	if l.note != nil || l.checkpoint != nil {
		return l.note, l.checkpoint
	}
	return l.Store.Checkpoint(ctx)
}

func TestOpenRefusesAStoreThatLies(t *testing.T) {
	t.Parallel()
	w := opened(t)
	c := w.log.Chain("a")
	extra := w.place(c)
	w.sign(extra) // not stored
	other := opened(t)
	other.options.Nonce[0]++
	for range 3 {
		other.say("b")
	}
	longer := other.checkpoint().Note
	other = newWorld(t)
	other.options.Nonce[0]++
	other.open()
	forked := other.checkpoint().Note
	elsewhere := newWorld(t)
	elsewhere.options.Origin = "elsewhere"
	elsewhere.open()
	foreign := elsewhere.checkpoint().Note
	elsewhere = newWorld(t)
	elsewhere.options.Origin = "elsewhere"
	elsewhere.open()
	for name, c := range map[string]struct {
		store liar
		says  string
	}{
		"it has less than it says":             {liar{more: 1}, "fewer"},
		"it has more than it says":             {liar{extra: extra.Entry()}, "more"},
		"it lost entries":                      {liar{note: longer}, "does not have any more"},
		"its checkpoint is of another history": {liar{note: forked}, "of other entries"},
		"its checkpoint is of another log":     {liar{note: foreign}, "of the log elsewhere, not of "},
		"its checkpoint is none":               {liar{note: []byte("none")}, "checkpoint"},
		"it cannot say what its checkpoint is": {liar{checkpoint: errDisk}, "fire"},
		"the log of another origin":            {liar{Store: elsewhere.memory}, "origin"},
		"an entry that is none":                {liar{more: 1, extra: contracts.Entry("{}")}, "entry 1"},
		"an entry that is not canonical": {liar{more: 1, extra: append(bytes.Clone(extra.Entry()), ' ')},
			"entry 1"},
		"an entry that is signed twice the same": {liar{more: 1, extra: w.entry(0)}, "genesis"},
	} {
		if c.store.Store == nil {
			c.store.Store = w.memory
		}
		l, err := Open(context.Background(), c.store, w.options, nil)
		assert.True(t, err != nil && l == nil && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
	}
	_, err := Open(context.Background(), liar{Store: w.memory, more: 1, extra: extra.Entry()}, w.options, nil)
	require.NoError(t, err, "the extra entry as such")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.end()
	_, err = Open(ctx, w.memory, w.options, nil)
	assert.ErrorIs(t, err, context.Canceled, "an ended context")
}

func (w *world) entry(i uint64) contracts.Entry {
	w.Helper()
	for e, err := range w.memory.Entries(context.Background(), i, i+1) {
		if err == nil {
			return e
		}
	}
	w.Fatal("no such entry")
	return nil
}

// Well signed entries that do not follow from those before them.
func TestOpenRefusesEntriesThatDoNotFollow(t *testing.T) {
	t.Parallel()
	base := func() (*world, *contracts.Statement) {
		w := opened(t)
		w.options.Now = 2000
		first, second := w.say("a"), w.say("b")
		st := message()
		st.Header = contracts.Header{Key: w.log.keyID, Lamport: 2, Parents: []contracts.Digest{second.Hash()},
			Prev: first.Hash(), Seq: 1, Session: "a", Time: 2000}
		return w, st
	}
	forge := func(w *world, st *contracts.Statement) error {
		key := w.options.Key.(crypto.PrivateKey)
		payload := st.Append(nil)
		sig, err := crypto.Sign(key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
		require.NoError(t, err)
		e := crypto.AppendEnvelope(nil, contracts.PayloadType, payload, w.log.keyID, sig)
		mustAppend(t, w.memory, Batch{At: w.size(), Entries: []contracts.Entry{e}})
		w.end()
		_, err = Open(context.Background(), w.store, w.options, nil)
		return err
	}
	require.NoError(t, forge(base()), "untouched")
	for name, c := range map[string]struct {
		spoil func(w *world, st *contracts.Statement)
		says  string
	}{
		"a seq that is skipped":   {func(w *world, st *contracts.Statement) { st.Seq++ }, "seq"},
		"a seq that comes again":  {func(w *world, st *contracts.Statement) { st.Seq-- }, "seq"},
		"another prev":            {func(w *world, st *contracts.Statement) { st.Prev = w.log.genesis }, "prev"},
		"a Lamport time too low":  {func(w *world, st *contracts.Statement) { st.Lamport-- }, "lamport"},
		"a Lamport time too high": {func(w *world, st *contracts.Statement) { st.Lamport++ }, "lamport"},
		"an earlier time":         {func(w *world, st *contracts.Statement) { st.Time = 1999 }, "time"},
		"an unknown parent": {func(w *world, st *contracts.Statement) { st.Parents = []contracts.Digest{{1}} },
			"parent"},
		"another key's id":           {func(w *world, st *contracts.Statement) { st.Key[0]++ }, "key"},
		"a session that begins late": {func(w *world, st *contracts.Statement) { st.Session = "new" }, "seq"},
		"a second genesis": {func(w *world, st *contracts.Statement) {
			*st = contracts.Statement{Header: contracts.Header{Key: st.Key, Time: 5000},
				Genesis: &contracts.Genesis{Nonce: strings.Repeat("0", 32), Origin: origin, Version: 1}}
		}, "genesis"},
		"an entry after the close": {func(w *world, st *contracts.Statement) {
			s := w.place(w.log.Chain("c"))
			require.NoError(t, sign(s, &contracts.Statement{Close: &contracts.Close{Last: w.log.genesis}}))
			require.NoError(t, s.Wait())
			st.Header = contracts.Header{Key: st.Key, Session: "c", Seq: 1, Lamport: 2, Prev: s.Hash(), Time: st.Time}
		}, "closed"},
	} {
		w, st := base()
		c.spoil(w, st)
		err := forge(w, st)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
	}
}

func TestOpenRefusesALogWithoutGenesis(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]contracts.Header{
		"a genesis with a seq":     {Seq: 1},
		"a genesis with a lamport": {Lamport: 1},
		"a genesis with a prev":    {Prev: contracts.Digest{1}},
		"a genesis with parents":   {Parents: []contracts.Digest{{1}}},
		"no genesis":               {Session: "a"},
	} {
		w := newWorld(t)
		key := w.options.Key.(crypto.PrivateKey)
		pub, _ := crypto.PublicOf(key)
		h.Key = crypto.KeyID(pub)
		st := &contracts.Statement{Header: h, Genesis: &contracts.Genesis{Nonce: strings.Repeat("0", 32),
			Origin: origin, Version: 1}}
		if h.Session != "" {
			st.Genesis, st.Message = nil, message().Message
		}
		payload := st.Append(nil)
		sig, err := crypto.Sign(key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
		require.NoError(t, err)
		mustAppend(t, w.memory,
			Batch{Entries: []contracts.Entry{crypto.AppendEnvelope(nil, contracts.PayloadType, payload, h.Key, sig)}})
		_, err = Open(context.Background(), w.store, w.options, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "genesis"), "%s: %v", name, err)
	}
}
