package proofs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

func entry(n int) contracts.Entry { return fmt.Appendf(nil, "entry %d", n) }

// rootOf returns the root of the first n entries, by the fold of package proofgraph.
func rootOf(n int) tlog.Hash {
	var t proofgraph.Tree
	for i := range n {
		t.Append(entry(i).Hash())
	}
	return tlog.Hash(t.Root())
}

func noteOf(n int, root tlog.Hash) []byte {
	line := crypto.AppendBase64(nil, make([]byte, 68))
	return fmt.Appendf(nil, "example.test/log\n%d\n%s\n\n— example.test/log %s\n", n, root, line)
}

// memory returns a store of n entries, and a checkpoint of the first mark; none if it is 0.
func memory(t *testing.T, n, mark int) *proofgraph.Memory {
	t.Helper()
	m := proofgraph.NewMemory()
	var b proofgraph.Batch
	for i := range n {
		b.Entries = append(b.Entries, entry(i))
	}
	if mark > 0 {
		b.Checkpoint = noteOf(mark, rootOf(mark))
	}
	require.NoError(t, m.Append(t.Context(), b))
	return m
}

// A plain store is no HashReader. It counts passes.
type plain struct {
	proofgraph.Store
	passes int
}

func (s *plain) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if to > from+1 {
		s.passes++
	}
	return s.Store.Entries(ctx, from, to)
}

// A liar is a HashReader that returns what it likes.
type liar struct {
	*plain
	read func(indexes []int64) ([]tlog.Hash, error)
}

func (s liar) ReadHashes(indexes []int64) ([]tlog.Hash, error) { return s.read(indexes) }

func hashesOf(list []contracts.Digest) []tlog.Hash {
	hashes := make([]tlog.Hash, len(list))
	for i, d := range list {
		hashes[i] = tlog.Hash(d)
	}
	return hashes
}

// Proofs of all sizes and checkpoints hold under roots that were computed by other means, from
// stores that have hashes and from those that have none.
func TestProofsHold(t *testing.T) {
	t.Parallel()
	const most = 40
	random := rand.New(rand.NewPCG(1, 2))
	for _, mark := range []int{0, 1, 16, 23, most} {
		m := memory(t, most, mark)
		p := &plain{Store: m}
		lying := liar{p, func(indexes []int64) ([]tlog.Hash, error) { return make([]tlog.Hash, len(indexes)), nil }}
		for _, s := range []proofgraph.Store{m, p, lying} {
			for to := 1; to <= most; to++ {
				if _, lies := s.(liar); lies && to > mark {
					continue // nothing says what is right there
				}
				root, err := Root(t.Context(), s, uint64(to))
				require.NoError(t, err)
				require.Equal(t, rootOf(to), tlog.Hash(root))
				from, index := 1+random.IntN(to), random.IntN(to)
				list, err := Consistency(t.Context(), s, uint64(from), uint64(to))
				require.NoError(t, err)
				require.NoError(t, tlog.CheckTree(hashesOf(list), int64(to), rootOf(to), int64(from), rootOf(from)))
				list, err = Inclusion(t.Context(), s, uint64(index), uint64(to))
				require.NoError(t, err)
				require.NoError(t, tlog.CheckRecord(hashesOf(list), int64(to), rootOf(to), int64(index),
					tlog.Hash(entry(index).Hash())))
			}
		}
		assert.True(t, p.passes > 0)
	}
}

// A store that has hashes is not read from the beginning.
func TestNoPassWhereThereAreHashes(t *testing.T) {
	t.Parallel()
	m := memory(t, 100, 60)
	p := &plain{Store: m}
	s := liar{p, m.ReadHashes}
	for _, to := range []uint64{50, 60, 90} {
		_, err := Consistency(t.Context(), s, 7, to)
		require.NoError(t, err)
		_, err = Inclusion(t.Context(), s, 7, to)
		require.NoError(t, err)
	}
	assert.Zero(t, p.passes)
}

// Hashes that are wrong are not used: of a size up to the checkpoint's whatever they are, and of a
// larger one if they do not fit. A store that fails or panics is as good as one without hashes.
func TestWrongHashesAreNotUsed(t *testing.T) {
	t.Parallel()
	for _, mark := range []int{1, 30, 50} {
		m := memory(t, 50, mark)
		all := tlog.StoredHashIndex(0, 50)
		for wrong := range all {
			p := &plain{Store: m}
			s := liar{p, func(indexes []int64) ([]tlog.Hash, error) {
				list, err := m.ReadHashes(indexes)
				for i, x := range indexes {
					if x == wrong {
						list[i][0] ^= 1
					}
				}
				return list, err
			}}
			for to := 1; to <= mark; to += 3 {
				for _, i := range []int{0, to / 2, to - 1} {
					list, err := Inclusion(t.Context(), s, uint64(i), uint64(to))
					require.NoError(t, err)
					require.NoError(t, tlog.CheckRecord(hashesOf(list), int64(to), rootOf(to), int64(i),
						tlog.Hash(entry(i).Hash())))
				}
				list, err := Consistency(t.Context(), s, uint64(to/2+1), uint64(to))
				require.NoError(t, err)
				require.NoError(t, tlog.CheckTree(hashesOf(list), int64(to), rootOf(to), int64(to/2+1), rootOf(to/2+1)))
			}
		}
	}
	m := memory(t, 50, 30)
	for what, read := range map[string]func([]int64) ([]tlog.Hash, error){
		"fails":       func([]int64) ([]tlog.Hash, error) { return nil, errors.New("no") },
		"panics":      func([]int64) ([]tlog.Hash, error) { panic("no") },
		"too few":     func([]int64) ([]tlog.Hash, error) { return nil, nil },
		"of another":  memory(t, 49, 0).ReadHashes,
		"of no order": func(x []int64) ([]tlog.Hash, error) { return m.ReadHashes(append(x[1:], x[0])) },
	} {
		p := &plain{Store: m}
		list, err := Inclusion(t.Context(), liar{p, read}, 3, 50)
		require.NoError(t, err, what)
		require.NoError(t, tlog.CheckRecord(hashesOf(list), 50, rootOf(50), 3, tlog.Hash(entry(3).Hash())), what)
		require.Equal(t, 1, p.passes, what)
	}
}

// An other store returns another entry, or another number of them.
type other struct {
	*proofgraph.Memory
	at    uint64
	fewer uint64
}

func (s other) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		n := from
		for e, err := range s.Memory.Entries(ctx, from, to-min(s.fewer, to-from)) {
			if n == s.at {
				e[0] ^= 1
			}
			if !yield(e, err) {
				return
			}
			n++
		}
	}
}

// ReadHashes returns hashes of the entries that were there.
func (s other) ReadHashes(indexes []int64) ([]tlog.Hash, error) { return s.Memory.ReadHashes(indexes) }

// No proof is returned of entries that are not those of the checkpoint.
func TestEntriesThatWereExchanged(t *testing.T) {
	t.Parallel()
	const says = "the store's first 30 entries are not those of its checkpoint"
	m := memory(t, 50, 30)
	_, err := Inclusion(t.Context(), other{m, 7, 0}, 7, 20)
	require.ErrorContains(t, err, says)
	_, err = Consistency(t.Context(), &plain{Store: other{m, 7, 0}}, 5, 20)
	require.ErrorContains(t, err, says)
	_, err = Consistency(t.Context(), &plain{Store: other{m, 25, 0}}, 5, 20)
	require.ErrorContains(t, err, says)
	_, err = Consistency(t.Context(), &plain{Store: other{m, 25, 0}}, 5, 40)
	require.ErrorContains(t, err, says)
	_, err = Inclusion(t.Context(), other{m, 40, 0}, 40, 50)
	require.NoError(t, err) // after the checkpoint nothing says which is the entry
	_, err = Inclusion(t.Context(), other{m, 99, 1}, 7, 20)
	require.ErrorContains(t, err, "entry 7: the store does not return it")
	_, err = Consistency(t.Context(), &plain{Store: other{m, 99, 1}}, 5, 20)
	require.ErrorContains(t, err, "the store returned fewer entries than it has")
}

// A failing store fails at one call.
type failing struct {
	*proofgraph.Memory
	note []byte
	err  error
}

func (s failing) Checkpoint(ctx context.Context) ([]byte, error) {
	if s.err != nil {
		panic(s.err)
	}
	return s.note, nil
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	m := memory(t, 50, 30)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for says, ask := range map[string]func() ([]contracts.Digest, error){
		"index 20: not below the size, 20": func() ([]contracts.Digest, error) { return Inclusion(t.Context(), m, 20, 20) },
		"index 0: not below the size, 0":   func() ([]contracts.Digest, error) { return Inclusion(t.Context(), m, 0, 0) },
		"size 51: the log has 50 entries":  func() ([]contracts.Digest, error) { return Inclusion(t.Context(), m, 20, 51) },
		"size 52: the log has 50 entries":  func() ([]contracts.Digest, error) { return Consistency(t.Context(), m, 20, 52) },
		"from 21: above 20":                func() ([]contracts.Digest, error) { return Consistency(t.Context(), m, 21, 20) },
		"from 0: every log extends the":    func() ([]contracts.Digest, error) { return Consistency(t.Context(), m, 0, 20) },
		"no store":                         func() ([]contracts.Digest, error) { return Consistency(t.Context(), nil, 1, 20) },
		"context canceled":                 func() ([]contracts.Digest, error) { return Consistency(ended, m, 1, 20) },
		"checkpoint is of 51 entries, and it has 50": func() ([]contracts.Digest, error) {
			return Consistency(t.Context(), failing{m, noteOf(51, tlog.Hash{}), nil}, 1, 20)
		},
		"not those of its checkpoint": func() ([]contracts.Digest, error) {
			return Consistency(t.Context(), failing{m, noteOf(30, tlog.Hash{}), nil}, 1, 20)
		},
		"proofgraph: checkpoint: ": func() ([]contracts.Digest, error) {
			return Consistency(t.Context(), failing{m, []byte("no note"), nil}, 1, 20)
		},
		"the store panicked with a ": func() ([]contracts.Digest, error) {
			return Inclusion(t.Context(), failing{m, nil, errors.New("secret")}, 1, 20)
		},
	} {
		list, err := ask()
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
		require.Nil(t, list)
	}
}

// What stands for an entry that went has its hash, so every proof is the same.
func TestProofsOfEntriesThatWent(t *testing.T) {
	t.Parallel()
	m := memory(t, 50, 40)
	require.NoError(t, m.Condense(t.Context(), func(yield func(uint64, []byte) bool) {
		for n := 4; n < 30; n += 3 {
			stub := contracts.Stub{Entry: entry(n).Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"}}
			if !yield(uint64(n), stub.Append(nil)) {
				return
			}
		}
	}, func(func(contracts.Digest) bool) {}))
	for _, s := range []proofgraph.Store{m, &plain{Store: m}} {
		for n := range 40 {
			list, err := Inclusion(t.Context(), s, uint64(n), 40)
			require.NoError(t, err)
			require.NoError(t, tlog.CheckRecord(hashesOf(list), 40, rootOf(40), int64(n), tlog.Hash(entry(n).Hash())))
		}
		list, err := Consistency(t.Context(), s, 11, 40)
		require.NoError(t, err)
		require.NoError(t, tlog.CheckTree(hashesOf(list), 40, rootOf(40), 11, rootOf(11)))
	}
	p := proofgraph.NewMemory()
	require.NoError(t, p.Append(t.Context(), proofgraph.Batch{Entries: []contracts.Entry{entry(0), []byte(`{"stub":{}}`)}}))
	_, err := Inclusion(t.Context(), p, 0, 2)
	require.ErrorContains(t, err, "entry 1: ")
	_, err = Inclusion(t.Context(), p, 1, 2)
	require.ErrorContains(t, err, "entry 1: ")
}
