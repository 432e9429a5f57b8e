package evidence

import (
	"bytes"
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
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

func excerptOf(t testing.TB, s proofgraph.Store, x Excerpt) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteExcerpt(t.Context(), &b, s, x))
	return b.Bytes()
}

func verifyExcerptBytes(t testing.TB, b []byte, o Options) (Report, error) {
	t.Helper()
	return VerifyExcerpt(t.Context(), bytes.NewReader(b), int64(len(b)), o)
}

// receiptsIn returns the indexes of the receipts in a store.
func receiptsIn(t testing.TB, s proofgraph.Store) (list []uint64) {
	t.Helper()
	size, err := s.Size(t.Context())
	require.NoError(t, err)
	var r contracts.Reader
	index := uint64(0)
	for e, err := range s.Entries(t.Context(), 0, size) {
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		if sealed.Kind == contracts.KindReceipt {
			list = append(list, index)
		}
		index++
	}
	return list
}

// smallExcerpts are those of a small log: of a call, with blobs, and of a denial.
func smallExcerpts(t testing.TB) (m *forge.Maker, call, denial []byte) {
	t.Helper()
	m = forge.SmallLog(t, 0)
	list := receiptsIn(t, m.Store)
	call = excerptOf(t, m.Store, Excerpt{Receipt: list[0], Blobs: true})
	denial = excerptOf(t, m.Store, Excerpt{Receipt: list[len(list)-1], Blobs: true})
	for _, b := range [][]byte{call, denial} {
		r, err := verifyExcerptBytes(t, b, Options{Trust: m.Trust, Origin: forge.Origin})
		require.True(t, err == nil && r.Success(Logged), "%+v, %v", r, err)
	}
	return m, call, denial
}

// TestExcerptMangled: no excerpt with a bit flipped, a byte inserted or taken out, or an end that
// is cut off, verifies; and of two blocks that change places, none.
func TestExcerptMangled(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m, call, denial := smallExcerpts(t)
	o := Options{Trust: m.Trust, Origin: forge.Origin}
	for _, good := range [][]byte{call, denial} {
		tried := 0
		refuse := func(what string, at int, b []byte) {
			if bytes.Equal(b, good) {
				return
			}
			r, err := verifyExcerptBytes(t, b, o)
			require.True(t, err != nil && r.Level == Invalid && !r.Success(Intact), "%s %d: %s", what, at, r.Level)
			tried++
		}
		step := 1
		if !*forge.Full {
			step = 11 * forge.Sample(3)
		}
		for i := 0; i < 8*len(good); i += 3 * step {
			b := bytes.Clone(good)
			b[i/8] ^= 1 << (i % 8)
			refuse("bit", i, b)
		}
		for i := 0; i < len(good); i += step {
			refuse("cut at", i, good[:i])
			refuse("without byte", i, slices.Delete(bytes.Clone(good), i, i+1))
			for _, c := range []byte{0, '\n', 'A'} {
				refuse("a byte more at", i, slices.Insert(bytes.Clone(good), i, c))
			}
		}
		blocks := len(good) / ustar.Block
		for i := 0; i < blocks*blocks; i += min(step, 3) {
			b := bytes.Clone(good)
			x, y := b[i/blocks*ustar.Block:][:ustar.Block], b[i%blocks*ustar.Block:][:ustar.Block]
			held := bytes.Clone(x)
			copy(x, y)
			copy(y, held)
			refuse("blocks", i, b)
		}
		assert.GreaterOrEqual(t, tried, 3000/forge.Sample(3))
	}
}

// TestExcerptHugeClaims: members of gigabytes are refused in bounded memory.
func TestExcerptHugeClaims(t *testing.T) {
	m, call, _ := smallExcerpts(t)
	for i, want := range []error{ErrCheckpoint, ErrEncoding, ErrMerkle, ErrEncoding, ErrMerkle, ErrBlob} {
		s, at := &sparse{}, int64(0)
		for j, x := range forge.Untar(t, call) {
			size := int64(len(x.Body))
			if i == j {
				size = ustar.MaxMember
			}
			at = s.add(at, x.Name, size, x.Body)
		}
		var r Report
		var err error
		used := forge.Allocated(func() {
			r, err = VerifyExcerpt(t.Context(), s, at+2*ustar.Block, Options{Trust: m.Trust})
		})
		mustRefuse(t, r, err, want)
		assert.True(t, used <= 4<<20 && s.read <= 16<<20, "member %d: %d bytes allocated, %d read", i, used, s.read)
	}
}

// TestExcerptReader fails each read in turn, in each way. A context that ends is its error, and no
// fault.
func TestExcerptReader(t *testing.T) {
	t.Parallel()
	m, call, _ := smallExcerpts(t)
	o := Options{Trust: m.Trust}
	failReads(t, call, 7, func(r io.ReaderAt) (Report, error) {
		return VerifyExcerpt(t.Context(), r, int64(len(call)), o)
	})
	r, err := VerifyExcerpt(t.Context(), nil, 0, o)
	mustRefuse(t, r, err, ErrInput)
	r, err = VerifyExcerpt(t.Context(), bytes.NewReader(call), -1, o)
	mustRefuse(t, r, err, ErrInput)
	r, err = VerifyExcerpt(t.Context(), bytes.NewReader(call), int64(len(call))+1, o)
	mustRefuse(t, r, err, ErrArchive)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err = VerifyExcerpt(ctx, bytes.NewReader(call), int64(len(call)), o)
	assert.True(t, errors.Is(err, context.Canceled) && r.Fault == nil && r.Level == Invalid, "%+v, %v", r, err)
	var none context.Context
	_, err = VerifyExcerpt(none, bytes.NewReader(call), int64(len(call)), o)
	assert.NoError(t, err)
}

// TestExcerptOfPack: an excerpt is no pack and a pack no excerpt, and each verifier says what it
// was given.
func TestExcerptOfPack(t *testing.T) {
	t.Parallel()
	m, call, _ := smallExcerpts(t)
	o := Options{Trust: m.Trust}
	r, err := verifyBytes(t, call, o)
	mustRefuse(t, r, err, ErrArchive)
	assert.ErrorContains(t, err, "an excerpt begins so")
	r, err = verifyExcerptBytes(t, m.Pack(Write), o)
	mustRefuse(t, r, err, ErrArchive)
	assert.ErrorContains(t, err, "a pack begins so")
}

// TestWriteExcerptRefuses: an excerpt that would not verify is not written, and the error says why.
func TestWriteExcerptRefuses(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	model := forge.TakeApart(t, m.Pack(Write))
	size := uint64(len(model.Nodes))
	for name, x := range map[string]struct {
		store   *forge.FaultyStore
		receipt uint64
		want    string
	}{
		"no checkpoint": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte { return nil }},
			want: "make one with Kernel.Checkpoint"},
		"no note": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte { return []byte("x") }},
			want: "checkpoint: "},
		"another root": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte {
			return forge.LastOf(model, int(size), [32]byte{}, forge.Origin)
		}}, want: "not those of its checkpoint"},
		"a later one": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte {
			return forge.LastOf(model, int(size)+1, [32]byte{}, forge.Origin)
		}}, want: "entry 2: "},
		"of no entries": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte {
			return forge.LastOf(model, 0, [32]byte{}, forge.Origin)
		}}, want: "the latest checkpoint is of 0 entries"},
		"beyond the checkpoint": {receipt: size, want: "the latest checkpoint is of 43 entries"},
		"far beyond it":         {receipt: 1<<64 - 1, want: "the latest checkpoint is of 43 entries"},
		"a decision":            {receipt: 2, want: "entry 2 is no receipt: its kind is decision"},
		"a policy":              {receipt: 1, want: "entry 1 is no receipt: its kind is policy"},
		"an unreadable entry": {store: &forge.FaultyStore{
			OnEntry: func(_ int, e contracts.Entry) (contracts.Entry, error) { return e, errDisk },
		}, want: "entry 3: the disk is gone"},
		"no entry": {store: &forge.FaultyStore{
			OnEntry: func(int, contracts.Entry) (contracts.Entry, error) { return nil, nil },
		}, want: "the store does not return it"},
		"other entries": {store: &forge.FaultyStore{
			OnEntry: func(int, contracts.Entry) (contracts.Entry, error) {
				return contracts.Entry(model.Nodes[3].Line), nil
			},
		}, want: "its decision is not before it"},
		"a damaged entry": {store: &forge.FaultyStore{
			OnEntry: func(_ int, e contracts.Entry) (contracts.Entry, error) { return append(e, ' '), nil },
		}, want: "entry 3: contracts: ENCODING"},
		"other inputs": {store: &forge.FaultyStore{
			OnBlob: func(_ contracts.Digest, b []byte) ([]byte, error) { return append(b, ' '), nil },
		}, want: "other content"},
		"unreadable inputs": {store: &forge.FaultyStore{
			OnBlob: func(contracts.Digest, []byte) ([]byte, error) { return nil, errDisk },
		}, want: "the disk is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			if x.store == nil {
				x.store = &forge.FaultyStore{}
			}
			x.store.Store = m.Store
			if x.receipt == 0 {
				x.receipt = 3
			}
			err := WriteExcerpt(t.Context(), io.Discard, x.store, Excerpt{Receipt: x.receipt, Blobs: true})
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), "evidence: excerpt: ") &&
				strings.Contains(err.Error(), x.want), "%v, want %q", err, x.want)
			assert.True(t, !strings.Contains(x.want, "disk") || errors.Is(err, errDisk), "the cause is lost")
		})
	}
	good := excerptOf(t, m.Store, Excerpt{Receipt: 3, Blobs: true})
	for room := range len(good) {
		if room%97 == 0 || room == len(good)-1 {
			err := WriteExcerpt(t.Context(), &fullWriter{room}, m.Store, Excerpt{Receipt: 3, Blobs: true})
			assert.ErrorIs(t, err, errDisk, "room for %d bytes", room)
		}
	}
	assert.Error(t, WriteExcerpt(t.Context(), nil, m.Store, Excerpt{Receipt: 3}), "no writer")
	assert.Error(t, WriteExcerpt(t.Context(), io.Discard, nil, Excerpt{Receipt: 3}), "no store")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, WriteExcerpt(ctx, io.Discard, m.Store, Excerpt{Receipt: 3}), context.Canceled)
	var none context.Context
	assert.NoError(t, WriteExcerpt(none, io.Discard, m.Store, Excerpt{Receipt: 3}))
}

// TestExcerptOfStubs: an entry of which a stub is left in the store is proved by those who kept it,
// in the same bytes, and by nobody else.
func TestExcerptOfStubs(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	list := receiptsIn(t, m.Store)
	before := map[uint64][]byte{}
	for _, i := range list {
		before[i] = excerptOf(t, m.Store, Excerpt{Receipt: i})
	}
	var all []contracts.Entry
	for e, err := range m.Store.Entries(t.Context(), 0, list[len(list)-1]+1) {
		require.NoError(t, err)
		all = append(all, e)
	}
	var r contracts.Reader
	stub := func(i, names uint64) []byte {
		sealed, err := r.Open(all[i])
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		return contracts.NewStub(st, all[i].Hash(), names).Append(nil)
	}
	// a1 and a2; f1, whose receipt stays; b2, whose decision stays
	require.NoError(t, m.Store.Condense(t.Context(), func(yield func(uint64, []byte) bool) {
		_ = yield(2, stub(2, 1)) && yield(3, stub(3, 2)) && yield(6, stub(6, 1)) && yield(8, stub(8, 5))
	}, slices.Values([]contracts.Digest(nil))))
	for _, i := range list {
		if i == 3 || i == 7 || i == 8 {
			continue
		}
		assert.True(t, bytes.Equal(excerptOf(t, m.Store, Excerpt{Receipt: i}), before[i]), "of the receipt %d", i)
	}
	lacks := func(index int, x Excerpt) {
		t.Helper()
		err := WriteExcerpt(t.Context(), io.Discard, m.Store, x)
		assert.ErrorContains(t, err, fmt.Sprintf("entry %d: the store has no more than its stub", index))
	}
	kept := func(list ...int) (out []contracts.Entry) {
		for _, i := range list {
			out = append(out, all[i])
		}
		return out
	}
	changed := bytes.Clone(all[2])
	changed[100] ^= 1
	lacks(3, Excerpt{Receipt: 3})
	lacks(3, Excerpt{Receipt: 3, Entries: kept(2)})
	lacks(2, Excerpt{Receipt: 3, Entries: kept(3)})
	lacks(2, Excerpt{Receipt: 3, Entries: kept(3, 6, 8, 4)})
	lacks(2, Excerpt{Receipt: 3, Entries: append(kept(3), changed)})
	lacks(2, Excerpt{Receipt: 3, Entries: append(kept(3), stub(2, 1))})
	lacks(6, Excerpt{Receipt: 7})
	lacks(8, Excerpt{Receipt: 8})
	for of, entries := range map[uint64][]contracts.Entry{3: kept(4, 3, 2, 2), 7: kept(6), 8: kept(8, 7)} {
		got := excerptOf(t, m.Store, Excerpt{Receipt: of, Entries: entries})
		assert.True(t, bytes.Equal(got, before[of]), "of the receipt %d", of)
		r, err := verifyExcerptBytes(t, got, Options{Trust: m.Trust, Origin: forge.Origin})
		assert.True(t, err == nil && r.Success(Logged), "%+v, %v", r, err)
	}
	s := &forge.FaultyStore{Store: m.Store, OnEntry: func(_ int, e contracts.Entry) (contracts.Entry, error) {
		return bytes.Replace(e, []byte(`{"stub":{`), []byte(`{"stub":{"a":1,`), 1), nil
	}}
	err := WriteExcerpt(t.Context(), io.Discard, s, Excerpt{Receipt: 8, Entries: kept(8)})
	assert.ErrorContains(t, err, "entry 8: contracts: RECORD", "a malformed stub")
}

// A moved store is one whose entries go on between two readings.
type moved struct {
	proofgraph.Store
	grow func()
}

func (s *moved) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	s.grow()
	return s.Store.Entries(ctx, from, to)
}

// TestExcerptWhileTheLogGoesOn: an excerpt is of the checkpoint that was the latest when its
// writing began.
func TestExcerptWhileTheLogGoesOn(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	want := excerptOf(t, m.Store, Excerpt{Receipt: 3, Blobs: true})
	calls := 0
	s := &moved{m.Store, func() {
		calls++
		m.Denied(contracts.ReasonToolNotFound, forge.Ask{Session: "main", Tool: "x", Args: `{}`})
		m.Checkpoint()
	}}
	got := excerptOf(t, s, Excerpt{Receipt: 3, Blobs: true})
	assert.True(t, bytes.Equal(got, want) && calls > 2, "%d readings", calls)
	assert.False(t, bytes.Equal(excerptOf(t, m.Store, Excerpt{Receipt: 3, Blobs: true}), want), "of another checkpoint")
}

// FuzzVerifyExcerpt takes excerpts, and the members of excerpts in an archive that is right: under
// a trust root nothing passes that was not written of the log.
func FuzzVerifyExcerpt(f *testing.F) {
	var good [][]byte
	var states []*registry.State
	origin := fuzzPacks(f).origin
	for _, m := range forge.LogsOf(f, origin)[:2] {
		list := receiptsIn(f, m.Store)
		for _, i := range []int{0, len(list) / 2, len(list) - 1} {
			for _, blobs := range []bool{false, true} {
				good = append(good, excerptOf(f, m.Store, Excerpt{Receipt: list[i], Blobs: blobs}))
			}
		}
		states = append(states, m.Trust)
	}
	for i, b := range good {
		f.Add(uint8(i), uint8(0), b)
		ms := forge.Untar(f, b)
		for j, x := range ms {
			f.Add(uint8(i), uint8(j+1), x.Body)
		}
	}
	f.Fuzz(func(t *testing.T, of, which uint8, b []byte) {
		if which > 0 {
			ms := forge.Untar(t, good[int(of)%len(good)])
			ms[int(which-1)%len(ms)].Body = b
			b = forge.TarOf(ms)
		}
		for _, state := range states {
			r, err := verifyExcerptBytes(t, b, Options{Trust: state, Origin: origin})
			assert.True(t, (err == nil) == (r.Level > Invalid) && (err == nil) == (r.Fault == nil), "%s, %v", r.Level, err)
			if err == nil && !signedAs(t, b, good) {
				t.Errorf("%s: an excerpt that was not written", r.Level)
			}
		}
		r, err := verifyExcerptBytes(t, b, Options{})
		mustRefuse(t, r, err, ErrInput)
	})
}

// signedAs reports whether an excerpt is one of those that were written, but for blobs that may be
// left out of it, and signature lines that it may have more or fewer of.
func signedAs(t testing.TB, b []byte, good [][]byte) bool {
	parts := func(b []byte) (list []string) {
		for _, x := range forge.Untar(t, b) {
			text, _, _ := strings.Cut(string(x.Body), "\n— ")
			if !strings.HasPrefix(x.Name, ustar.BlobPrefix) {
				list = append(list, x.Name, text)
			}
		}
		return list
	}
	is := parts(b)
	return slices.ContainsFunc(good, func(g []byte) bool { return slices.Equal(parts(g), is) })
}

// BenchmarkExcerpt writes and verifies the excerpt of the last receipt of a log of 2,000 entries.
func BenchmarkExcerpt(b *testing.B) {
	m := forge.LongLog(b, 2000)
	list := receiptsIn(b, m.Store)
	x := Excerpt{Receipt: list[len(list)-1], Blobs: true}
	good := excerptOf(b, m.Store, x)
	o := Options{Trust: m.Trust, Origin: forge.Origin}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := WriteExcerpt(b.Context(), io.Discard, m.Store, x); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportMetric(float64(len(good)), "B")
		for b.Loop() {
			if r, err := verifyExcerptBytes(b, good, o); err != nil || !r.Success(Logged) {
				b.Fatal(err)
			}
		}
	})
}
