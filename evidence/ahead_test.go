package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// verifyWith has so many goroutines open entries, so many bytes of them at a time.
func verifyWith(ctx context.Context, r io.ReaderAt, size int64, o Options, workers, batch int) (Report, error) {
	return Verify(inorder.With(ctx, inorder.Shape{Workers: workers, Batch: batch}), r, size, o)
}

// mustHaveEnded requires that no goroutine works on a queue.
func mustHaveEnded(t testing.TB, when string) {
	t.Helper()
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	assert.NotContains(t, string(b), "inorder.(*Queue", "%s: goroutines are left:\n%s", when, b)
}

// TestAheadEnds: whatever ends a verification, its goroutines end before it does; and a panic is
// the caller's own.
func TestAheadEnds(t *testing.T) {
	m := forge.LongLog(t, 60)
	pack := m.Pack(Write)
	spoiled := bytes.Replace(pack, []byte(`"}]}`+"\n"+`{"payload"`), []byte(`"]}}`+"\n"+`{"payload"`), 1)
	size := int64(len(pack))
	verify := func(ctx context.Context, r io.ReaderAt, o Options) (panicked any, err error) {
		defer func() { panicked = recover() }()
		o.Trust = m.Trust
		_, err = verifyWith(ctx, r, size, o, 4, 1)
		return nil, err
	}
	for range 20 {
		p, err := verify(t.Context(), bytes.NewReader(pack), Options{})
		require.True(t, err == nil && p == nil, "%v %v", err, p)
		mustHaveEnded(t, "a good pack")
		p, err = verify(t.Context(), bytes.NewReader(spoiled), Options{})
		require.True(t, errors.Is(err, ErrEncoding) && p == nil, "%v %v", err, p)
		mustHaveEnded(t, "a bad pack")
	}
	reads, ended := 0, 0
	for n := 0; ; n++ {
		f := &failing{bytes.NewReader(pack), n, func([]byte, int, error) (int, error) { panic("the disk") }}
		if p, _ := verify(t.Context(), f, Options{}); p == nil {
			break
		} else if p != "the disk" {
			t.Fatalf("read %d: %v", n, p)
		}
		mustHaveEnded(t, "a reader that panics")
		reads++
	}
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		f := &failing{bytes.NewReader(pack), n,
			func(_ []byte, n int, err error) (int, error) { cancel(); return n, err }}
		p, err := verify(ctx, f, Options{})
		cancel()
		if err == nil && p == nil {
			break
		}
		require.True(t, errors.Is(err, context.Canceled) && p == nil, "read %d: %v, %v", n, err, p)
		mustHaveEnded(t, "an ended context")
		ended++
	}
	assert.True(t, reads >= 20 && ended >= 20, "only %d reads panicked, %d ended the context", reads, ended)
	if p, _ := verify(t.Context(), bytes.NewReader(pack),
		Options{Progress: func(uint64, uint64) { panic("told") }}); p != "told" {
		t.Errorf("a panic in Progress: %v", p)
	}
	mustHaveEnded(t, "a panic in Progress")
}

// TestOneProcessor: alone, no goroutine is started.
func TestOneProcessor(t *testing.T) {
	m := forge.LongLog(t, 60)
	pack := m.Pack(Write)
	for workers, want := range map[int]bool{1: false, 2: true} {
		started := false
		spy := func(b []byte, n int, err error) (int, error) {
			stack := make([]byte, 1<<20)
			started = started || strings.Contains(string(stack[:runtime.Stack(stack, true)]),
				"inorder.(*Queue[...]).ahead")
			return n, err
		}
		_, err := verifyWith(t.Context(), &failing{bytes.NewReader(pack), 0, spy}, int64(len(pack)),
			Options{Trust: m.Trust}, workers, 1)
		require.NoError(t, err)
		assert.Equal(t, want, started, "%d: goroutines were started", workers)
	}
}

// TestPanicAhead: what panics when it is opened ahead is nothing, and is opened again in its turn.
func TestPanicAhead(t *testing.T) {
	t.Parallel()
	b := batch{lines: make([]line, 2), opened: make([]early, 2)}
	b.open(nil, func() bool { return false })
	assert.Nil(t, b.opened[0].statement, "%+v", b)
}

// shapes are goroutines and batches: each entry by itself, a few together, all at once.
var shapes = [...]inorder.Shape{{Workers: 2, Batch: 1}, {Workers: 3, Batch: 4 << 10}, {Workers: 8, Batch: 1},
	{Workers: 2, Batch: 64 << 10}}

// An endless source has its first entries, and then one that never ends.
type endless struct {
	source
	entries int
	then    line
	given   int
	bytes   int
}

func (e *endless) lines() iter.Seq2[line, *Error] {
	return func(yield func(line, *Error) bool) {
		n := 0
		for l, f := range e.source.lines() {
			if n++; n > e.entries || f != nil || !yield(l, f) {
				break
			}
		}
		for yield(e.then, nil) {
			e.given, e.bytes = e.given+1, e.bytes+len(e.then.bytes)
		}
	}
}

// TestAheadIsBounded: a constant number of lines and bytes is taken before its turn, also if they
// are no entries.
func TestAheadIsBounded(t *testing.T) {
	m := forge.LongLog(t, 600)
	pack := m.Pack(Write)
	for name, then := range map[string][]byte{"line ends": nil, "long lines": make([]byte, contracts.MaxEntry),
		"one too long": make([]byte, 1<<20)} {
		v := newVerifier(t.Context(), Options{Trust: m.Trust})
		v.workers = 4
		p, err := openPacked(t.Context(), bytes.NewReader(pack), int64(len(pack)), ustar.Pack)
		require.NoError(t, err)
		e := &endless{source: p, entries: 500, then: line{bytes: then}}
		assert.ErrorIs(t, v.verify(e), ErrEncoding, "%s", name)
		if most := 2 * v.workers; e.given > most*batchLines || e.bytes > most*max(batchBytes, len(then)) {
			t.Errorf("%s: %d lines and %d bytes were taken in vain", name, e.given, e.bytes)
		}
		mustHaveEnded(t, name)
	}
}

// TestAheadInStore verifies a log in its store, in the shapes, entry by entry told of it; and
// with a store that panics at each call.
func TestAheadInStore(t *testing.T) {
	m := forge.LongLog(t, 60)
	size, err := m.Store.Size(t.Context())
	require.NoError(m, err)
	verify := func(s proofgraph.Store, workers, batch int, progress func(done, total uint64)) (Report, error) {
		v := newVerifier(t.Context(), Options{Trust: m.Trust, Progress: progress})
		v.workers, v.batch = workers, batch
		r, err := v.answer(v.inStore(s))
		mustHaveEnded(t, "a store")
		return r, err
	}
	want, err := verify(m.Store, 1, 0, nil)
	require.True(t, err == nil && want.Success(Logged), "%v %v", want, err)
	for _, x := range shapes {
		last := [2]uint64{}
		got, err := verify(m.Store, x.Workers, x.Batch, func(done, total uint64) { last = [2]uint64{done, total} })
		assert.True(t, err == nil && reflect.DeepEqual(got, want) && last == [2]uint64{size, size},
			"%+v, %v; of all %v", got, err, last)
		calls := 0
		for n := 0; ; n += 7 {
			calls = 0
			s := &forge.FaultyStore{Store: m.Store, OnBlob: func(_ contracts.Digest, b []byte) ([]byte, error) {
				if calls++; calls > n {
					panic("the store")
				}
				return b, nil
			}, OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
				if calls++; calls > n {
					panic("the store")
				}
				return e, nil
			}}
			r, err := verify(s, x.Workers, x.Batch, nil)
			if calls <= n {
				break
			}
			mustRefuse(t, r, err, ErrStore)
		}
		assert.True(t, calls >= 60, "only %d calls", calls)
	}
}

// TestProgress: it never goes back, comes on the caller's goroutine about once per MiB of entries,
// and at the end of a success, and of nothing else, all is done.
func TestProgress(t *testing.T) {
	race.Alone(t)
	m := forge.LongLog(t, 1_900)
	pack := m.Pack(Write)
	total := uint64(len(forge.Untar(t, pack)[forge.EntriesAt].Body))
	goroutine := func() string {
		b := make([]byte, 64)
		line, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "[")
		return line
	}
	for _, workers := range []int{1, 3} {
		here, times, last := goroutine(), 0, uint64(0)
		o := Options{Trust: m.Trust, Progress: func(done, of uint64) {
			if done <= last || of != total || done > of || goroutine() != here {
				t.Errorf("%d after %d out of %d, want %d; on %s, want %s", done, last, of, total, goroutine(), here)
			}
			times, last = times+1, done
		}}
		_, err := verifyWith(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, workers, batchBytes)
		assert.True(t, err == nil && last == total, "%d of %d, %v", last, total, err)
		most := int(total>>20) + 1
		assert.True(t, times <= most && times >= most/2 && times >= 3, "%d times, of %d bytes", times, total)
		if workers == 1 {
			continue
		}
		for name, change := range map[string]func(ms []forge.Member){
			"an entry":       func(ms []forge.Member) { b := ms[forge.EntriesAt].Body; b[len(b)-3] = ' ' },
			"the checkpoint": func(ms []forge.Member) { ms[forge.CheckpointAt].Body[0] ^= 1 },
			"a blob":         func(ms []forge.Member) { ms[len(ms)-1].Body[0] ^= 1 },
		} {
			ms := forge.Untar(t, pack)
			change(ms)
			last = 0
			bad := forge.TarOf(ms)
			_, err := verifyWith(t.Context(), bytes.NewReader(bad), int64(len(bad)), o, workers, batchBytes)
			assert.True(t, err != nil && last != total && last != 0, "%s: %d of %d, %v", name, last, total, err)
		}
	}
	v := newVerifier(t.Context(), Options{Progress: func(done, total uint64) {
		t.Errorf("%d of %d, before the checks after the entries", done, total)
	}})
	v.from, v.unsaid = &stored{size: 1}, 1<<20
	v.progress(line{end: 1})
}
