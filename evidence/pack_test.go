package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// TestPackRefused: of what does not verify there is no Pack.
func TestPackRefused(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	pack := m.Pack(Write)
	pack[len(pack)/2] ^= 1
	p, r, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.Trust})
	want, werr := verifyBytes(t, pack, Options{Trust: m.Trust})
	assert.True(t, p == nil && err != nil && reflect.DeepEqual(r, want) && err.Error() == werr.Error(),
		"%v, %+v, %v; Verify says %+v, %v", p, r, err, want, werr)
	p, _, err = OpenPack(t.Context(), nil, 1, Options{})
	assert.True(t, p == nil && errors.Is(err, ErrInput), "%v %v", p, err)
}

// TestPackZero: the zero Pack is that of a log without entries.
func TestPackZero(t *testing.T) {
	t.Parallel()
	var p Pack
	size, err := p.Size(t.Context())
	note, nerr := p.Checkpoint(t.Context())
	list, lerr := gathered(t.Context(), &p, 0, 0)
	_, berr := p.Blob(t.Context(), contracts.Digest{})
	assert.True(t, size == 0 && note == nil && list == nil && err == nil && nerr == nil && lerr == nil &&
		berr == proofgraph.ErrNoBlob, "%v %v %v %v %v %v %v", size, note, list, err, nerr, lerr, berr)
	_, err = gathered(t.Context(), &p, 0, 1)
	assert.Error(t, err, "it has an entry")
}

// TestPackErased: an erased blob is one that is not there.
func TestPackErased(t *testing.T) {
	t.Parallel()
	d := forge.FixtureLog(t)
	m := forge.TakeApart(t, d.Pack(Write))
	name := forge.Judgements(m)[0].D()["inputsHash"].(string)
	delete(m.Blobs, name)
	pack := m.Build()
	p := openBytes(t, pack, Options{Trust: d.Trust})
	b, err := p.Blob(t.Context(), digest(t, name))
	assert.True(t, b == nil && err == proofgraph.ErrNoBlob, "%d bytes, %v", len(b), err)
}

// A turncoat reads as a reader does until it turns; from then on it reads from another one.
type turncoat struct {
	good, bad io.ReaderAt
	turned    atomic.Bool
}

func (r *turncoat) ReadAt(b []byte, at int64) (int, error) {
	if r.turned.Load() {
		return r.bad.ReadAt(b, at)
	}
	return r.good.ReadAt(b, at)
}

// TestPackThatChanged: whatever becomes of the bytes after the verification, other ones are never
// given out. Each byte is changed in turn, and then everything is read.
func TestPackThatChanged(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	m.Allowed(forge.Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: forge.Reader}).Ran(`[]`)
	m.Checkpoint()
	pack := m.Pack(Write)
	s := forge.Shelve(t, pack)
	n := uint64(len(s.Lines))
	bads := map[string]io.ReaderAt{"gone": gone{}, "empty": bytes.NewReader(nil),
		"cut": bytes.NewReader(pack[:len(pack)/2]), "zeros": bytes.NewReader(make([]byte, len(pack))),
		"shifted": bytes.NewReader(pack[1:]), "another": bytes.NewReader(forge.SmallLog(t, 0).Pack(Write))}
	for i := range pack {
		b := bytes.Clone(pack)
		b[i] ^= 1
		bads[fmt.Sprint("byte ", i)] = bytes.NewReader(b)
	}
	r := &turncoat{good: bytes.NewReader(pack)}
	p, report, err := OpenPack(t.Context(), r, int64(len(pack)), Options{Trust: m.Trust})
	require.True(t, err == nil && report.Success(0), "%+v, %v", report, err)
	r.turned.Store(true)
	entries, blobs := 0, 0
	for name, bad := range bads {
		r.bad = bad
		list, err := gathered(t.Context(), p, 0, n)
		for i, e := range list {
			require.True(t, bytes.Equal(e, s.Lines[i]), "%s: another entry %d", name, i)
		}
		whole := uint64(len(list)) == n
		require.True(t, whole == (err == nil) && (err == nil || errors.Is(err, ErrArchive)), "%s: %d entries, %v", name,
			len(list), err)
		if err != nil {
			entries++
		}
		for d, want := range s.Blobs {
			b, err := p.Blob(t.Context(), d)
			require.True(t, (err != nil || bytes.Equal(b, want)) && (err == nil ||
				(b == nil && (errors.Is(err, ErrArchive) || err == proofgraph.ErrNoBlob))), "%s: blob %s: %d bytes, %v",
				name, d, len(b), err)
			if err != nil {
				blobs++
			}
		}
	}
	members := forge.Untar(t, pack)
	least := 0
	for _, x := range members[forge.EntriesAt+1:] {
		least += len(x.Body)
	}
	assert.True(t, entries == len(members[forge.EntriesAt].Body)+len(bads)-len(pack) && blobs >= least,
		"of %d changes, entries were refused by %d, blobs by %d", len(bads), entries, blobs)
}

// TestPackOfMany: many goroutines read a Pack at once.
func TestPackOfMany(t *testing.T) {
	t.Parallel()
	d := forge.FixtureLog(t)
	pack := d.Pack(Write)
	p, s := openBytes(t, pack, Options{Trust: d.Trust}), forge.Shelve(t, pack)
	n := uint64(len(s.Lines))
	var wait sync.WaitGroup
	for i := range uint64(8) {
		wait.Go(func() {
			for from := range n {
				list, err := gathered(t.Context(), p, from, min(from+i+1, n))
				assert.True(t, err == nil && bytes.Equal(list[0], s.Lines[from]), "entry %d: %v", from, err)
				clear(list[0]) // it is ours
			}
			for name, want := range s.Blobs {
				b, err := p.Blob(t.Context(), name)
				assert.True(t, err == nil && bytes.Equal(b, want), "%s: %v", name, err)
				clear(b)
			}
			note, err := p.Checkpoint(t.Context())
			assert.True(t, err == nil && bytes.Equal(note, s.Note), "%v", err)
			clear(note)
		})
	}
	wait.Wait()
}

// TestPackEnds: an ended context ends every method.
func TestPackEnds(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	p := openBytes(t, m.Pack(Write), Options{Trust: m.Trust})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range p.Entries(ctx, 0, 6) { // in the midst of it
		cancel()
	}
	n := 0
	for _, err := range p.Entries(ctx, 0, 6) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	size, err1 := p.Size(ctx)
	note, err2 := p.Checkpoint(ctx)
	blob, err3 := p.Blob(ctx, contracts.Digest{1})
	for _, err := range []error{err1, err2, err3} {
		if err != context.Canceled {
			t.Error(err)
		}
	}
	assert.True(t, n == 1 && size == 0 && note == nil && blob == nil, "%v %v %v %v", n, size, note, blob)
	var never context.Context // which never ends
	_, err := p.Size(never)
	assert.NoError(t, err)
}

// TestPackMemory: a Pack holds what finds entries and blobs, and nothing else of the verification.
func TestPackMemory(t *testing.T) {
	race.Alone(t)
	m := forge.LongLog(t, 4_000)
	pack := m.Pack(Write)
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what pools hold goes with the second one
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	before := heap()
	p, _, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.Trust})
	require.NoError(t, err)
	held := heap() - before
	n, err := p.Size(t.Context())
	require.NoError(t, err)
	assert.True(t, !(held > 48*float64(n)+8*float64(len(forge.Untar(t, pack)))+64<<10) && n >= 4_000,
		"%.0f bytes are held of %d entries", held, n)
	runtime.KeepAlive(p)
	runtime.KeepAlive(pack)
	runtime.KeepAlive(m)
}

func openBytes(t testing.TB, pack []byte, o Options) *Pack {
	t.Helper()
	p, r, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
	want, werr := verifyBytes(t, pack, o)
	require.True(t, p != nil && err == nil && werr == nil && reflect.DeepEqual(r, want), "%+v, %v\nVerify says %+v, %v",
		r, err, want, werr)
	return p
}

// gathered are the entries of a range, as far as they come.
func gathered(ctx context.Context, p *Pack, from, to uint64) (list []contracts.Entry, err error) {
	for e, err := range p.Entries(ctx, from, to) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func digest(t *testing.T, s string) contracts.Digest {
	t.Helper()
	d, err := crypto.ParseDigest([]byte(s))
	require.NoError(t, err)
	return d
}
