package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/inorder"
)

// verifyWith has so many goroutines open entries, so many bytes of them at a time.
func verifyWith(ctx context.Context, r io.ReaderAt, size int64, o Options, workers, batch int) (Report, error) {
	return Verify(inorder.With(ctx, inorder.Shape{Workers: workers, Batch: batch}), r, size, o)
}

// mustHaveEnded looks for goroutines of a pipeline.
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
		if p, err := verify(t.Context(), bytes.NewReader(pack), Options{}); err != nil || p != nil {
			t.Fatal(err, p)
		}
		mustHaveEnded(t, "a good pack")
		if p, err := verify(t.Context(), bytes.NewReader(spoiled), Options{}); !errors.Is(err, ErrEncoding) ||
			p != nil {
			t.Fatal(err, p)
		}
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
		if !errors.Is(err, context.Canceled) || p != nil {
			t.Fatalf("read %d: %v, %v", n, err, p)
		}
		mustHaveEnded(t, "an ended context")
		ended++
	}
	if reads < 20 || ended < 20 {
		t.Errorf("only %d reads panicked, %d ended the context", reads, ended)
	}
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
		if started != want {
			t.Errorf("%d: goroutines were started: %v", workers, started)
		}
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
