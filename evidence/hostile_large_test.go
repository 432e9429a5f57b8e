package evidence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/race"
)

// A counting reader counts the bytes that are read of it.
type counting struct {
	io.ReaderAt
	n int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, at)
	c.n += int64(n)
	return n, err
}

// A weighed verification is what one took: what it held at its end, allocated in all and read, and
// the processor's time.
type weighed struct {
	Report
	held, allocated, read int64
}

// weigh writes the pack of a log into a file and verifies it there, so that the pack itself is not
// in memory.
func weigh(t *testing.T, m *forge.Maker) (w weighed) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pack")
	f, err := os.Create(name)
	require.NoError(m, err)
	defer f.Close()
	require.NoError(m, Write(t.Context(), f, m.Store, forge.Key(t, m.By)))
	info, err := f.Stat()
	require.NoError(m, err)
	r := &counting{ReaderAt: f}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := newVerifier(t.Context(), Options{Trust: m.Trust})
	require.NoError(m, v.inPack(r, info.Size()))
	w.Report = v.report
	v.blobs.far, v.pack.wide, v.reread.second, v.fold.buf, v.replay.text = nil, nil, nil, nil, nil // constant
	runtime.ReadMemStats(&after)
	w.allocated = int64(after.TotalAlloc - before.TotalAlloc)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	runtime.KeepAlive(m)
	w.held, w.read = int64(after.HeapAlloc)-int64(before.HeapAlloc), r.n
	assert.True(t, w.read <= 2*info.Size(), "%d bytes were read of a pack of %d", w.read, info.Size())
	return w
}

// TestManySessions: a million sessions of one entry each, of the longest names, are verified in the
// memory that is promised, 256 bytes a session and 64 an entry, and in linear time: ten times as
// many take ten times as much. -full; without it twenty thousand.
func TestManySessions(t *testing.T) {
	race.Alone(t)
	n := 20_000 / forge.Sample(3)
	if *forge.Full {
		n = 1_000_000
	}
	var each []float64
	for _, n := range []int{n / 10, n} {
		m := forge.NewMaker(t)
		for i := range n {
			m.Close(fmt.Sprintf("%0128d", i))
		}
		m.Checkpoint()
		t0 := processor(t)
		w := weigh(t, m)
		require.True(t, w.Sessions == uint64(n)+1 && w.Size == uint64(n)+1 && w.Level == Logged, "%+v", w.Report)
		per := func(bytes int64) float64 { return float64(bytes-128<<10) / float64(n) }
		each = append(each, per(w.allocated))
		t.Logf("%d sessions: %.0f bytes held a session, %.0f allocated; %.0f µs, with writing", n, per(w.held),
			each[len(each)-1], float64((processor(t)-t0).Microseconds())/float64(n))
		assert.True(t, !(per(w.held) > 256+64), "%.0f bytes are held for a session of one entry", per(w.held))
	}
	assert.True(t, !(each[1] > 1.5*each[0]), "of ten times as many sessions each takes %.0f bytes, not %.0f", each[1],
		each[0])
}

// TestManyParents: a log in which each entry has as many parents as it may, a million in all, costs
// what its entries do; an entry with one more is refused, and one of a million before it is read.
func TestManyParents(t *testing.T) {
	race.Alone(t)
	n := 1_500 / forge.Sample(2)
	if *forge.Full {
		n = 31_250
	}
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	all := []contracts.Digest{}
	for i := range n {
		var parents []contracts.Digest
		for k := range min(32, i) {
			parents = append(parents, all[(i*k+k)%i])
		}
		slices.SortFunc(parents, entry.Compare)
		c := m.Denied(contracts.ReasonToolNotFound, forge.Ask{Session: fmt.Sprint("s", i%50), Tool: "x", Args: `{}`,
			Drop: true, Parents: slices.Compact(parents)})
		all = append(all, c.Entry)
	}
	m.Checkpoint()
	w := weigh(t, m)
	listed := int64(len(w.Erased)*32 + len(w.Replay.Entries)*8)
	each := float64(w.held-listed*2-256<<10) / float64(n)
	assert.True(t, w.Size >= uint64(n) && !(each > 64), "%+v: %.0f bytes are held for an entry", w.Report, each)

	base := forge.BaseLog(t)
	base.Checkpoint()
	pack, o := base.Pack(Write), Options{Trust: base.Trust}
	for parents, want := range map[int]error{33: ErrRecord, 1_000_000: ErrEncoding} {
		x := forge.TakeApart(t, pack)
		x.The("o").Payload = func(b []byte) []byte {
			var list strings.Builder
			for i := range parents {
				fmt.Fprintf(&list, `,"%064x"`, i)
			}
			return []byte(strings.Replace(string(b), `"parents":[]`, `"parents":[`+list.String()[1:]+`]`, 1))
		}
		bad := x.Build()
		var r Report
		var err error
		used := forge.Allocated(func() { r, err = verifyBytes(t, bad, o) })
		mustRefuse(t, r, err, want)
		assert.True(t, used <= 4<<20 && len(bad) >= len(pack)+60*parents, "%d parents: %d bytes were allocated",
			parents, used)
	}
}

// TestZeros: a gibibyte of them, wherever it is, is refused after little of it was read.
func TestZeros(t *testing.T) {
	const gib = 1 << 30
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	ms := forge.Untar(t, pack)
	end := int64(len(pack) - 2*ustar.Block)
	// member returns a pack whose ith member ends in that many zeros, of its content or after its
	// padding.
	member := func(i int, inside bool) (*sparse, int64) {
		s, at := &sparse{}, int64(0)
		for k, x := range ms {
			size := int64(len(x.Body))
			if k == i && inside {
				size += gib
			}
			if at = s.add(at, x.Name, size, x.Body); k == i && !inside {
				at += gib
			}
		}
		return s, at + 2*ustar.Block
	}
	for name, x := range map[string]struct {
		make func() (*sparse, int64)
		want error
	}{
		"before all": {func() (*sparse, int64) {
			return &sparse{pieces: []piece{{gib, pack}}}, gib + end + 2*ustar.Block
		}, ErrArchive},
		"before the end": {func() (*sparse, int64) {
			return &sparse{pieces: []piece{{0, pack}}}, end + gib + 2*ustar.Block
		}, ErrArchive},
		"after the manifest's padding":   {func() (*sparse, int64) { return member(0, false) }, ErrArchive},
		"after the entries' padding":     {func() (*sparse, int64) { return member(2, false) }, ErrArchive},
		"after a blob's padding":         {func() (*sparse, int64) { return member(3, false) }, ErrArchive},
		"in the manifest":                {func() (*sparse, int64) { return member(0, true) }, ErrManifest},
		"in the checkpoint":              {func() (*sparse, int64) { return member(1, true) }, ErrCheckpoint},
		"in the entries":                 {func() (*sparse, int64) { return member(2, true) }, ErrEncoding},
		"in a blob":                      {func() (*sparse, int64) { return member(3, true) }, ErrManifest},
		"nothing else":                   {func() (*sparse, int64) { return &sparse{}, gib }, ErrArchive},
		"nothing else, of an odd length": {func() (*sparse, int64) { return &sparse{}, gib + 7 }, ErrArchive},
	} {
		s, size := x.make()
		var r Report
		var err error
		used := forge.Allocated(func() { r, err = Verify(t.Context(), s, size, Options{Trust: m.Trust}) })
		mustRefuse(t, r, err, x.want)
		if used > 4<<20 || s.read > 4<<20 {
			t.Errorf("%s: %d bytes allocated, %d read", name, used, s.read)
		}
	}
}

// TestClaimedBlob: a blob of 8 GiB that an entry names, and a manifest which a kernel key signed
// that says so, is refused unread.
func TestClaimedBlob(t *testing.T) {
	m := forge.BaseLog(t)
	m.Checkpoint()
	x := forge.TakeApart(t, m.Pack(Write))
	name := x.The("a1").D()["inputsHash"].(string)
	claims(func(m *forge.Model, p forge.Object) {
		b := sub(p, "blobs")
		b["bytes"] = b["bytes"].(int) - len(m.Blobs[name]) + ustar.MaxMember
	})(x)
	s, at := &sparse{}, int64(0)
	for _, member := range forge.Untar(t, x.Build()) {
		size := int64(len(member.Body))
		if member.Name == ustar.BlobPrefix+name {
			size = ustar.MaxMember
		}
		at = s.add(at, member.Name, size, member.Body)
	}
	var r Report
	var err error
	used := forge.Allocated(func() { r, err = Verify(t.Context(), s, at+2*ustar.Block, Options{Trust: m.Trust}) })
	mustRefuse(t, r, err, ErrBlob)
	if !strings.Contains(err.Error(), "longer than any blob may be") || used > 8<<20 || s.read > 8<<20 {
		t.Errorf("%v; %d bytes allocated, %d read", err, used, s.read)
	}
}

// TestPipe: what comes through a pipe cannot be read twice, nor at any place, and says no size. The
// error says what to do.
func TestPipe(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	for _, told := range []bool{false, true} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // if anything is read it is the pack
			io.Copy(w, bytes.NewReader(pack))
			w.Close()
			cancel()
		}()
		info, err := r.Stat()
		require.NoError(t, err)
		size := info.Size()
		if told {
			size = int64(len(pack)) // from a caller that knows it otherwise
		}
		report, err := Verify(t.Context(), r, size, Options{Trust: m.Trust})
		mustRefuse(t, report, err, ErrArchive)
		assert.True(t, strings.Contains(err.Error(), "pipe") && strings.Contains(err.Error(),
			"copy it to a file first"), "size %d: %v", size, err)
		io.Copy(io.Discard, r)
		<-ctx.Done()
	}
}

// claims changes what the manifest claims.
func claims(change func(m *forge.Model, p forge.Object)) func(*forge.Model) {
	return func(m *forge.Model) { m.Manifest = func(p forge.Object) { change(m, p) } }
}

func sub(p forge.Object, k string) forge.Object { return p[k].(forge.Object) }
