package evidence

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/race"
)

// A sparse reader has pieces at offsets, and zeros between them: packs of any claimed size, without
// the bytes.
type sparse struct {
	pieces []piece
	read   int64 // bytes that were asked for
}

type piece struct {
	at int64
	b  []byte
}

func (s *sparse) ReadAt(b []byte, at int64) (int, error) {
	s.read += int64(len(b))
	clear(b)
	for _, p := range s.pieces {
		if from := max(at, p.at); from < min(at+int64(len(b)), p.at+int64(len(p.b))) {
			copy(b[from-at:], p.b[from-p.at:])
		}
	}
	return len(b), nil
}

// add puts a member after the others, of which only the header is given.
func (s *sparse) add(end int64, name string, size int64, body []byte) int64 {
	h := ustar.Header([]byte(name), size)
	s.pieces = append(s.pieces, piece{end, h[:]}, piece{end + ustar.Block, body})
	return end + ustar.Block + size + ustar.Padding(size)
}

// TestHugeClaims: members of gigabytes are refused, or read past, in bounded memory.
func TestHugeClaims(t *testing.T) {
	m := forge.SmallLog(t, 0)
	ms := forge.Untar(t, m.Pack(Write))
	const huge = ustar.MaxMember
	for name, x := range map[string]struct {
		size map[int]int64
		more string
		want error
	}{
		"manifest":   {size: map[int]int64{0: huge}, want: ErrManifest},
		"checkpoint": {size: map[int]int64{1: huge}, want: ErrCheckpoint},
		"entries":    {size: map[int]int64{2: huge}, want: ErrEncoding},
		"a blob":     {more: ustar.BlobPrefix + strings.Repeat("1", 64), want: ErrManifest},
		"the trust":  {size: map[int]int64{3: huge}, want: ErrManifest},
	} {
		t.Run(name, func(t *testing.T) {
			s, at := &sparse{}, int64(0)
			for i, member := range ms {
				size := int64(len(member.Body))
				if n, ok := x.size[i]; ok {
					size = n
				}
				at = s.add(at, member.Name, size, member.Body)
			}
			if x.more != "" {
				ms := forge.Untar(t, m.Pack(Write))
				s, at = &sparse{}, 0
				for _, member := range ms[:3] {
					at = s.add(at, member.Name, int64(len(member.Body)), member.Body)
				}
				at = s.add(at, x.more, huge, nil)
			}
			var err error
			var r Report
			used := forge.Allocated(func() {
				r, err = Verify(t.Context(), s, at+2*ustar.Block, Options{Trust: m.Trust})
			})
			mustRefuse(t, r, err, x.want)
			if used > 4<<20 || s.read > 64<<20 {
				t.Errorf("%d bytes allocated, %d read", used, s.read)
			}
			r, err = Verify(t.Context(), bytes.NewReader(s.pieces[0].b), int64(len(s.pieces[0].b)), Options{Trust: m.Trust})
			mustRefuse(t, r, err, ErrArchive)
		})
	}
}

// TestBadHeaders: what other readers of tar take for a size, a name, a checksum.
func TestBadHeaders(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	for name, change := range map[string]func(h []byte){
		"negative octal":    func(h []byte) { copy(h[124:], "-0000000001\x00") },
		"base 256 negative": func(h []byte) { copy(h[124:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") },
		"size with spaces":  func(h []byte) { copy(h[124:], "       1234\x00") },
		"size without NUL":  func(h []byte) { h[135] = ' ' },
		"size of nothing":   func(h []byte) { clear(h[124:136]) },
		"decimal":           func(h []byte) { copy(h[124:], "00000000908\x00") },
		"name of nothing":   func(h []byte) { clear(h[:100]) },
		"name after NUL":    func(h []byte) { h[99] = 'x' },
		"old tar":           func(h []byte) { clear(h[257:265]) },
		"typeflag NUL":      func(h []byte) { h[156] = 0 },
		"devmajor":          func(h []byte) { clear(h[329:345]) },
		"after the prefix":  func(h []byte) { h[511] = 1 },
	} {
		for i := range 3 {
			ms := forge.Untar(t, pack)
			ms[i].Head = change
			b := forge.TarOf(ms)
			require.False(t, bytes.Equal(b, pack), "%s: nothing was changed", name)
			r, err := verifyBytes(t, b, Options{Trust: m.Trust})
			mustRefuse(t, r, err, ErrArchive)
		}
	}
}

// A comb is a pack with very many blobs of no bytes, whose headers are made as they are read.
type comb struct {
	front []byte
	n     int64
}

func (c *comb) size() int64 { return int64(len(c.front)) + c.n*ustar.Block + 2*ustar.Block }

func (c *comb) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > c.size() {
		return 0, io.ErrUnexpectedEOF
	}
	n := 0
	for n < len(b) {
		if at < int64(len(c.front)) {
			k := copy(b[n:], c.front[at:])
			n, at = n+k, at+int64(k)
			continue
		}
		i := (at - int64(len(c.front))) / ustar.Block
		var h [ustar.Block]byte
		if i < c.n {
			var d contracts.Digest // all but the last names begin alike
			binary.BigEndian.PutUint64(d[24:], uint64(i))
			var room [len(ustar.BlobPrefix) + 64]byte
			h = ustar.Header(hex.AppendEncode(append(room[:0], ustar.BlobPrefix...), d[:]), 0)
		}
		k := copy(b[n:], h[(at-int64(len(c.front)))%ustar.Block:])
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// TestManyMembers: a million blobs that no entry names cost time and 9 bytes each.
func TestManyMembers(t *testing.T) {
	race.Alone(t)
	m := forge.SmallLog(t, 0)
	c := &comb{n: 1_000_000}
	if testing.Short() {
		c.n = 50_000
	}
	ms := forge.Untar(t, m.Pack(Write))
	c.front = forge.TarOf(ms[:3])
	c.front = c.front[:len(c.front)-2*ustar.Block]
	var r Report
	var err error
	var kept uint64
	used := forge.Allocated(func() {
		p, failed := openPacked(t.Context(), c, c.size(), ustar.Pack)
		require.NoError(t, failed)
		kept = uint64(cap(p.Blobs)*8 + cap(p.named))
		r, err = Verify(t.Context(), c, c.size(), Options{Trust: m.Trust})
	})
	mustRefuse(t, r, err, ErrManifest)
	assert.True(t, kept <= uint64(10*c.n) && used <= uint64(200*c.n)+8<<20,
		"%d bytes kept, %d allocated in all, of %d members", kept, used, c.n)
}

func TestNoPack(t *testing.T) {
	t.Parallel()
	state := forge.State(t)
	for name, b := range map[string][]byte{
		"nothing":     nil,
		"zeros":       make([]byte, 2*ustar.Block),
		"one block":   make([]byte, ustar.Block),
		"text":        []byte("not an archive"),
		"noise":       noise(4096),
		"noise block": append(noise(ustar.Block), make([]byte, 2*ustar.Block)...),
	} {
		r, err := verifyBytes(t, b, Options{Trust: state})
		t.Run(name, func(t *testing.T) { mustRefuse(t, r, err, ErrArchive) })
	}
	r, err := Verify(t.Context(), nil, 1, Options{Trust: state})
	mustRefuse(t, r, err, ErrInput)
	for _, size := range []int64{-1, -1 << 63, 1 << 62, 1<<63 - 1} { // whatever the caller says of the size
		want := ErrArchive
		if size < 0 {
			want = ErrInput
		}
		r, err := Verify(t.Context(), bytes.NewReader(make([]byte, ustar.Block)), size, Options{Trust: state})
		mustRefuse(t, r, err, want)
	}
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// A failing reader fails at the nth read, or returns fewer bytes, or other ones.
type failing struct {
	io.ReaderAt
	n    int
	what func(b []byte, n int, err error) (int, error)
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(b, at)
	if f.n--; f.n < 0 {
		return f.what(b, n, err)
	}
	return n, err
}

// TestFailingReader fails each read in turn, in each way: there is never a level, and the cause is
// not lost.
func TestFailingReader(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m, d := forge.BaseLog(t), forge.FixtureLog(t)
	m.Checkpoint()
	for name, m := range map[string]*forge.Maker{"base": m, "earlier entries and inputs": d.Maker} {
		pack := m.Pack(Write)
		t.Run(name, func(t *testing.T) {
			failReads(t, pack, 10, func(r io.ReaderAt) (Report, error) {
				return Verify(t.Context(), r, int64(len(pack)), Options{Trust: m.Trust})
			})
		})
	}
}

func failReads(t *testing.T, pack []byte, least int, verify func(io.ReaderAt) (Report, error)) {
	good, err := verify(bytes.NewReader(pack))
	require.NoError(t, err)
	for name, what := range map[string]func(b []byte, n int, err error) (int, error){
		"error":   func(b []byte, _ int, _ error) (int, error) { return 0, errDisk },
		"partly":  func(b []byte, n int, _ error) (int, error) { return n / 2, errDisk },
		"short":   func(b []byte, n int, _ error) (int, error) { return n - 1, nil },
		"EOF":     func(b []byte, n int, _ error) (int, error) { return 0, io.EOF },
		"changed": func(b []byte, n int, err error) (int, error) { b[n/2] ^= 1; return n, err },
	} {
		failed, step := 0, forge.Sample(3)
		for i := 0; ; i += step {
			f := &failing{bytes.NewReader(pack), i, what}
			r, err := verify(f)
			if f.n >= 0 { // it never came to that
				break
			}
			failed++
			if name == "changed" && err == nil && reflect.DeepEqual(r, good) {
				continue // a byte that was read beyond what is used
			}
			require.True(t, err != nil && r.Level == Invalid && r.Fault != nil, "%s at read %d: %s, %v", name, i,
				r.Level, err)
			assert.False(t, (name == "error" || name == "partly") && !errors.Is(err, errDisk),
				"%s at read %d: the cause is lost: %v", name, i, err)
		}
		assert.True(t, failed >= least/step, "%s: only %d reads failed", name, failed)
	}
}

// TestCanceled: an ended context ends verification, with no level and no verdict on the pack.
func TestCanceled(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pack := m.Pack(Write)
	r, err := Verify(ctx, bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.Trust})
	assert.True(t, errors.Is(err, context.Canceled) && r.Level == Invalid && r.Fault == nil && !r.Success(0), "%+v, %v",
		r, err)
}

var errDisk = errors.New("the disk is gone")
