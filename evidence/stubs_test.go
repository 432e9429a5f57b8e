package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// TestStubsInPlace: whichever entries of the sets stand as stubs, packs and stores verify, with the
// same roots and counts, and what is not there is listed.
func TestStubsInPlace(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 3)
	x := newLetGoer(t, m)
	first := x.letGo(2, 14)
	second := x.letGo(1, x.read()) // what the first one had, and more
	m.Allowed(forge.Ask{Session: "later", Tool: "fs.list", Args: `{}`, Who: forge.Reader}).Ran(`[]`)
	m.Checkpoint()
	o := Options{Trust: m.Trust, CrossCheck: true}
	want, err := VerifyStore(t.Context(), x.store(nothing), o)
	require.NoError(t, err)
	require.Len(t, want.Condensed, 2)
	n := uint64(len(x.stubs))
	require.True(t, want.Condensed[0].Dropped+want.Condensed[1].Dropped == n && n == 18 &&
		want.Condensed[0].Hash == first && want.Condensed[1].Hash == second, "%+v", want.Condensed)
	for name, goes := range map[string]func(uint64) bool{"none": nothing, "all": everything,
		"even": func(i uint64) bool { return i%2 == 0 }, "odd": func(i uint64) bool { return i%2 == 1 },
		"every third": func(i uint64) bool { return i%3 == 0 }, "the first set": func(i uint64) bool { return i < 14 }} {
		t.Run(name, func(t *testing.T) {
			s := x.store(goes)
			r, err := VerifyStore(t.Context(), s, o)
			require.NoError(t, err)
			pack := packOf(t, s)
			ofPack, err := verifyBytes(t, pack, o)
			require.NoError(t, err)
			require.Equal(t, r, ofPack)
			require.Equal(t, pack, packOf(t, s))
			assert.True(t, r.Success(Logged) && r.MerkleRoot == want.MerkleRoot && r.ProofGraphHash == want.ProofGraphHash &&
				r.Totals == want.Totals && len(r.Strange) == 0, "%+v", r)
			var stubs uint64
			for i := range x.stubs {
				if goes(i) {
					stubs++
				}
			}
			assert.Equal(t, stubs, r.Condensed[0].Stubs+r.Condensed[1].Stubs)
			// every decision of a set was replayed, unless it is a stub
			assert.True(t, r.Replay.Differing == 0 && r.Replay.NotReplayable == 0 && len(r.Erased) == 0 &&
				r.Replay.Replayed <= want.Replay.Replayed && (stubs < n || r.Replay.Replayed == want.Replay.Replayed-n/2),
				"%+v", r.Replay)

			p, _, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
			require.NoError(t, err)
			lines, err := gathered(t.Context(), p, 0, uint64(len(s.Lines)))
			require.NoError(t, err)
			require.Equal(t, s.Lines, lines)

			d, err := BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, m.Policy(), nil)
			require.NoError(t, err)
			assert.EqualValues(t, want.Allows+want.Denials, d.Judged+uint64(len(d.Unjudged))+r.Replay.KernelsOwn)
			for _, i := range d.Unjudged {
				assert.True(t, contracts.IsStub(s.Lines[i]), "entry %d is not judged", i)
			}
		})
	}
}

// TestWriteCondensed: no pack is written up to a checkpoint that is older than the condense entry
// by which an entry went.
func TestWriteCondensed(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 2)
	x := newLetGoer(t, m)
	x.letGo(2, 9)
	m.Checkpoint()
	s := x.store(everything)
	require.NotEmpty(t, packOf(t, s))
	x.letGo(2, x.read())
	later := x.store(func(i uint64) bool { return i >= 9 })
	later.Note = s.Note
	err := Write(t.Context(), io.Discard, later, forge.Key(t, forge.SeedK1))
	assert.True(t, errors.Is(err, ErrCondensed), "%v", err)
	_, err = VerifyStore(t.Context(), later, Options{Trust: m.Trust})
	assert.ErrorIs(t, err, ErrGap)
	// with its own checkpoint, it is
	m.Checkpoint()
	require.NotEmpty(t, packOf(t, x.store(everything)))
}

// TestWriteOtherStubs: a store whose stubs are of nothing, or change while they are read, is not
// packed.
func TestWriteOtherStubs(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 2)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	write := func(s *forge.Shelf) error { return Write(t.Context(), io.Discard, s, forge.Key(t, forge.SeedK1)) }
	at := slices.IndexFunc(x.store(everything).Lines, contracts.IsStub)
	for name, change := range map[string]func(*contracts.Stub){
		"of no decision": func(s *contracts.Stub) {
			s.Decision = nil
			s.Receipt = &contracts.ReceiptStub{Decision: 1 << 52, Outcome: "FAILED"}
		},
		"of no policy": func(s *contracts.Stub) { s.Decision.Policy = 1 << 52 },
		"of a stub":    func(s *contracts.Stub) { s.Decision.Policy = uint64(at) },
	} {
		s := x.store(everything)
		stub := stubOf(t, s.Lines[at])
		change(stub)
		s.Lines[at] = stub.Append(nil)
		assert.Error(t, write(s), "%s", name)
		_, err := VerifyStore(t.Context(), s, Options{Trust: m.Trust})
		var f *Error
		assert.True(t, errors.As(err, &f) && f.Entry == int64(at), "%s: %v", name, err)
	}
	calls := 0
	lying := &forge.FaultyStore{Store: x.store(everything), OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
		if calls++; contracts.IsStub(e) && calls > len(x.lines)+2 { // after the first pass
			return bytes.Replace(e, []byte(`"lamport":`), []byte(`"lamport":1`), 1), nil
		}
		return e, nil
	}}
	err := Write(t.Context(), io.Discard, lying, forge.Key(t, forge.SeedK1))
	assert.ErrorIs(t, err, errDamaged)
}

// TestStubsThatChange: a line that is another one when it is read again is a fault of the store,
// whatever it has instead: another stub with the same entry, or the entry itself. If it is a stub,
// and was none, the log is read from the beginning again, and the stub is judged as any.
func TestStubsThatChange(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 2)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	half := x.store(func(i uint64) bool { return i%2 == 0 })
	tried := 0
	for i := range x.stubs {
		others := []contracts.Entry{x.lines[i], x.stubs[i]}
		s := stubOf(t, x.stubs[i])
		s.Lamport++
		others = append(others, s.Append(nil))
		for _, other := range others {
			if bytes.Equal(other, half.Lines[i]) {
				continue
			}
			tried++
			reads := 0
			store := &forge.FaultyStore{Store: half, OnEntry: func(_ int, e contracts.Entry) (contracts.Entry, error) {
				if bytes.Equal(e, half.Lines[i]) {
					if reads++; reads > 1 {
						return other, nil
					}
				}
				return e, nil
			}}
			r, err := VerifyStore(t.Context(), store, Options{Trust: m.Trust})
			switch {
			case contracts.IsStub(half.Lines[i]):
				assert.True(t, errors.Is(err, ErrStore) && errors.Is(err, errChanged), "entry %d: %v", i, err)
			case bytes.Equal(other, x.stubs[i]):
				assert.NoError(t, err, "entry %d was let go of", i)
				assert.EqualValues(t, len(x.stubs)/2+1, r.Condensed[0].Stubs)
			default:
				assert.Error(t, err)
				assert.NotErrorIs(t, err, ErrStore, "entry %d: what is wrong is the stub", i)
			}
		}
	}
	assert.True(t, tried == 2*len(x.stubs) && tried >= 20, "%d cases", tried)
}

// TestPackOfStubsThatChanged: an opened pack never returns another stub than the one that was
// verified, whatever byte of it changes.
func TestPackOfStubsThatChanged(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 1)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	s := x.store(everything)
	pack := packOf(t, s)
	r := &turncoat{good: bytes.NewReader(pack)}
	p, _, err := OpenPack(t.Context(), r, int64(len(pack)), Options{Trust: m.Trust})
	require.NoError(t, err)
	r.turned.Store(true)
	at := bytes.Index(pack, []byte(`{"stub":`))
	end := bytes.LastIndex(pack, []byte(`{"stub":`))
	end += bytes.IndexByte(pack[end:], '\n')
	require.True(t, at > 0 && end-at > 1000, "%d %d", at, end)
	for i := at; i < end; i++ {
		b := bytes.Clone(pack)
		b[i] ^= 1
		r.bad = bytes.NewReader(b)
		lines, err := gathered(t.Context(), p, 0, uint64(len(s.Lines)))
		require.True(t, errors.Is(err, ErrArchive), "byte %d: %v", i, err)
		for j, e := range lines {
			require.Equal(t, s.Lines[j], e)
		}
	}
}

// TestDocumentsOfStubs: a policy document by which a stub or a set is judged, and that is not there
// or has other bytes, is BLOB at once, before what comes after it.
func TestDocumentsOfStubs(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 1)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	for name, goes := range map[string]func(uint64) bool{"a stub": everything, "a set": nothing} {
		s := x.store(goes)
		want := slices.IndexFunc(s.Lines, contracts.IsStub)
		if want < 0 {
			want = len(s.Lines) - 1 // the condense entry
		}
		var documents []contracts.Digest
		for d, b := range s.Blobs {
			if bytes.Contains(b, []byte(`"layer":"P`)) {
				documents = append(documents, d)
			}
		}
		require.Len(t, documents, 2)
		after := want + 1
		if after < len(s.Lines) {
			s.Lines[after] = contracts.Entry("no entry")
		}
		for _, d := range documents {
			b := s.Blobs[d]
			for _, instead := range [][]byte{nil, []byte("{}")} {
				if s.Blobs[d] = instead; instead == nil {
					delete(s.Blobs, d)
				}
				_, err := VerifyStore(t.Context(), s, Options{Trust: m.Trust})
				var f *Error
				assert.True(t, errors.As(err, &f) && f.Check == ErrBlob && f.Entry == int64(want), "%s: %v", name, err)
			}
			s.Blobs[d] = b
		}
		_, err := VerifyStore(t.Context(), s, Options{Trust: m.Trust})
		assert.True(t, after < len(s.Lines) && errors.Is(err, ErrEncoding) || after == len(s.Lines) && err == nil, "%s: %v",
			name, err)
	}
}

// TestClocks: the time of condense entries is compared with that of the Quorum-th latest witness,
// to the millisecond, whatever times they say.
func TestClocks(t *testing.T) {
	t.Parallel()
	const now = 1_790_000_000
	at := contracts.Time(now * 1000)
	for _, x := range []struct {
		latest []int64
		quorum int
		times  []contracts.Time
		fault  int // number of the condense entry; -1: none
	}{
		{[]int64{now}, 1, nil, -1},
		{[]int64{now}, 1, []contracts.Time{0, at, at + 300_000}, -1},
		{[]int64{now}, 1, []contracts.Time{at, at + 300_001}, 1},
		{[]int64{now}, 1, []contracts.Time{at + 300_001, at + 400_000}, 0},
		{[]int64{now, now - 100}, 2, []contracts.Time{at + 200_000}, -1},
		{[]int64{now - 100, now}, 2, []contracts.Time{at + 200_001}, 0},
		{[]int64{now - 100, now}, 1, []contracts.Time{at + 300_000}, -1},
		{[]int64{0, now, now + 50, 0}, 2, []contracts.Time{at + 300_001}, 0},
		{[]int64{math.MaxInt64, math.MaxInt64}, 2, []contracts.Time{253402300799999}, -1},
		{[]int64{1, math.MaxInt64}, 2, []contracts.Time{301_000}, -1},
		{[]int64{1, math.MaxInt64}, 2, []contracts.Time{301_001}, 0},
		{[]int64{1}, 1, []contracts.Time{0}, -1},
	} {
		r := Report{Level: Witnessed}
		for i := range x.times {
			r.Condensed = append(r.Condensed, Range{Index: uint64(100 + i)})
		}
		w := witnessed{quorum: x.quorum, latest: x.latest}
		f := w.dated(&r, x.times)
		if x.fault < 0 {
			assert.Nil(t, f, "%+v", x)
		} else if assert.NotNil(t, f, "%+v", x) {
			assert.True(t, f.Check == ErrCosign && f.Entry == int64(100+x.fault), "%+v: %v", x, f)
		}
		r.Level = Logged
		assert.Nil(t, w.dated(&r, x.times))
	}
}

// TestManyCondenseEntries: the lines of ranges are read again, and nothing else that grows with the
// log: of n condense entries over a log of 8n entries a verifier reads each line some times more.
// -full has ten thousand of them, and prints the time.
func TestManyCondenseEntries(t *testing.T) {
	t.Parallel()
	reads := func(n int) (lines, again float64) {
		m := filesLog(t, n)
		x := newLetGoer(t, m)
		size := x.read()
		const each = 8 // entries of a session
		for from := uint64(2); from+each <= size; from += each {
			x.letGo(from, from+each)
		}
		m.Checkpoint()
		store := &forge.FaultyStore{Store: x.store(everything)}
		got := 0
		store.OnEntry = func(_ int, e contracts.Entry) (contracts.Entry, error) { got++; return e, nil }
		begun := time.Now()
		r, err := VerifyStore(t.Context(), store, Options{Trust: m.Trust})
		took := time.Since(begun)
		require.NoError(t, err)
		require.Len(t, r.Condensed, n)
		t.Logf("%d condense entries, %d entries: %v, %v an entry", n, len(x.lines), took.Round(time.Millisecond),
			(took / time.Duration(len(x.lines))).Round(100*time.Nanosecond))
		return float64(len(x.lines)), float64(got)
	}
	sizes := []int{20, 400}
	if *forge.Full {
		sizes = []int{2_500, 10_000}
	}
	few, fewReads := reads(sizes[0])
	many, manyReads := reads(sizes[1])
	assert.True(t, manyReads/many < 1.05*fewReads/few+0.5, "%.1f a line of %.0f, %.1f of %.0f", fewReads/few, few,
		manyReads/many, many)
}

// TestFadedFacts: the facts of a stub are read if another entry keeps them. Else what was found in
// them is as the inputs say, and the source is counted.
func TestFadedFacts(t *testing.T) {
	t.Parallel()
	const bundle = `{"bundle":{"name":"bank","version":1},"helm":"policy/v1","layer":"P1","rules":[` +
		`{"deny":"pay","id":"strangers","unless":{"arg":"/to","from":["list#payee"]}},{"allow":["list","pay"],"id":"all"}],` +
		`"tools":{"list":{"effect":"read","facts":{"payee":{"at":"/*/to","trusted":true}},"input":{"type":"object"},` +
		`"output":{"items":{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"},"type":"array"}},` +
		`"pay":{"effect":"write","input":{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"},` +
		`"risk":"high"}}}`
	for _, kept := range []bool{false, true} {
		m := forge.NewMaker(t)
		m.Use(floor, bundle)
		m.Allowed(forge.Ask{Session: "s", Tool: "list", Args: `{}`}).Ran(`[{"to":"DE89"}]`)
		if kept { // the same facts, in a session that stays open
			m.Allowed(forge.Ask{Session: "open", Tool: "list", Args: `{}`}).Ran(`[{"to":"DE89"}]`)
		}
		m.Allowed(forge.Ask{Session: "s", Tool: "pay", Args: `{"to":"DE89"}`}).Ran(`1`)
		m.Denied(contracts.ReasonPolicyViolation, forge.Ask{Session: "s", Tool: "pay", Args: `{"to":"FR76"}`})
		m.Close("s")
		m.Now += 2 * day
		x := newLetGoer(t, m)
		x.letGo(2, x.read())
		require.Len(t, x.stubs, 2)
		m.Checkpoint()
		for _, goes := range []func(uint64) bool{nothing, everything} {
			r, err := verifyBytes(t, packOf(t, x.store(goes)), Options{Trust: m.Trust})
			require.NoError(t, err)
			unseen := uint64(0)
			if r.Condensed[0].Stubs > 0 && !kept {
				unseen = 2
			}
			assert.True(t, r.Success(Logged) && r.Replay.Unseen == unseen && len(r.Erased) == 0, "kept %v: %+v", kept, r.Replay)
		}
	}
}

// TestStrange: what the caller has and the log has not is listed, once and sorted, and is no fault.
func TestStrange(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 1)
	x := newLetGoer(t, m)
	hash := x.letGo(2, x.read())
	m.Checkpoint()
	other := forge.SmallLog(t, 0)
	foreign := forge.Shelve(t, other.Pack(Write)).Lines[2]
	seen := []contracts.Digest{{9}, hash, {3}, {9}}
	kept := []contracts.Entry{foreign, x.lines[2], x.lines[3], x.lines[len(x.lines)-2], foreign}
	o := Options{Trust: m.Trust, Seen: seen, Kept: kept}
	r, err := VerifyStore(context.Background(), x.store(everything), o)
	require.NoError(t, err)
	want := []contracts.Digest{{3}, {9}, foreign.Hash()}
	slices.SortFunc(want, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	assert.Equal(t, want, r.Strange)
	assert.True(t, r.Condensed[0].Seen && r.Success(Logged), "%+v", r)
	for _, bad := range []contracts.Entry{nil, contracts.Entry("{}"), x.stubs[2], append(bytes.Clone(foreign), ' ')} {
		o.Kept = []contracts.Entry{foreign, bad}
		r, err := VerifyStore(t.Context(), x.store(everything), o)
		var f *Error
		assert.True(t, errors.As(err, &f) && f.Check == ErrInput && f.Field == "Kept.1" && r.Level == Invalid, "%q: %v", bad, err)
	}
}

// TestLatestBelowRange: what is dated back counts as old as the latest entry before it, also if
// that is below the range, wherever the range begins.
func TestLatestBelowRange(t *testing.T) {
	t.Parallel()
	slow := strings.Replace(strings.Replace(floor, `"24h"`, `"72h"`, 1), `"version":1`, `"version":2`, 1)
	for _, lie := range []bool{false, true} {
		for gap := range 17 {
			m := forge.NewMaker(t)
			m.Use(floor, forge.FilesPolicy(1))
			call := func(session string) {
				m.Allowed(forge.Ask{Session: session, Tool: "fs.list", Args: `{}`, Who: forge.Reader}).Ran(`[]`)
			}
			start := m.Now
			m.Now += day
			m.Say("late", "a day later than what follows")
			m.Now = start
			for i := range gap {
				m.Say("early", string(rune('a'+i)))
			}
			from, err := m.Store.Size(t.Context())
			require.NoError(t, err)
			call("s")
			m.Use(slow, forge.FilesPolicy(2)) // three days after what was late, nothing of it may go
			call("s")
			m.Close("s")
			m.Now = start + 3*day + 1000
			x := newLetGoer(t, m)
			x.latest0 = lie
			x.letGo(from, x.read())
			m.Checkpoint()
			r, err := verifyBytes(t, packOf(t, x.store(nothing)), Options{Trust: m.Trust})
			var f *Error
			switch {
			case lie:
				assert.True(t, errors.As(err, &f) && f.Check == ErrGap && f.Field == "predicate.dropped", "gap %d: %v", gap, err)
			case assert.NoError(t, err):
				assert.EqualValues(t, 2, r.Condensed[0].Dropped)
			}
		}
	}
}

// TestRootAt: the root that a log had at each size is that of its first entries.
func TestRootAt(t *testing.T) {
	t.Parallel()
	var l log
	var tree proofgraph.Tree
	var roots []contracts.Digest
	const n = 700
	for i := range n {
		hash := crypto.LeafHash([]byte{byte(i), byte(i >> 8)})
		require.NoError(t, l.index.Add(hash, 0))
		roots = append(roots, tree.Root())
		tree.Append(hash)
		if i%97 == 0 && i > 0 { // the nodes of some sizes are asked for while the log grows
			require.Equal(t, roots[i/2], l.rootAt(uint64(i/2)))
		}
	}
	for size := n - 1; size > 0; size-- {
		require.Equal(t, roots[size], l.rootAt(uint64(size)), "size %d", size)
	}
}

// TestStubOfAnotherSession: a receipt is of its session's decision.
func TestStubOfAnotherSession(t *testing.T) {
	t.Parallel()
	m := forge.NewMaker(t)
	m.Use(floor, forge.FilesPolicy(1))
	var calls []*forge.Called
	for _, session := range []string{"s", "t"} {
		calls = append(calls, m.Allowed(forge.Ask{Session: session, Tool: "fs.list", Args: `{}`, Who: forge.Reader}))
	}
	for _, c := range calls {
		c.Ran(`[]`)
	}
	m.Close("s")
	m.Close("t")
	m.Now += 2 * day
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	require.Len(t, x.stubs, 4)
	m.Checkpoint()
	store := x.store(everything)
	s := stubOf(t, store.Lines[4])
	s.Receipt.Decision = 3
	store.Lines[4] = s.Append(nil)
	_, err := VerifyStore(t.Context(), store, Options{Trust: m.Trust})
	var f *Error
	require.ErrorAs(t, err, &f)
	assert.True(t, f.Check == ErrReference && f.Entry == 4 && f.Field == "stub.decision", "%v", err)
}

// TestKeptOfOthers: an entry that no kernel key signed says nothing of the stub with its hash.
func TestKeptOfOthers(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 1)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	e := x.lines[2]
	forged := bytes.Clone(e)
	at := bytes.Index(forged, []byte(`"sig":"`)) + len(`"sig":"`)
	forged[at] = 'A' + (forged[at]-'A'+1)%26
	sealed, err := new(contracts.Reader).Open(e)
	require.NoError(t, err)
	foreign := crypto.AppendEnvelope(nil, contracts.PayloadType, sealed.Payload, sealed.KeyID,
		mustSign(t, forge.SeedX, sealed.Payload))
	for name, kept := range map[string]contracts.Entry{"a bit of the signature": forged, "another key's": foreign} {
		v := newVerifier(t.Context(), Options{Trust: m.Trust, Kept: []contracts.Entry{kept}})
		require.Nil(t, v.given(), "%s", name)
		s := stubOf(t, x.stubs[2])
		s.Entry = kept.Hash()
		s.Decision.Tool = "fs.write" // of its own entry it would be another
		require.Nil(t, v.held.compare(s, s.Append(nil), &v.opener), "%s", name)
		assert.Equal(t, []contracts.Digest{kept.Hash()}, v.held.strange(), "%s", name)
	}
	v := newVerifier(t.Context(), Options{Trust: m.Trust, Kept: []contracts.Entry{e}})
	require.Nil(t, v.given())
	s := stubOf(t, x.stubs[2])
	s.Decision.Tool = "fs.write"
	f := v.held.compare(s, s.Append(nil), &v.opener)
	require.True(t, f != nil && f.Check == ErrGap, "%v", f)
}

func mustSign(t testing.TB, seed byte, payload []byte) []byte {
	t.Helper()
	sig, err := crypto.Sign(forge.Key(t, seed), crypto.AppendPAE(nil, contracts.PayloadType, payload))
	require.NoError(t, err)
	return sig
}
