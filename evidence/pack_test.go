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

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

func openBytes(t testing.TB, pack []byte, o Options) *Pack {
	t.Helper()
	p, r, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
	want, werr := verifyBytes(t, pack, o)
	if p == nil || err != nil || werr != nil || !reflect.DeepEqual(r, want) {
		t.Fatalf("%+v, %v\nVerify says %+v, %v", r, err, want, werr)
	}
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

// TestPackIsItsStore: a pack that was opened gives what the store gives that it was made of.
func TestPackIsItsStore(t *testing.T) {
	race.Alone(t)
	for name, x := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			p, s := openBytes(t, x.pack, Options{Trust: x.trust}), shelve(t, x.pack)
			n := uint64(len(s.entries))
			note, err := p.Checkpoint(t.Context())
			if size, serr := p.Size(t.Context()); size != n || serr != nil || err != nil || !bytes.Equal(note, s.note) {
				t.Fatalf("%d of %d, %v, %v, %q", size, n, serr, err, note)
			}
			for _, r := range [][2]uint64{{0, n}, {0, 0}, {n, n}, {0, 1}, {n - 1, n}, {n / 2, n}, {n / 2, n/2 + 1}, {min(7, n), min(9, n)}, {min(8, n), n}} {
				list, err := gathered(t.Context(), p, r[0], r[1])
				if err != nil || uint64(len(list)) != r[1]-r[0] {
					t.Fatalf("%d: %d, %v", r, len(list), err)
				}
				for i, e := range list {
					if !bytes.Equal(e, s.entries[r[0]+uint64(i)]) {
						t.Errorf("%d: another entry %d", r, i)
					}
				}
			}
			for _, r := range [][2]uint64{{1, 0}, {0, n + 1}, {n + 1, n + 1}, {n, 0}, {1 << 63, 1<<64 - 1}} {
				if list, err := gathered(t.Context(), p, r[0], r[1]); err == nil || len(list) > 0 || errors.Is(err, ErrArchive) {
					t.Errorf("%d: %d entries, %v", r, len(list), err)
				}
			}
			for d, want := range s.blobs {
				if b, err := p.Blob(t.Context(), d); err != nil || !bytes.Equal(b, want) || b == nil {
					t.Errorf("%s: %d bytes, %v", d, len(b), err)
				}
				d[31] ^= 1
				if b, err := p.Blob(t.Context(), d); b != nil || !errors.Is(err, proofgraph.ErrNoBlob) {
					t.Errorf("a blob that is not there: %d bytes, %v", len(b), err)
				}
			}
			if b, err := p.Blob(t.Context(), contracts.Digest{1}); b != nil || !errors.Is(err, proofgraph.ErrNoBlob) {
				t.Errorf("a blob that is not there: %d bytes, %v", len(b), err)
			}
		})
	}
}

// TestPackRefused: of what does not verify there is no Pack.
func TestPackRefused(t *testing.T) {
	m := smallLog(t, 0)
	pack := m.pack()
	pack[len(pack)/2] ^= 1
	p, r, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.trust})
	want, werr := verifyBytes(t, pack, Options{Trust: m.trust})
	if p != nil || err == nil || !reflect.DeepEqual(r, want) || err.Error() != werr.Error() {
		t.Errorf("%v, %+v, %v; Verify says %+v, %v", p, r, err, want, werr)
	}
	if p, _, err := OpenPack(t.Context(), nil, 1, Options{}); p != nil || !errors.Is(err, ErrInput) {
		t.Error(p, err)
	}
}

// TestPackZero: the zero Pack is that of a log without entries.
func TestPackZero(t *testing.T) {
	var p Pack
	size, err := p.Size(t.Context())
	note, nerr := p.Checkpoint(t.Context())
	list, lerr := gathered(t.Context(), &p, 0, 0)
	if _, berr := p.Blob(t.Context(), contracts.Digest{}); size != 0 || note != nil || list != nil || err != nil || nerr != nil || lerr != nil || berr != proofgraph.ErrNoBlob {
		t.Error(size, note, list, err, nerr, lerr, berr)
	}
	if _, err := gathered(t.Context(), &p, 0, 1); err == nil {
		t.Error("it has an entry")
	}
}

// TestPackErased: an erased blob is one that is not there.
func TestPackErased(t *testing.T) {
	d := deskLog(t)
	m := takeApart(t, d.pack())
	name := judgements(m)[0].d()["inputsHash"].(string)
	delete(m.blobs, name)
	pack := m.build()
	p := openBytes(t, pack, Options{Trust: d.trust})
	if b, err := p.Blob(t.Context(), digest(t, name)); b != nil || err != proofgraph.ErrNoBlob {
		t.Errorf("%d bytes, %v", len(b), err)
	}
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

// TestPackThatChanged: whatever becomes of the bytes after the verification, other ones are never given out. Each byte is changed in turn, and
// then all that there is is asked for.
func TestPackThatChanged(t *testing.T) {
	race.Alone(t)
	m := newMaker(t)
	m.use(testPolicy(1))
	m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader}).ran(`[]`)
	m.checkpoint()
	pack := m.pack()
	s := shelve(t, pack)
	n := uint64(len(s.entries))
	bads := map[string]io.ReaderAt{"gone": gone{}, "empty": bytes.NewReader(nil), "cut": bytes.NewReader(pack[:len(pack)/2]), "zeros": bytes.NewReader(make([]byte, len(pack))),
		"shifted": bytes.NewReader(pack[1:]), "another": bytes.NewReader(smallLog(t, 0).pack())}
	for i := range pack {
		b := bytes.Clone(pack)
		b[i] ^= 1
		bads[fmt.Sprint("byte ", i)] = bytes.NewReader(b)
	}
	r := &turncoat{good: bytes.NewReader(pack)}
	p, report, err := OpenPack(t.Context(), r, int64(len(pack)), Options{Trust: m.trust})
	if err != nil || !report.Success(0) {
		t.Fatalf("%+v, %v", report, err)
	}
	r.turned.Store(true)
	entries, blobs := 0, 0
	for name, bad := range bads {
		r.bad = bad
		list, err := gathered(t.Context(), p, 0, n)
		for i, e := range list {
			if !bytes.Equal(e, s.entries[i]) {
				t.Fatalf("%s: another entry %d", name, i)
			}
		}
		if whole := uint64(len(list)) == n; whole != (err == nil) || err != nil && !errors.Is(err, ErrArchive) {
			t.Fatalf("%s: %d entries, %v", name, len(list), err)
		}
		if err != nil {
			entries++
		}
		for d, want := range s.blobs {
			b, err := p.Blob(t.Context(), d)
			if err == nil && !bytes.Equal(b, want) || err != nil && (b != nil || !errors.Is(err, ErrArchive) && err != proofgraph.ErrNoBlob) {
				t.Fatalf("%s: blob %s: %d bytes, %v", name, d, len(b), err)
			}
			if err != nil {
				blobs++
			}
		}
	}
	members := untar(t, pack)
	least := 0
	for _, x := range members[entriesMember+1:] {
		least += len(x.body)
	}
	if entries != len(members[entriesMember].body)+len(bads)-len(pack) || blobs < least {
		t.Errorf("of %d changes, entries were refused by %d, blobs by %d", len(bads), entries, blobs)
	}
}

// TestPackOfMany: many goroutines read a Pack at once.
func TestPackOfMany(t *testing.T) {
	d := deskLog(t)
	pack := d.pack()
	p, s := openBytes(t, pack, Options{Trust: d.trust}), shelve(t, pack)
	n := uint64(len(s.entries))
	var wait sync.WaitGroup
	for i := range uint64(8) {
		wait.Go(func() {
			for from := range n {
				list, err := gathered(t.Context(), p, from, min(from+i+1, n))
				if err != nil || !bytes.Equal(list[0], s.entries[from]) {
					t.Errorf("entry %d: %v", from, err)
				}
				clear(list[0]) // it is ours
			}
			for name, want := range s.blobs {
				b, err := p.Blob(t.Context(), name)
				if err != nil || !bytes.Equal(b, want) {
					t.Errorf("%s: %v", name, err)
				}
				clear(b)
			}
			note, err := p.Checkpoint(t.Context())
			if err != nil || !bytes.Equal(note, s.note) {
				t.Error(err)
			}
			clear(note)
		})
	}
	wait.Wait()
}

// TestPackEnds: an ended context ends every method.
func TestPackEnds(t *testing.T) {
	m := smallLog(t, 0)
	p := openBytes(t, m.pack(), Options{Trust: m.trust})
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
	if n != 1 || size != 0 || note != nil || blob != nil {
		t.Error(n, size, note, blob)
	}
	var never context.Context // which never ends
	if _, err := p.Size(never); err != nil {
		t.Error(err)
	}
}

// TestPackMemory: a Pack holds what finds entries and blobs, and nothing else of the verification.
func TestPackMemory(t *testing.T) {
	race.Alone(t)
	m := longLog(t, 4_000)
	pack := m.pack()
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what pools hold goes with the second one
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	before := heap()
	p, _, err := OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.trust})
	if err != nil {
		t.Fatal(err)
	}
	held := heap() - before
	n, err := p.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if held > 48*float64(n)+8*float64(len(untar(t, pack)))+64<<10 || n < 4_000 {
		t.Errorf("%.0f bytes are held of %d entries", held, n)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(pack)
	runtime.KeepAlive(m)
}
