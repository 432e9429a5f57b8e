package evidence

import (
	"bytes"
	"iter"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

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

// TestAheadIsBounded: what is taken before its turn is a constant number of lines and bytes, of
// entries that are none too.
func TestAheadIsBounded(t *testing.T) {
	m := forge.LongLog(t, 600)
	pack := m.Pack(Write)
	for name, then := range map[string][]byte{"line ends": nil, "long lines": make([]byte, contracts.MaxEntry),
		"one too long": make([]byte, 1<<20)} {
		v := newVerifier(t.Context(), Options{Trust: m.Trust})
		v.workers = 4
		p, err := openPacked(t.Context(), bytes.NewReader(pack), int64(len(pack)))
		require.NoError(t, err)
		e := &endless{source: p, entries: 500, then: line{bytes: then}}
		assert.ErrorIs(t, v.verify(e), ErrEncoding, "%s", name)
		if most := 2 * v.workers; e.given > most*batchLines || e.bytes > most*max(batchBytes, len(then)) {
			t.Errorf("%s: %d lines and %d bytes were taken in vain", name, e.given, e.bytes)
		}
		mustHaveEnded(t, name)
	}
}

// TestAheadInStore verifies a log where it is kept, in the shapes, entry by entry told of it; and
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
	if err != nil || !want.Success(Logged) {
		t.Fatal(want, err)
	}
	for _, x := range shapes {
		last := [2]uint64{}
		got, err := verify(m.Store, x.Workers, x.Batch, func(done, total uint64) { last = [2]uint64{done, total} })
		if err != nil || !reflect.DeepEqual(got, want) || last != [2]uint64{size, size} {
			t.Errorf("%+v, %v; of all %v", got, err, last)
		}
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
		if calls < 60 {
			t.Errorf("only %d calls", calls)
		}
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
		if _, err := verifyWith(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, workers,
			batchBytes); err != nil || last != total {
			t.Errorf("%d of %d, %v", last, total, err)
		}
		if most := int(total>>20) + 1; times > most || times < most/2 || times < 3 {
			t.Errorf("%d times, of %d bytes", times, total)
		}
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
			if _, err := verifyWith(t.Context(), bytes.NewReader(bad), int64(len(bad)), o, workers,
				batchBytes); err == nil || last == total || last == 0 {
				t.Errorf("%s: %d of %d, %v", name, last, total, err)
			}
		}
	}
}
