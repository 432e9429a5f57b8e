package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
)

// onProcessors runs a test on one and on some.
func onProcessors(t *testing.T, test func(t *testing.T)) {
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			test(t)
		})
	}
}

// outcome runs something on a goroutine of its own: an error, what it panicked with, or that it
// never returned.
func outcome(run func() error) (what any) {
	done := make(chan any)
	go func() {
		what := any("ended")
		defer func() {
			if p := recover(); p != nil {
				what = fmt.Sprint("panic: ", p)
			}
			done <- what
		}()
		what = run()
	}()
	return <-done
}

// A busyStore knows how many calls of Blob it is in.
type busyStore struct {
	*forge.FaultyStore
	in atomic.Int32
}

func (s *busyStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	s.in.Add(1)
	defer s.in.Add(-1)
	runtime.Gosched()
	return s.FaultyStore.Blob(ctx, d)
}

// TestWriteUnwinds has a store panic, end the goroutine, fail and end the context at every third
// blob: it is the caller's, and when Write returns no call of the store is running.
func TestWriteUnwinds(t *testing.T) {
	m := forge.BaseLog(t)
	m.Checkpoint()
	var names []string
	for _, x := range forge.Untar(t, m.Pack(Write))[forge.EntriesAt+1:] {
		names = append(names, strings.TrimPrefix(x.Name, ustar.BlobPrefix))
	}
	onProcessors(t, func(t *testing.T) {
		for n := 0; n < len(names); n += 3 {
			d := names[n]
			for _, reading := range []int{1, 2} {
				for how, want := range []any{errDisk, "panic: boom", "ended", context.Canceled} {
					ctx, cancel := context.WithCancel(t.Context())
					seen := 0
					s := &busyStore{FaultyStore: &forge.FaultyStore{Store: m.Store}}
					s.OnBlob = func(x contracts.Digest, b []byte) ([]byte, error) {
						if x.String() != d {
							return b, nil
						}
						if seen++; x == m.Trust.Digest() && seen == 1 || seen < reading {
							return b, nil
						}
						switch how {
						case 1:
							panic("boom")
						case 2:
							runtime.Goexit()
						case 3:
							cancel()
							return nil, ctx.Err()
						}
						return nil, errDisk
					}
					got := outcome(func() error { return Write(ctx, io.Discard, s, forge.Key(t, m.By)) })
					cancel()
					if err, ok := want.(error); ok && got != nil && errors.Is(got.(error), err) {
						got = want
					}
					if got != want || s.in.Load() != 0 {
						t.Fatalf("blob %s, reading %d: %v, want %v; %d calls are not over", d, reading, got, want,
							s.in.Load())
					}
				}
			}
		}
		assert.True(t, len(names) >= 10, "%d blobs", len(names))
	})
}

// TestWriteOnProcessors: however many there are, the pack is the same.
func TestWriteOnProcessors(t *testing.T) {
	m := forge.LongLog(t, 1500) // several batches, of entries and of blobs
	want := m.Pack(Write)
	onProcessors(t, func(t *testing.T) {
		assert.True(t, bytes.Equal(m.Pack(Write), want), "another pack")
	})
}
