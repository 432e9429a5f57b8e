package erasure_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// condensed is the store of forge.CondensedLog, in which stubs are left of some entries of its set:
// 5 and 8 are a call of s2, which names entry 3; 6 and 7 one of main, which failed; 16 and 19, 17
// and 18 two of main, whose outputs were kept.
func condensed(t *testing.T, gone ...int) (proofgraph.Store, evidence.Options) {
	t.Helper()
	m := forge.Condensed(t)
	m.LetGo(func(i int) bool { return slices.Contains(gone, i) })
	return forge.Shelve(t, m.Build()).Fill(t, proofgraph.NewMemory()),
		evidence.Options{Trust: forge.State(t), Origin: forge.Origin}
}

// blobsOf are the blobs of some entries of the log, whole.
func blobsOf(t *testing.T, entries ...int) (list []contracts.Digest) {
	t.Helper()
	var r contracts.Reader
	for i, e := range forge.Shelve(t, forge.Condensed(t).Build()).Lines {
		if !slices.Contains(entries, i) {
			continue
		}
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if d := st.Judgement(); d != nil {
			list = append(list, d.InputsHash)
		} else if st.Receipt.OutputHash != nil {
			list = append(list, *st.Receipt.OutputHash)
		}
	}
	slices.SortFunc(list, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	return list
}

// TestEraseWithStubs: a call of which stubs are left has nothing to be erased, half a call has its
// half, and nothing else is erased with it.
func TestEraseWithStubs(t *testing.T) {
	t.Parallel()
	whole := forge.Shelve(t, forge.Condensed(t).Build()).Lines
	all := []int{5, 6, 7, 8, 16, 17, 18, 19}
	for name, x := range map[string]struct {
		gone   []int
		which  erasure.Selection
		calls  []erasure.Call
		erased []int // entries whose blobs are erased
		fails  string
	}{
		"a stub of a decision": {all, erasure.Selection{Entries: []uint64{16}}, []erasure.Call{{16, "main/9"}}, nil, ""},
		"a stub of a receipt":  {all, erasure.Selection{Entries: []uint64{19}}, []erasure.Call{{16, "main/9"}}, nil, ""},
		"by the hash of the decision": {all, erasure.Selection{Receipts: []contracts.Digest{whole[16].Hash()}},
			[]erasure.Call{{16, "main/9"}}, nil, ""},
		"by the hash of the receipt": {all, erasure.Selection{Receipts: []contracts.Digest{whole[19].Hash()}},
			[]erasure.Call{{16, "main/9"}}, nil, ""},
		"a session": {all, erasure.Selection{Sessions: []string{"s2"}},
			[]erasure.Call{{5, "s2/0"}, {9, "s2/2"}, {11, "@refused/0"}},
			[]int{9, 11}, ""},
		"a session, whole": {nil, erasure.Selection{Sessions: []string{"s2"}},
			[]erasure.Call{{5, "s2/0"}, {9, "s2/2"}, {11, "@refused/0"}}, []int{5, 8, 9, 11}, ""},
		"a caller": {all, erasure.Selection{Callers: []contracts.Caller{{ID: "bob???", Tenant: "acme"}}},
			[]erasure.Call{{9, "s2/2"}, {26, "main/17"}, {27, "main/18"}, {29, "main/20"}}, []int{9, 26, 27, 28, 29}, ""},
		"a receipt whose decision is a stub": {[]int{16}, erasure.Selection{Entries: []uint64{19}},
			[]erasure.Call{{16, "main/9"}}, []int{19}, ""},
		"a stub of a decision, whose receipt is whole": {[]int{16}, erasure.Selection{Entries: []uint64{16}},
			[]erasure.Call{{16, "main/9"}}, []int{19}, ""},
		"a decision whose receipt is a stub": {[]int{19}, erasure.Selection{Entries: []uint64{16}},
			[]erasure.Call{{16, "main/9"}}, []int{16}, ""},
		"a stub of a receipt, whose decision is whole": {[]int{19}, erasure.Selection{Entries: []uint64{19}},
			[]erasure.Call{{16, "main/9"}}, []int{16}, ""},
		"a session, of half calls": {[]int{5}, erasure.Selection{Sessions: []string{"s2"}},
			[]erasure.Call{{5, "s2/0"}, {9, "s2/2"}, {11, "@refused/0"}}, []int{8, 9, 11}, ""},
		"a caller who may have made half a call": {[]int{16}, erasure.Selection{Callers: []contracts.Caller{{ID: "eve"}}},
			nil, nil, "entry 19 is a receipt, and of its decision, entry 16, a stub is left, which has no caller"},
		"a caller, and half a call that is selected": {[]int{16}, erasure.Selection{Callers: []contracts.Caller{{ID: "eve"}},
			Entries: []uint64{19}}, []erasure.Call{{16, "main/9"}}, []int{19}, ""},
		"a caller, the other half": {[]int{19, 18}, erasure.Selection{Callers: []contracts.Caller{{ID: "eve"}}},
			nil, nil, ""},
		"a condense entry": {all, erasure.Selection{Entries: []uint64{32}}, nil, nil, "entry 32 is a condense"},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := condensed(t, x.gone...)
			before, err := evidence.VerifyStore(t.Context(), s, o)
			require.NoError(t, err)
			got, err := erasure.Erase(t.Context(), s, x.which)
			if x.fails != "" {
				assert.ErrorContains(t, err, x.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, x.calls, got.Calls)
			assert.Equal(t, blobsOf(t, x.erased...), got.Erased)
			assert.Empty(t, got.Gone)
			after, err := evidence.VerifyStore(t.Context(), s, o)
			require.NoError(t, err)
			assert.True(t, after.Success(evidence.Logged) && after.MerkleRoot == before.MerkleRoot &&
				len(after.Erased) == len(before.Erased)+len(got.Erased))
		})
	}
}

// TestEraseAnythingWithStubs: whatever is selected of a log with stubs, it can still be verified:
// the documents of the policies that its stubs name are there.
func TestEraseAnythingWithStubs(t *testing.T) {
	t.Parallel()
	made := forge.RandomLog(t, 600, 120)
	m := made.Model()
	stubs := 0
	m.LetGo(func(i int) bool { stubs++; return i%3 > 0 || stubs%2 == 0 })
	require.Greater(t, stubs, 10)
	s := forge.Shelve(t, m.Build()).Fill(t, proofgraph.NewMemory())
	o := evidence.Options{Trust: made.Trust, Origin: forge.Origin}
	before, err := evidence.VerifyStore(t.Context(), s, o)
	require.NoError(t, err)
	all := map[string]bool{}
	for e, err := range s.Entries(t.Context(), 0, before.Size) {
		require.NoError(t, err)
		var r contracts.Reader
		if contracts.IsStub(e) {
			stub, err := r.Stub(e)
			require.NoError(t, err)
			all[stub.Session] = true
			continue
		}
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		all[st.Session] = true
	}
	delete(all, contracts.SessionKernel)
	var which erasure.Selection
	for name := range all {
		which.Sessions = append(which.Sessions, name)
	}
	got, err := erasure.Erase(t.Context(), s, which)
	require.NoError(t, err)
	require.NotEmpty(t, got.Erased)
	after, err := evidence.VerifyStore(t.Context(), s, o)
	require.NoError(t, err)
	assert.True(t, after.Success(evidence.Logged) && after.MerkleRoot == before.MerkleRoot && after.Replay.Replayed == 0)
}
