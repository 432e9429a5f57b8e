package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A lyingStore lies once, at its nth answer: a call, or an entry that it yields.
type lyingStore struct {
	proofgraph.Store
	n    int
	what lie
}

// A lie changes an answer. What is nil stays as it is.
type lie struct {
	bytes func(b []byte, err error) ([]byte, error)
	size  func(n uint64) (uint64, error)
	more  int // how often an entry is given
}

// now reports whether it is time.
func (l *lyingStore) now() bool {
	l.n--
	return l.n == -1
}

func (l *lyingStore) tell(b []byte, err error) ([]byte, error) {
	if l.now() && l.what.bytes != nil {
		return l.what.bytes(b, err)
	}
	return b, err
}

func (l *lyingStore) Checkpoint(ctx context.Context) ([]byte, error) {
	return l.tell(l.Store.Checkpoint(ctx))
}

func (l *lyingStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	return l.tell(l.Store.Blob(ctx, d))
}

func (l *lyingStore) Size(ctx context.Context) (uint64, error) {
	n, err := l.Store.Size(ctx)
	if l.now() && l.what.size != nil {
		return l.what.size(n)
	}
	return n, err
}

func (l *lyingStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range l.Store.Entries(ctx, from, to) {
			now := l.now()
			if now && l.what.bytes != nil {
				e, err = l.what.bytes(e, err)
			}
			if now && l.what.more == 0 {
				continue
			}
			for range max(1, l.what.more) {
				if !yield(e, err) {
					return
				}
				if !now {
					break
				}
			}
		}
	}
}

// lies, each of which must be found out, or change nothing.
var lies = map[string]lie{
	"error": {more: 1, bytes: func([]byte, error) ([]byte, error) { return nil, errDisk },
		size: func(uint64) (uint64, error) { return 0, errDisk }},
	"both": {more: 1, bytes: func(b []byte, _ error) ([]byte, error) { return b, errDisk },
		size: func(n uint64) (uint64, error) { return n, errDisk }},
	"panic": {more: 1, bytes: func([]byte, error) ([]byte, error) { panic(errDisk) },
		size: func(uint64) (uint64, error) { panic(errDisk) }},
	"nil": {more: 1, bytes: func([]byte, error) ([]byte, error) { return nil, nil },
		size: func(uint64) (uint64, error) { return 0, nil }},
	"other": {more: 1, bytes: func(b []byte, err error) ([]byte, error) {
		if len(b) > 0 {
			b[len(b)/2] ^= 1
		}
		return b, err
	}, size: func(n uint64) (uint64, error) { return n - 1, nil }},
	"longer": {more: 1, bytes: func(b []byte, err error) ([]byte, error) { return append(b, '\n'), err },
		size: func(n uint64) (uint64, error) { return n + 1, nil }},
	"fewer": {more: 0, bytes: func([]byte, error) ([]byte, error) { return nil, proofgraph.ErrNoBlob }},
	"more":  {more: 2},
}

// TestLyingStore: whatever a store says, at whatever answer, it is found out, or what is reported
// is what is true of it.
func TestLyingStore(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	base, d := forge.BaseLog(t), forge.FixtureLog(t)
	base.Checkpoint()
	for name, m := range map[string]*forge.Maker{"base": base, "earlier entries and inputs": d.Maker} {
		good, err := VerifyStore(t.Context(), m.Store, Options{Trust: m.Trust})
		require.NoError(t, err)
		for kind, what := range lies {
			if m == d.Maker && what.size != nil && kind != "other" {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				told, found := 0, 0
				step := forge.Sample(4)
				if m == base && what.size != nil {
					step *= 3
				}
				for i := 0; ; i += step {
					l := &lyingStore{m.Store, i, what}
					r, err := VerifyStore(t.Context(), l, Options{Trust: m.Trust})
					if l.n >= 0 { // it never came to that
						break
					}
					told++
					r.Behind = 0 // which is what the store says
					switch {
					case err == nil && reflect.DeepEqual(r, good), err == nil && kind == "fewer" &&
						len(r.Erased) == len(good.Erased)+1:
						continue // it is as it says
					case err == nil && i == 0 && kind == "other" && r.Level < good.Level:
						continue // nor by whom the checkpoint is
					}
					found++
					var f *Error
					require.True(t, errors.As(err, &f) && reflect.DeepEqual(r,
						Report{Asked: Logged, Fault: f, Replay: r.Replay}), "answer %d: %+v, %v", i, r, err)
					if (kind == "error" || kind == "both") && (f.Check != ErrStore || !errors.Is(err, errDisk)) ||
						kind == "panic" && f.Check != ErrStore || kind == "fewer" && f.Check == ErrReplay {
						t.Errorf("answer %d: %v", i, err)
					}
				}
				// An answer without bytes stays as it is: a module that was never kept.
				least := map[string]int{"fewer": told / 3, "more": told / 3}
				assert.True(t, told*step >= 80 && found >= max(least[kind], 1) && (least[kind] != 0 || found >= told-2),
					"%d lies, %d found out", told, found)
			})
		}
	}
}

// A deaf store goes on yielding entries after the loop has ended.
type deaf struct{ proofgraph.Store }

func (s deaf) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range s.Store.Entries(ctx, from, to) {
			yield(e, err)
			yield(e, err)
		}
	}
}

// A void store returns a nil iterator.
type void struct{ proofgraph.Store }

func (void) Entries(context.Context, uint64, uint64) iter.Seq2[contracts.Entry, error] { return nil }

// A generous store yields all entries that follow the first one asked for.
type generous struct{ *forge.Shelf }

func (s generous) Entries(ctx context.Context, from, _ uint64) iter.Seq2[contracts.Entry, error] {
	return s.Shelf.Entries(ctx, from, uint64(len(s.Lines)))
}

func TestStoresThatAreNone(t *testing.T) {
	t.Parallel()
	d := forge.FixtureLog(t)
	whole := forge.Shelve(t, d.Pack(Write))
	with := func(change func(s *forge.Shelf)) *forge.Shelf {
		s := *whole
		change(&s)
		return &s
	}
	n := len(whole.Lines)
	for name, x := range map[string]struct {
		store proofgraph.Store
		want  error
		say   string
	}{
		"none":  {nil, ErrInput, "no store was given"},
		"nil":   {(*proofgraph.Memory)(nil), ErrStore, "it panicked"},
		"empty": {proofgraph.NewMemory(), ErrCheckpoint, "make it with Kernel.Checkpoint"},
		"no checkpoint": {with(func(s *forge.Shelf) { s.Note = nil }), ErrCheckpoint,
			"make it with Kernel.Checkpoint"},
		"a bad checkpoint": {with(func(s *forge.Shelf) { s.Note = []byte("log\n") }), ErrCheckpoint, ""},
		"a long one": {with(func(s *forge.Shelf) {
			s.Note = append(slices.Clip(s.Note), make([]byte, maxNote)...)
		}), ErrCheckpoint, "1,000,000"},
		"no entries": {with(func(s *forge.Shelf) { s.Lines = nil }), ErrChain, "no genesis"},
		"one":        {with(func(s *forge.Shelf) { s.Lines = s.Lines[:1] }), ErrMerkle, "checkpoint.size"},
		"one fewer":  {with(func(s *forge.Shelf) { s.Lines = s.Lines[:n-1] }), ErrMerkle, "checkpoint.size"},
		"deaf":       {deaf{whole}, ErrChain, ""}, // each entry comes twice
		"void":       {void{whole}, ErrStore, "it panicked"},
		"generous": {generous{with(func(s *forge.Shelf) {
			s.Lines = append(slices.Clip(s.Lines), s.Lines[n-1])
		})}, ErrStore, "more entries than it was asked for"},
		"a long entry": {with(func(s *forge.Shelf) {
			s.Lines = slices.Clone(s.Lines)
			s.Lines[3] = make([]byte, contracts.MaxEntry+1)
		}), ErrEncoding, "entry 3"},
		"a long blob": {with(func(s *forge.Shelf) {
			s.Blobs = maps.Clone(s.Blobs)
			for d := range s.Blobs {
				s.Blobs[d] = make([]byte, maxBlob+1)
				break
			}
		}), ErrBlob, "longer than any blob may be"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := VerifyStore(t.Context(), x.store, Options{Trust: d.Trust})
			mustRefuse(t, r, err, x.want)
			assert.Contains(t, fmt.Sprint(err), x.say, "%v", err)
		})
	}
	r, err := VerifyStore(t.Context(), whole, Options{Trust: d.Trust, Level: Witnessed + 1})
	mustRefuse(t, r, err, ErrInput)
}

// TestStoreEnds: a verification ends with its context, wherever that is noticed, and it is no fault
// of the store's.
func TestStoreEnds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	d := forge.FixtureLog(t)
	for i := 0; ; i++ {
		ctx, cancel := context.WithCancel(t.Context())
		l := &lyingStore{d.Store, i,
			lie{more: 1, bytes: func(b []byte, err error) ([]byte, error) { cancel(); return b, err },
				size: func(n uint64) (uint64, error) { cancel(); return n, nil }}}
		r, err := VerifyStore(ctx, l, Options{Trust: d.Trust})
		cancel()
		if l.n >= 0 {
			assert.True(t, i >= 60, "it ended %d times", i)
			break
		}
		require.True(t, errors.Is(err, context.Canceled) && !errors.As(err, new(*Error)) && r.Fault == nil &&
			r.Level == Invalid, "answer %d: %+v, %v", i, r, err)
	}
}

// A forgetful reader does not have a blob at its nth read of the header: another name is there.
type forgetful struct {
	io.ReaderAt
	at int64 // of the header
	n  int
}

func (f *forgetful) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(b, at)
	if i := f.at - at; i >= 0 && i+forge.TarBlock <= int64(n) {
		if f.n--; f.n == -1 {
			b[i+int64(len(ustar.BlobPrefix))+63] ^= 1
		}
	}
	return n, err
}

// TestErasedInBetween: inputs that were there once, and are not when they are needed again, are no
// erased ones: what hangs on them is not believed. Here a kernel took a receipt of other values for
// one of these.
func TestErasedInBetween(t *testing.T) {
	t.Parallel()
	d := forge.NewFixture(t)
	d.Look("/a")
	a, l := d.Ask("act", `{"path":"/b"}`), forge.LookedAt(d.Memory.Runs[0].Entry, d.Memory.Runs[0].Time)
	d.Memory.Lie = func(p past.Past) past.Past { l.Past = p; return l }
	d.Allowed(a)
	d.Checkpoint()
	pack := d.Pack(Write)
	m := forge.TakeApart(t, pack)
	name := forge.Judgements(m)[0].D()["inputsHash"].(string)
	delete(m.Blobs, name)
	// or it would be found out anyway
	r, err := verifyBytes(t, m.Build(), Options{Trust: d.Trust})
	require.True(t, err == nil && len(r.Erased) == 1, "%+v, %v", r, err)
	never := func(from string, i int, r Report, err error) { // with nothing that is said to be erased
		assert.False(t, err == nil && len(r.Erased) == 0, "%s, %d: %+v, %v", from, i, r, err)
	}
	again, changed := 0, 0
	for i := 0; ; i++ {
		s := &lyingStore{d.Store, i, lies["fewer"]}
		s.what.more = 1
		r, err := VerifyStore(t.Context(), s, Options{Trust: d.Trust})
		if s.n >= 0 {
			break
		}
		if never("store", i, r, err); err == nil {
			again++ // from the beginning, unless they were never there
		}
	}
	for i := range 8 {
		f := &forgetful{bytes.NewReader(pack), int64(bytes.Index(pack, []byte(ustar.BlobPrefix+name))), i}
		r, err := Verify(t.Context(), f, int64(len(pack)), Options{Trust: d.Trust})
		if never("pack", i, r, err); errors.Is(err, errChanged) || errors.Is(err, errLetGo) {
			changed++
		}
	}
	assert.True(t, again >= 2 && changed >= 1, "a store was read again %d times, a pack changed %d times", again, changed)
}

// A wild store panics with what it keeps, or ends the goroutine that asks.
type wild struct {
	proofgraph.Store
	do func(b []byte)
}

func (s wild) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	b, err := s.Store.Blob(ctx, d)
	s.do(b)
	return b, err
}

// TestPanicIsNotShown: whatever a store panics with may be what it keeps, and stands in no error.
// The runtime's own may.
func TestPanicIsNotShown(t *testing.T) {
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	m.Allowed(forge.Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/private"}`, Who: forge.Reader})
	m.Checkpoint()
	r, err := VerifyStore(t.Context(), wild{m.Store, func(b []byte) {
		if strings.Contains(string(b), "private") {
			panic(string(b))
		}
	}}, Options{Trust: m.Trust})
	mustRefuse(t, r, err, ErrStore)
	assert.True(t, strings.Contains(err.Error(), "panicked") && !strings.Contains(err.Error(), "private"), "%v", err)
	var none []byte
	r, err = VerifyStore(t.Context(), wild{m.Store, func([]byte) { none[0]++ }}, Options{Trust: m.Trust})
	mustRefuse(t, r, err, ErrStore)
	assert.Contains(t, err.Error(), "index out of range", "%v", err)
}

// TestGoroutineEndsInAStore: if a store ends the calling goroutine, there is no
// success, and nothing of the verification is left.
func TestGoroutineEndsInAStore(t *testing.T) {
	m := forge.FixtureLog(t)
	before := runtime.NumGoroutine()
	answered := false
	done := make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		VerifyStore(context.Background(), wild{m.Store, func([]byte) {
			if n++; n > 5 {
				runtime.Goexit()
			}
		}}, Options{Trust: m.Trust})
		answered = true
	}()
	<-done
	// those that end may take a moment
	for began := time.Now(); runtime.NumGoroutine() > before && time.Since(began) < 10*time.Second; {
		runtime.Gosched()
	}
	now := runtime.NumGoroutine()
	assert.True(t, !answered && n != 0 && now <= before, "answered: %v; %d goroutines before and %d after", answered,
		before, now)
}
