package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A finished is a log that is read and not written.
type finished struct {
	*world
	sets map[uint64][]uint64 // by the index of the condense entry
	all  []contracts.Digest  // hashes by index
}

// finish makes a log at random: calls that overlap, entries that name old ones, sessions that end
// and others that do not, checkpoints, and condense entries, of whose sets some members are stubs.
func finish(t testing.TB, seed uint64, n int) *finished {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 26))
	f := &finished{world: opened(t), sets: map[uint64][]uint64{}}
	type pair struct{ decision, receipt *Slot }
	var (
		open  []*Slot
		done  []pair
		known []contracts.Digest
		stubs = map[uint64]*contracts.Stub{}
		began int
	)
	sessions := []string{"main", "s0", "s1"}
	for range n {
		f.options.Now += contracts.Time(r.Int64N(50))
		session := sessions[r.IntN(len(sessions))]
		var parents []contracts.Digest
		for range r.IntN(3) {
			if len(known) > 0 {
				parents = append(parents, known[r.IntN(len(known))])
			}
		}
		switch k := r.IntN(12); {
		case k < 4:
			open = append(open, f.allowed(session, parents...))
		case k < 8 && len(open) > 0:
			i := r.IntN(len(open))
			d := open[i]
			open = slices.Delete(open, i, i+1)
			if f.log.Chain(d.chain.session).closed {
				break
			}
			s := f.received(d.chain.session, d, parents...)
			done, known = append(done, pair{d, s}), append(known, d.Hash(), s.Hash())
		case k == 8 && session != "main":
			s := f.place(f.log.Chain(session), parents...)
			require.NoError(t, sign(s, closing(Place{s}.Header())))
			require.NoError(t, s.Wait())
			began++
			sessions[slices.Index(sessions, session)] = fmt.Sprint("later-", began)
		case k == 9 && len(done) > 0:
			var set []uint64
			done = slices.DeleteFunc(done, func(p pair) bool {
				if r.IntN(2) == 0 {
					return false
				}
				set = append(set, p.decision.Index(), p.receipt.Index())
				known = slices.DeleteFunc(known, func(h contracts.Digest) bool {
					return h == p.decision.Hash() || h == p.receipt.Hash()
				})
				if r.IntN(2) == 0 {
					stubs[p.decision.Index()] = f.stub(p.decision, 0)
				}
				if r.IntN(2) == 0 {
					stubs[p.receipt.Index()] = f.stub(p.receipt, p.decision.Index())
				}
				return true
			})
			slices.Sort(set)
			f.sets[f.condensed(set...).Index()] = set
		case k == 10 && r.IntN(2) == 0:
			_, err := f.log.Checkpoint(t.Context())
			require.NoError(t, err)
		default:
			known = append(known, f.say(session, parents...).Hash())
		}
	}
	for i := range f.size() {
		f.all = append(f.all, f.log.index.Hash(i))
	}
	for i, e := range f.log.all(t) { // forgotten ones too
		f.all[i] = e.Hash()
	}
	f.letGo(stubs)
	f.end()
	f.options.Condensed = func(_ *Log, index uint64, _ *contracts.Condense) (iter.Seq[uint64], error) {
		return slices.Values(f.sets[index]), nil
	}
	return f
}

// closing closes a session.
func closing(h contracts.Header) *contracts.Statement {
	return &contracts.Statement{Close: &contracts.Close{Count: h.Seq, Last: h.Prev}}
}

func (l *Log) all(t testing.TB) (list []contracts.Entry) {
	t.Helper()
	for e, err := range l.store.Entries(t.Context(), 0, l.size) {
		require.NoError(t, err)
		list = append(list, e)
	}
	return list
}

// The stores that a log is opened over from a prefix: the hashes of each are others.
var readers = map[string]func(m *Memory) Store{
	"with hashes":    func(m *Memory) Store { return readOnly{m} },
	"without hashes": func(m *Memory) Store { return struct{ Store }{m} },
}

// A readOnly store is a [Memory] over which any number of logs may be open.
type readOnly struct{ *Memory }

func (readOnly) Append(context.Context, Batch) error { return errors.New("this store is read only") }

func (f *finished) fold(s Store, p *Prefix, size uint64) *Prefix {
	f.Helper()
	o := Options{Origin: origin, Condensed: f.options.Condensed, Prefix: p}
	got, err := Fold(f.Context(), s, o, size, nil)
	require.NoError(f, err, "size %d", size)
	return got
}

// opens opens the log in a store from a prefix, and returns the lines that were read.
func (f *finished) opens(s Store, p *Prefix) (l *Log, lines []string, err error) {
	o := f.options
	o.Prefix = p
	l, err = Open(f.Context(), s, o, func(x Line) error {
		lines = append(lines, fmt.Sprint(x.Index, x.Hash, x.Parents, x.Tree.Root(), x.Stub != nil))
		return nil
	})
	return l, lines, err
}

// Of one log and size there is one prefix, from whichever smaller one it was made.
func TestPrefixOfPrefix(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		f := finish(t, seed, 80)
		r := rand.New(rand.NewPCG(seed, 27))
		var list []*Prefix
		for size := uint64(1); size <= f.size(); size++ {
			for _, reader := range readers {
				s := reader(f.memory)
				whole := f.fold(s, nil, size)
				if len(list) > 0 {
					p := list[r.IntN(len(list))]
					require.Equal(t, whole, f.fold(s, p, size), "log %d, from %d to %d", seed, p.Size, size)
				}
				require.Equal(t, whole, f.fold(s, whole, size))
				list = append(list, whole)
			}
			p := list[len(list)-1]
			tree, err := p.Tree()
			require.NoError(t, err)
			root, err := tlog.TreeHash(int64(size), f.memory)
			require.NoError(t, err)
			require.Equal(t, contracts.Digest(root), tree.Root())
			require.Equal(t, f.all[size-1], p.Last)
		}
	}
}

// A log that was opened from a prefix of any size is the log that was read whole: its chains, what
// is found and what is forgotten, and the entries that come next.
func TestOpenFromPrefix(t *testing.T) {
	t.Parallel()
	named := 0
	for seed := range uint64(5) {
		f := finish(t, seed, 80)
		whole, lines, err := f.opens(readOnly{f.memory}, nil)
		require.NoError(t, err)
		chains := chainsOf(whole)
		for size := uint64(1); size <= f.size(); size++ {
			for name, reader := range readers {
				s := reader(f.memory)
				l, got, err := f.opens(s, f.fold(s, nil, size))
				require.NoError(t, err, "log %d, from %d, %s", seed, size, name)
				require.True(t, slices.Equal(lines[size:], got), "log %d, from %d, %s", seed, size, name)
				require.Equal(t, chains, chainsOf(l))
				require.Equal(t, whole.tree.Root(), l.tree.Root())
				require.Equal(t, whole.marked, l.marked)
				named += f.sameFound(whole, l)
				f.sameNext(whole, l)
			}
		}
	}
	assert.Greater(t, named, 5000, "entries below the prefix that were found")
}

// chainsOf returns the chains of a log, and of those that are closed what there is of them.
func chainsOf(l *Log) map[string]Chain {
	all := map[string]Chain{}
	for name, c := range l.chains {
		copied := *c
		if copied.log = nil; c.closed {
			copied = Chain{session: name, closed: true, end: c.end}
		}
		all[name] = copied
	}
	return all
}

// sameFound compares what two logs find.
func (f *finished) sameFound(whole, l *Log) (named int) {
	f.Helper()
	for i, hash := range f.all {
		index := uint64(i)
		at, ok := whole.Lookup(hash)
		require.True(f, !ok || at == index)
		found, err := l.Find(f.Context(), contracts.Ref{Index: index, Hash: hash})
		require.NoError(f, err)
		require.Equal(f, ok, found, "entry %d, prefix of %d", index, l.older.size)
		for _, other := range []uint64{index + 1, index - 1, uint64(len(f.all)), 1 << 40} {
			found, err := l.Find(f.Context(), contracts.Ref{Index: other, Hash: hash})
			require.True(f, err == nil && !found, "entry %d as %d: %v", index, other, err)
		}
		_, lamport, _ := whole.lookup(hash)
		at2, lamport2, ok2 := l.lookup(hash)
		require.True(f, ok == ok2 && at == at2 && lamport == lamport2, "entry %d", index)
		if ok && index < l.older.size {
			named++
		}
		found, err = l.Find(f.Context(), contracts.Ref{Index: index, Hash: crypto.Sum(hash[:])})
		require.True(f, err == nil && !found)
	}
	for name := range whole.chains {
		for size := range uint64(len(f.all)) + 1 {
			require.Equal(f, whole.Closed(name, size), l.Closed(name, size))
		}
	}
	return named
}

// sameNext compares the next entry of each session, one that names all it can, in two logs.
func (f *finished) sameNext(whole, l *Log) {
	f.Helper()
	var parents []contracts.Digest
	for _, hash := range f.all {
		if _, ok := whole.Lookup(hash); ok && len(parents) < contracts.MaxParents {
			parents = append(parents, hash)
		}
	}
	for _, name := range append(slices.Sorted(maps.Keys(whole.chains)), "new") {
		a, err1 := whole.take(&Draft{Chain: whole.Chain(name), Time: 1 << 40, Parents: parents})
		b, err2 := l.take(&Draft{Chain: l.Chain(name), Time: 1 << 40, Parents: parents})
		require.Equal(f, err1, err2)
		if err1 == nil {
			require.Equal(f, a.header, b.header)
			require.Equal(f, a.Index()-whole.size, b.Index()-l.size)
		}
	}
	for _, x := range []*Log{whole, l} { // the places are given back
		x.slots = nil
		for _, c := range x.chains {
			c.open = false
		}
		delete(x.chains, "new")
	}
}
