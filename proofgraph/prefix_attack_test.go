package proofgraph

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A bent store has other entries, hashes or checkpoints than its log.
type bent struct {
	Store
	read  func(indexes []int64) ([]tlog.Hash, error)
	entry func(index uint64, e contracts.Entry) (contracts.Entry, error)
	note  []byte
}

func (b *bent) ReadHashes(indexes []int64) ([]tlog.Hash, error) { return b.read(indexes) }

func (b *bent) Checkpoint(ctx context.Context) ([]byte, error) {
	if b.note != nil {
		return b.note, nil
	}
	return b.Store.Checkpoint(ctx)
}

func (b *bent) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range b.Store.Entries(ctx, from, to) {
			if err == nil && b.entry != nil {
				e, err = b.entry(from, e)
			}
			if from++; !yield(e, err) {
				return
			}
		}
	}
}

// straight is a bent store that is not bent yet.
func (f *finished) straight() *bent {
	return &bent{Store: readOnly{f.memory}, read: f.memory.ReadHashes}
}

func copied(p *Prefix) *Prefix {
	c := *p
	c.Nodes, c.Open, c.Closed = slices.Clone(p.Nodes), slices.Clone(p.Open), slices.Clone(p.Closed)
	c.Unanswered, c.Forgotten = slices.Clone(p.Unanswered), slices.Clone(p.Forgotten)
	return &c
}

// A prefix that is none of the store's log, or of no log, is refused, and the error says why.
func TestPrefixIsRefused(t *testing.T) {
	t.Parallel()
	f := finish(t, 3, 80)
	size := f.size() - 10
	p := f.fold(f.store, nil, size)
	require.True(t, len(p.Nodes) > 1 && len(p.Open) > 2 && len(p.Closed) > 0 && len(p.Unanswered) > 0 &&
		len(p.Forgotten) > 0, "not the log that this test was made for")
	other := crypto.Sum([]byte("another"))
	for name, x := range map[string]struct {
		change func(p *Prefix)
		why    string
	}{
		"of no entries": {func(p *Prefix) { p.Size, p.Nodes = 0, nil }, "of 0 entries"},
		"of more than the store": {func(p *Prefix) { p.Size, p.Nodes = 128, p.Nodes[:1] },
			"of 128 entries, and the log has"},
		"another genesis":           {func(p *Prefix) { p.Genesis = other }, "entry 0: the store has another entry"},
		"another last":              {func(p *Prefix) { p.Last = other }, "the store has another entry"},
		"the last of a smaller one": {func(p *Prefix) { p.Last = f.all[size-2] }, "the store has another entry"},
		"a node too few":            {func(p *Prefix) { p.Nodes = p.Nodes[1:] }, "not as many nodes"},
		"a node too many":           {func(p *Prefix) { p.Nodes = append(p.Nodes, other) }, "not as many nodes"},
		"another node":              {func(p *Prefix) { p.Nodes[0] = other }, "entry 0: "},
		"nodes exchanged": {func(p *Prefix) { p.Nodes[0], p.Nodes[1] = p.Nodes[1], p.Nodes[0] },
			"entry 0: "},
		"a session twice":         {func(p *Prefix) { p.Open = append(p.Open, p.Open[1]) }, "twice"},
		"a session open and over": {func(p *Prefix) { p.Closed[0].Session = p.Open[1].Session }, "twice"},
		"a session's entry later": {func(p *Prefix) { p.Open[1].Index = size }, "an entry that it does not have"},
		"a close later":           {func(p *Prefix) { p.Closed[0].Index = size }, "an entry that it does not have"},
		"a Lamport time too high": {func(p *Prefix) { p.Open[1].Lamport = size }, "an entry that it does not have"},
		"an ALLOW later":          {func(p *Prefix) { p.Unanswered[0].Index = size }, "an ALLOW that it does not have"},
		"forgotten later":         {func(p *Prefix) { p.Forgotten = bytes.Repeat([]byte{1}, 100) }, "forgotten"},
	} {
		c := copied(p)
		x.change(c)
		_, _, err := f.opens(readOnly{f.memory}, c)
		require.ErrorContains(t, err, "prefix: ", name)
		require.ErrorContains(t, err, x.why, name)
		o := f.options
		o.Prefix = c
		_, err = Fold(t.Context(), f.memory, o, f.size(), nil)
		require.ErrorContains(t, err, x.why, name)
	}
	_, _, err := f.opens(readOnly{f.memory}, p)
	require.NoError(t, err)

	// the store has fewer entries than the prefix
	_, _, err = f.opens(NewMemory(), p)
	require.ErrorContains(t, err, "and the log has 0")
	short := NewMemory()
	for e, err := range f.memory.Entries(t.Context(), 0, size-1) {
		require.NoError(t, err)
		n, _ := short.Size(t.Context())
		mustAppend(t, short, Batch{At: n, Entries: []contracts.Entry{e}})
	}
	_, _, err = f.opens(short, p)
	require.ErrorContains(t, err, "entries, and the log has")

	// a log of another origin
	o := f.options
	o.Origin, o.Prefix = "example.test/other", p
	_, err = Open(t.Context(), f.straight(), o, nil)
	require.ErrorContains(t, err, "of the log "+origin)
	_, err = Fold(t.Context(), f.memory, o, f.size(), nil)
	require.ErrorContains(t, err, "prefix: entry 0: origin: this store has the log "+origin)
	_, err = Fold(t.Context(), f.memory, Options{Origin: origin, Prefix: p}, size-1, nil)
	require.ErrorContains(t, err, "and the log has")
	_, err = Fold(t.Context(), f.memory, f.options, f.size()+1, nil)
	require.Error(t, err)
	_, err = Fold(t.Context(), nil, f.options, 1, nil)
	require.Error(t, err)
}

// The prefix of a fork, in which one entry is another, is refused by every store with hashes; and
// by one without where the fork is older than the last entry, once its checkpoint is reached.
func TestPrefixOfAFork(t *testing.T) {
	t.Parallel()
	make := func(text string) *finished {
		f := &finished{world: opened(t)}
		for i := range 20 {
			s := f.place(f.log.Chain([]string{"a", "b", "c"}[i%3]))
			st := message()
			if i == 10 {
				st.Message.TextHash = crypto.Sum([]byte(text))
			}
			require.NoError(t, sign(s, st))
			require.NoError(t, s.Wait())
		}
		_, err := f.log.Checkpoint(t.Context())
		require.NoError(t, err)
		f.end()
		return f
	}
	a, b := make("one"), make("another")
	for size := uint64(1); size <= a.size(); size++ {
		p := a.fold(a.memory, nil, size)
		_, _, err := b.opens(readOnly{b.memory}, p)
		if size <= 11 {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "size %d", size)
		forged := copied(p)
		forged.Last = b.fold(b.memory, nil, size).Last
		for name, reader := range readers {
			_, _, err := b.opens(reader(b.memory), forged)
			require.Error(t, err, "size %d, %s", size, name)
		}
	}

	// the store's checkpoint is of the fork
	note, err := b.memory.Checkpoint(t.Context())
	require.NoError(t, err)
	for _, size := range []uint64{5, 15, 21} {
		s := a.straight()
		s.note = note
		_, _, err := a.opens(s, a.fold(a.memory, nil, size))
		require.ErrorContains(t, err, "checkpoint is of other entries", "size %d", size)
	}
	// and older than the prefix
	long := &finished{world: a.world}
	long.open()
	long.say("a")
	long.say("b")
	long.end()
	s := long.straight()
	p := long.fold(long.memory, nil, long.size())
	_, _, err = long.opens(s, p)
	require.NoError(t, err)
	s.note = note
	_, _, err = long.opens(s, p)
	require.ErrorContains(t, err, "checkpoint is of other entries")
}

// Entries after the prefix that are wrong are refused with the same error as by who reads all.
func TestBadEntriesAfterPrefix(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for seed := range uint64(4) {
		f := finish(t, 50+seed, 60)
		lines := f.log.all(t)
		size := f.size() / 2
		p := f.fold(f.memory, nil, size)
		for at := size; at < f.size(); at++ {
			for name, bad := range map[string]contracts.Entry{
				"cut": lines[at][:len(lines[at])-1], "the one before": lines[at-1], "genesis": lines[0], "nothing": {},
				"an old one": lines[size/2], "a stub of nothing": (&contracts.Stub{Entry: f.all[at], Lamport: at + 1,
					Session: "main", Receipt: &contracts.ReceiptStub{Decision: 3, Outcome: contracts.Executed},
				}).Append(nil),
				"one that names what is not there": (&contracts.Stub{Entry: f.all[at], Lamport: at + 1, Session: "new",
					Parents:  []contracts.Digest{crypto.Sum([]byte("nowhere"))},
					Decision: &contracts.DecisionStub{Tool: "t"},
				}).Append(nil),
			} {
				s := f.straight()
				s.entry = func(i uint64, e contracts.Entry) (contracts.Entry, error) {
					if i == at {
						return bytes.Clone(bad), nil
					}
					return e, nil
				}
				_, _, want := f.opens(s, nil)
				_, _, err := f.opens(s, p)
				require.Error(t, want, name)
				require.EqualError(t, err, want.Error(), "log %d, entry %d is %s", seed, at, name)
				kinds[want.Error()[len("proofgraph: open: entry 11: "):]]++
			}
		}
	}
	assert.Greater(t, len(kinds), 5, "%v", kinds)
}

var errBent = errors.New("bent")

// Hashes that are wrong or missing, once the log is open, cost a pass over the entries and change
// nothing; entries that are wrong are never found.
func TestFindOverBentStores(t *testing.T) {
	t.Parallel()
	f := finish(t, 7, 60)
	p := f.fold(f.memory, nil, f.size()-5)
	at := uint64(slices.IndexFunc(f.all, func(h contracts.Digest) bool { // one that nobody has found yet
		l, _, err := f.opens(readOnly{f.memory}, p)
		require.NoError(t, err)
		_, known := l.Lookup(h)
		found, err := l.Find(t.Context(), contracts.Ref{Index: uint64(slices.Index(f.all, h)), Hash: h})
		require.NoError(t, err)
		return found && !known
	}))
	require.Less(t, at, p.Size)
	ref := contracts.Ref{Index: at, Hash: f.all[at]}
	for name, read := range map[string]func([]int64) ([]tlog.Hash, error){
		"fails":  func([]int64) ([]tlog.Hash, error) { return nil, errBent },
		"panics": func([]int64) ([]tlog.Hash, error) { panic("bent") },
		"has too few": func(indexes []int64) ([]tlog.Hash, error) {
			return f.memory.ReadHashes(indexes[:max(len(indexes), 1)-1])
		},
		"has others": func(indexes []int64) ([]tlog.Hash, error) {
			list, err := f.memory.ReadHashes(indexes)
			for i := range list {
				list[i][5]++
			}
			return list, err
		},
	} {
		s := f.straight()
		l, _, err := f.opens(s, p)
		require.NoError(t, err)
		s.read = read
		found, err := l.Find(t.Context(), ref)
		require.True(t, found && err == nil, "a store that %s: %v", name, err)
		s.entry = func(i uint64, e contracts.Entry) (contracts.Entry, error) {
			if i == 1 {
				return f.forged(), nil
			}
			return e, nil
		}
		l, _, err = f.opens(&bent{Store: s.Store, read: f.memory.ReadHashes}, p)
		require.NoError(t, err)
		l.older.store = s
		_, err = l.Find(t.Context(), ref)
		require.ErrorContains(t, err, "other entries", "a store that %s, and has another entry elsewhere", name)
		_, ok := l.Lookup(ref.Hash)
		require.False(t, ok)
		_, _, err = f.opens(s, p)
		require.ErrorContains(t, err, "prefix: entry 0: ", "a store that %s", name)
	}

	// the entry in the place is another, and its hash is asked for
	forged := f.forged()
	for name, entry := range map[string]func() (contracts.Entry, error){
		"forged":  func() (contracts.Entry, error) { return forged, nil },
		"fails":   func() (contracts.Entry, error) { return nil, errBent },
		"panics":  func() (contracts.Entry, error) { panic("bent") },
		"no line": func() (contracts.Entry, error) { return contracts.Entry("{"), nil },
	} {
		s := f.straight()
		l, _, err := f.opens(s, p)
		require.NoError(t, err)
		s.entry = func(i uint64, e contracts.Entry) (contracts.Entry, error) {
			if i == at {
				return entry()
			}
			return e, nil
		}
		found, err := l.Find(t.Context(), contracts.Ref{Index: at, Hash: forged.Hash()})
		require.False(t, found, name)
		require.Error(t, err, name)
		found, err = l.Find(t.Context(), ref)
		require.False(t, found, name)
		require.Equal(t, name == "forged", err == nil, name) // an entry that is not there
		for _, h := range []contracts.Digest{ref.Hash, forged.Hash()} {
			_, ok := l.Lookup(h)
			require.False(t, ok, name)
			_, err := l.take(&Draft{Chain: l.Chain("main"), Time: 1 << 40, Parents: []contracts.Digest{h}})
			require.ErrorIs(t, err, ErrUnknownParent)
		}
		s.entry = nil
		found, err = l.Find(t.Context(), ref)
		require.True(t, found && err == nil, "%s: %v", name, err)
	}
}

// forged returns an entry that the log does not have.
func (f *finished) forged() contracts.Entry {
	w := opened(f.TB)
	return w.say("elsewhere").Entry()
}

// What a condense entry names after the log was opened from a prefix is forgotten below it, and is
// found no more, also by a Find that has read it meanwhile.
func TestForgetBelowPrefix(t *testing.T) {
	t.Parallel()
	f := &finished{world: opened(t), sets: map[uint64][]uint64{}}
	d := f.allowed("a")
	r := f.received("a", d)
	kept := f.allowed("a")
	f.end()
	p := f.fold(f.memory, nil, f.size())
	f.options.Prefix = p
	f.open()
	ref := contracts.Ref{Index: d.Index(), Hash: d.Hash()}
	s := f.straight()
	f.log.older.store = s
	s.Store = f.memory
	s.entry = func(i uint64, e contracts.Entry) (contracts.Entry, error) {
		if i == d.Index() && s.entry != nil {
			s.entry = nil
			f.condensed(d.Index(), r.Index()) // while Find reads
		}
		return e, nil
	}
	for range 2 {
		found, err := f.log.Find(t.Context(), ref)
		require.True(t, err == nil && !found, "%v", err)
		_, err = f.log.take(&Draft{Chain: f.log.Chain("b"), Time: f.options.Now, Parents: []contracts.Digest{d.Hash()}})
		require.ErrorIs(t, err, ErrUnknownParent)
	}
	require.NoError(t, f.log.forget(slices.Values([]uint64{r.Index()}), f.size())) // again
	found, err := f.log.Find(t.Context(), contracts.Ref{Index: kept.Index(), Hash: kept.Hash()})
	require.True(t, found && err == nil)
	f.say("b", kept.Hash())
	f.end()
	f.options.Prefix = nil
	f.open()
	require.Len(t, f.log.chains, 3)
}

// A log that is open over the store goes on while it is folded.
func TestFoldBesideALog(t *testing.T) {
	t.Parallel()
	w := opened(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				w.say("a")
			}
		}
	}()
	var p *Prefix
	for range 20 {
		size := w.size()
		next, err := Fold(t.Context(), w.memory, Options{Origin: origin, Prefix: p}, size, nil)
		require.NoError(t, err)
		require.Equal(t, size, next.Size)
		p = next
	}
	close(stop)
	<-done
	require.NoError(t, w.log.Err())
	w.say("a")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := Fold(ended, w.memory, Options{Origin: origin}, p.Size, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Fold(t.Context(), &bent{Store: w.memory, entry: func(uint64, contracts.Entry) (contracts.Entry, error) {
		panic("bent")
	}}, Options{Origin: origin}, p.Size, nil)
	require.ErrorContains(t, err, "panicked")
}
