package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A fake is a source that does what a test says.
type fake struct {
	size    func(context.Context) (uint64, error)
	entries func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
}

func (f fake) Size(ctx context.Context) (uint64, error) { return f.size(ctx) }

func (f fake) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return f.entries(ctx, from, to)
}

// at is a source as it was when it had so many entries.
func at(s Source, n uint64) fake {
	return fake{func(context.Context) (uint64, error) { return n, nil }, s.Entries}
}

// having is a source of these entries that says it has n, and yields them all whatever is
// asked.
func having(n uint64, list ...contracts.Entry) fake {
	return at(fake{entries: func(_ context.Context, from, _ uint64) iter.Seq2[contracts.Entry, error] {
		return func(yield func(contracts.Entry, error) bool) {
			for _, e := range list[from:] {
				if !yield(e, nil) {
					return
				}
			}
		}
	}}, n)
}

// sealed is an entry in an envelope without a valid signature.
func sealed(st *contracts.Statement) contracts.Entry {
	if d := st.Judgement(); d != nil {
		d.Seal(st.Session, st.Seq, crypto.Sum(nil))
	}
	return crypto.AppendEnvelope(nil, contracts.PayloadType, st.Append(nil), st.Key, make([]byte, 64))
}

func message(session string, seq uint64, prev contracts.Digest, parents ...contracts.Digest) contracts.Entry {
	return sealed(&contracts.Statement{Header: contracts.Header{Session: session, Seq: seq, Prev: prev,
		Parents: parents},
		Message: new(contracts.Message)})
}

var errSource = errors.New("the disk is on fire")

// mustRefuse holds an error to its form: no graph with it, the package, the place and what is
// wrong.
func mustRefuse(t *testing.T, g *Graph, err error, says ...string) {
	t.Helper()
	require.True(t, g == nil && err != nil && strings.HasPrefix(err.Error(), "graph: "), "%v, %v", g, err)
	for _, s := range says {
		assert.Contains(t, err.Error(), s, "%v: it does not say", err)
	}
}

// A source may do what it likes: what comes of it is an error which says where.
func TestHostileSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3).calls(12)
	list := entries(t, w.store)
	n := uint64(len(list))
	g, err := Read(t.Context(), having(n, list...))
	require.True(t, err == nil && g.Size() == n && n >= 20, "what is not hostile: %v", err)
	sized := func(n uint64, err error) fake {
		return fake{func(context.Context) (uint64, error) { return n, err }, w.store.Entries}
	}
	panicked := "the source or the writer panicked"
	giving := func(f iter.Seq2[contracts.Entry, error]) fake {
		return at(fake{entries: func(context.Context, uint64, uint64) iter.Seq2[contracts.Entry, error] { return f }},
			n)
	}
	for name, test := range map[string]struct {
		s    Source
		says string
	}{
		"none":                 {nil, "no source"},
		"a nil store":          {(*proofgraph.Memory)(nil), panicked + ": runtime error"},
		"its size is an error": {sized(n, errSource), "on fire"},
		"its size panics": {fake{size: func(context.Context) (uint64, error) { panic(errSource) }},
			panicked + " with a *errors.errorString"},
		"a size beyond all":           {sized(1<<64-1, nil), "at most 134217728"},
		"a size one beyond the limit": {sized(maxEntries+1, nil), "at most 134217728"},
		"a size that it has not": {having(maxEntries, list...),
			fmt.Sprint("entry ", n, ": the source has fewer entries")},
		"one entry fewer": {having(n+1, list...),
			fmt.Sprint("entry ", n, ": the source has fewer entries")},
		"no entries": {having(n), "entry 0: the source has fewer entries"},
		"one entry more": {having(n-1, list...),
			fmt.Sprint("entry ", n-1, ": the source has more entries")},
		"entries where there are none": {having(0, list...), "entry 0: the source has more entries"},
		"endless ones": {giving(func(yield func(contracts.Entry, error) bool) {
			for i := 0; yield(list[min(i, len(list)-1)], nil); i++ {
			}
		}), fmt.Sprint("entry ", n, ": the source has more entries")},
		"no iterator": {giving(nil), "panicked: runtime error"},
		"an error on the way": {giving(func(yield func(contracts.Entry, error) bool) {
			_ = yield(list[0], nil) && yield(list[1], errSource)
		}), "entry 1: the disk is on fire"},
		"a panic on the way": {giving(func(yield func(contracts.Entry, error) bool) {
			yield(list[0], nil)
			panic("secret " + secret)
		}), panicked + " with a string"},
		"it does not stop": {giving(func(yield func(contracts.Entry, error) bool) {
			for {
				yield(nil, nil)
			}
		}), "panicked: runtime error"},
	} {
		g, err := Read(t.Context(), test.s)
		mustRefuse(t, g, err, test.says)
		assert.True(t, !strings.Contains(fmt.Sprint(err), secret) && errors.Is(err,
			errSource) == strings.Contains(test.says, "on fire"), "%s: %v", name, err)
	}
}

// Entries that are no entries, or do not stand to one another as entries of a log do.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	genesis := entries(t, newWorld(t, 3).store)[0]
	h := genesis.Hash()
	a0 := message("a", 0, h)
	a1 := message("a", 1, a0.Hash())
	b0 := message("b", 0, h, a1.Hash())
	g, err := Read(t.Context(), having(4, genesis, a0, a1, b0))
	require.True(t, err == nil && g.Ancestors(3, Causes).Len() == 2, "what is in order: %v", err)
	begin := func(seq uint64, prev contracts.Digest, parents ...contracts.Digest) contracts.Entry {
		return sealed(&contracts.Statement{Header: contracts.Header{Seq: seq, Prev: prev, Parents: parents},
			Genesis: &contracts.Genesis{Nonce: strings.Repeat("0", 32), Origin: "other", Version: 1}})
	}
	kernels := sealed(&contracts.Statement{Header: contracts.Header{Seq: 1, Prev: a0.Hash()},
		Condense: &contracts.Condense{Dropped: 1, Size: 1, To: 1}})
	none := contracts.Digest{}
	for name, test := range map[string]struct {
		list []contracts.Entry
		says string
	}{
		"nothing":  {[]contracts.Entry{genesis, nil}, "entry 1: contracts: ENCODING"},
		"no JSON":  {[]contracts.Entry{genesis, a0, contracts.Entry("}")}, "entry 2: contracts: ENCODING"},
		"too long": {[]contracts.Entry{make(contracts.Entry, 64<<20)}, "entry 0: contracts: ENCODING"},
		"a gap": {[]contracts.Entry{genesis, contracts.Entry(`{"gap":{"from":1,"nodes":[],"to":2}}`)},
			"entry 1: contracts: ENVELOPE"},
		"a name that is none": {[]contracts.Entry{genesis, message("\u202e\"}", 0, h)},
			"entry 1: contracts: RECORD: predicate.session"},
		"no genesis":                 {[]contracts.Entry{a0}, "entry 0: predicateType"},
		"a second genesis":           {[]contracts.Entry{genesis, begin(1, h)}, "entry 1: predicateType"},
		"a genesis behind something": {[]contracts.Entry{begin(0, h)}, "entry 0: predicate.prev"},
		"a genesis with a parent":    {[]contracts.Entry{begin(0, none, h)}, "entry 0: predicate.parents"},
		"a genesis that counts":      {[]contracts.Entry{begin(1, none)}, "entry 0: predicate.seq"},
		"one left out":               {[]contracts.Entry{genesis, a1}, "entry 1: predicate.seq"},
		"one twice":                  {[]contracts.Entry{genesis, a0, a0}, "entry 2: predicate.seq"},
		"two in one place": {[]contracts.Entry{genesis, a0, message("a", 0, h, a0.Hash())},
			"entry 2: predicate.seq"},
		"the wrong way round": {[]contracts.Entry{genesis, a0, b0, a1}, "entry 2: predicate.parents"},
		"behind another of its session": {[]contracts.Entry{genesis, a0, a1, message("a", 2, a0.Hash())},
			"entry 3: predicate.prev"},
		"behind another session": {[]contracts.Entry{genesis, a0, message("b", 0, a0.Hash())},
			"entry 2: predicate.prev"},
		"behind nothing": {[]contracts.Entry{genesis, message("b", 0, none)}, "entry 1: predicate.prev"},
		"behind what is not there": {[]contracts.Entry{genesis, message("b", 0, contracts.Digest{1})},
			"entry 1: predicate.prev"},
		"a parent that is not there": {[]contracts.Entry{genesis, a0, a1,
			message("b", 0, h, a0.Hash(), contracts.Digest{0xff})},
			"entry 3: predicate.parents"},
		"too many parents": {[]contracts.Entry{genesis,
			message("b", 0, h, make([]contracts.Digest, 1_000)...)}, "entry 1: contracts: "},
		"the first of the kernel's behind b": {[]contracts.Entry{genesis, a0, kernels}, "entry 2: predicate.prev"},
	} {
		g, err := Read(t.Context(), having(uint64(len(test.list)), test.list...))
		mustRefuse(t, g, err, test.says)
		assert.False(t, strings.ContainsAny(err.Error(), "\u202e\n"), "%s: %q shows what was sent", name, err)
	}
}

// What was read may be another thing when it is written.
func TestHostileWhenWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3).calls(12)
	list := entries(t, w.store)
	n := uint64(len(list))
	now := having(n, list...)
	g, err := Read(t.Context(), &now)
	require.NoError(t, err)
	other := entries(t, newWorld(t, 3).calls(12).store) // the same, but for its key
	for name, test := range map[string]struct {
		now  fake
		set  Set
		w    io.Writer
		says string
	}{
		"another entry": {having(n, append(slices.Clone(list[:7]), other[7:]...)...), g.All(), io.Discard,
			"entry 7: the source has another one"},
		"fewer entries": {having(n, list[:7]...), g.All(), io.Discard, "entry 7: the source has fewer"},
		"more entries":  {having(n, list...), g.Ancestors(2, Links), io.Discard, "more entries"},
		"an entry that is none": {having(n, append(slices.Clone(list[:7]), nil)...), g.All(), io.Discard,
			"entry 7: contracts: ENCODING"},
		"a set of another one": {having(n, list...), Set{words: []uint64{0, 0, 0, 1 << 63}, n: 1}, io.Discard,
			"entry 255 is in the set and not in this graph"},
		"nowhere":     {having(n, list...), g.All(), nil, "nowhere to write to"},
		"a full disk": {having(n, list...), g.All(), failing{errSource}, "on fire"},
		"a writer that panics": {having(n, list...), g.All(), failing{},
			"the source or the writer panicked with a string"},
	} {
		now = test.now
		for _, write := range []func(context.Context, io.Writer, Set) error{g.WriteDOT, g.WriteJSON} {
			err := write(t.Context(), test.w, test.set)
			mustRefuse(t, nil, err, test.says)
			assert.Equal(t, strings.Contains(test.says, "on fire"), errors.Is(err, errSource), "%s: %v", name, err)
		}
	}
	now = having(n, list...)
	require.NoError(t, g.WriteDOT(t.Context(), io.Discard, g.All()))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) {
	if f.err == nil {
		panic("secret " + secret)
	}
	return 0, f.err
}

// A context that ends ends everything that reads, though the source does not look at it.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3).calls(12)
	list := entries(t, w.store)
	n := uint64(len(list))
	g, err := Read(t.Context(), having(n, list...))
	require.NoError(t, err)
	over, end := context.WithCancel(t.Context())
	end()
	for name, err := range map[string]error{
		"read":          second(Read(over, having(n, list...))),
		"read nothing":  second(Read(over, having(0))),
		"draw":          g.WriteDOT(over, io.Discard, g.All()),
		"draw nothing":  g.WriteDOT(over, io.Discard, Set{}),
		"write":         g.WriteJSON(over, io.Discard, g.All()),
		"write nothing": g.WriteJSON(over, io.Discard, Set{}),
	} {
		mustRefuse(t, nil, err)
		assert.ErrorIs(t, err, context.Canceled, "%s", name)
	}
	var none context.Context // what a caller might give
	never, err := Read(none, proofgraph.NewMemory())
	require.NoError(t, err)
	require.NoError(t, never.WriteDOT(none, io.Discard, Set{}))
	require.NoError(t, g.WriteJSON(none, io.Discard, g.All()))
	during, end := context.WithCancel(t.Context())
	ended := having(n, list...)
	plain := ended.entries
	ended.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		return func(yield func(contracts.Entry, error) bool) {
			i := 0
			for e := range plain(ctx, from, to) {
				if i++; i == 5 {
					end()
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	g, err = Read(during, ended)
	mustRefuse(t, g, err, "entry 4: context canceled")
}

func second(_ *Graph, err error) error { return err }
