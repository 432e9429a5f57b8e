package checkpoints

import (
	"context"
	stdcrypto "crypto"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

// marks are the checkpoints that Done was called with.
type marks struct {
	mu    sync.Mutex
	sizes []uint64
	heard chan struct{}
}

func (m *marks) done(_ context.Context, c proofgraph.Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sizes = append(m.sizes, c.Size)
	m.heard <- struct{}{}
}

func (m *marks) all() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]uint64(nil), m.sizes...)
}

func marked(t *testing.T, w *kerneltest.World) uint64 {
	t.Helper()
	note, err := w.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	if note == nil {
		return 0
	}
	c, _, err := proofgraph.ParseCheckpoint(note)
	require.NoError(t, err)
	return c.Size
}

// Without the option there is no checkpoint that nobody asked for, at Close neither.
func TestNoCheckpoint(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{"text":"x"}`)
	w.Close()
	assert.Zero(t, marked(t, w))
}

// One is made when so many entries are durable, and Close makes the last one.
func TestCheckpointEvery(t *testing.T) {
	t.Parallel()
	m := &marks{heard: make(chan struct{}, 100)}
	w := kerneltest.New(t, func(o *helm.Options) { o.Checkpoint = helm.Checkpoints{Every: 6, Done: m.done} })
	first := w.Size()
	for w.Size() < 6 {
		assert.Empty(t, m.all(), "before it was due")
		w.MustCall(kerneltest.Executed(`{"n":1,"text":"x"}`), "echo", `{"text":"x"}`)
	}
	<-m.heard
	require.Len(t, m.all(), 1)
	at := m.all()[0]
	assert.GreaterOrEqual(t, at, uint64(6), "of %d entries at the beginning", first)
	assert.Equal(t, at, marked(t, w))
	_, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	<-m.heard
	w.MustCall(kerneltest.Executed(`{"n":1,"text":"x"}`), "echo", `{"text":"x"}`)
	assert.Len(t, m.all(), 2, "after a checkpoint that was asked for the count begins again")
	w.Close()
	assert.Equal(t, w.Size(), marked(t, w))
	assert.Equal(t, marked(t, w), m.all()[len(m.all())-1])
}

// One is made when the first entry has waited so long, and none while nothing happens.
func TestCheckpointAfter(t *testing.T) {
	t.Parallel()
	m := &marks{heard: make(chan struct{}, 100)}
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Checkpoint = helm.Checkpoints{After: time.Millisecond, Done: m.done}
	})
	<-m.heard // of what New wrote
	for range 3 {
		before := len(m.all())
		w.MustCall(kerneltest.Executed(`{"n":1,"text":"x"}`), "echo", `{"text":"x"}`)
		for m.all()[len(m.all())-1] < w.Size() {
			<-m.heard
		}
		time.Sleep(20 * time.Millisecond)
		assert.LessOrEqual(t, len(m.all())-before, 2, "an idle kernel made checkpoints")
	}
	w.Close()
}

// A log that has entries after its checkpoint has them counted when it is opened again.
func TestCheckpointAfterOpen(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	for range 4 {
		w.Call("echo", `{"text":"x"}`)
	}
	m := &marks{heard: make(chan struct{}, 100)}
	w.Options.Checkpoint = helm.Checkpoints{Every: w.Size(), Done: m.done}
	w.Reopen()
	<-m.heard
	assert.GreaterOrEqual(t, m.all()[0], w.Size())
}

// pulled is a key in a token that may be pulled.
type pulled struct {
	crypto.PrivateKey
	out atomic.Bool
}

func (p *pulled) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if p.out.Load() {
		return nil, errors.New("the token was pulled")
	}
	return p.PrivateKey.Sign(r, msg, o)
}

// A signer that fails seals nothing. There is an event, and the next attempt is at the next count.
func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	signer := &pulled{PrivateKey: kerneltest.SeedKey(t, 9)}
	signer.out.Store(true)
	failed := make(chan helm.Event, 100)
	w := kerneltest.New(t, func(o *helm.Options) {
		o.LogKey = signer
		o.Checkpoint = helm.Checkpoints{Every: 4}
		o.Observe = func(_ context.Context, e helm.Event) {
			if e.Why == "checkpoint" {
				failed <- e
			}
		}
	})
	ok := kerneltest.Executed(`{"n":1,"text":"x"}`)
	for range 4 {
		w.MustCall(ok, "echo", `{"text":"x"}`)
	}
	e := <-failed
	require.ErrorContains(t, e.Err, "the token was pulled")
	assert.Equal(t, helm.Event{Why: "checkpoint", Err: e.Err}, e)
	require.NoError(t, w.Kernel.Err())
	time.Sleep(50 * time.Millisecond)
	assert.LessOrEqual(t, len(failed), int(w.Size())/4, "it was tried again before it was due")
	signer.out.Store(false)
	for marked(t, w) == 0 {
		w.MustCall(ok, "echo", `{"text":"x"}`)
		runtime.Gosched()
	}
	signer.out.Store(true)
	w.MustCall(ok, "echo", `{"text":"x"}`)
	require.ErrorContains(t, w.Kernel.Close(), "the last checkpoint: ")
}

// silent is a key that does not answer until it may.
type silent struct {
	crypto.PrivateKey
	asked chan struct{}
	goOn  chan struct{}
}

func (s *silent) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	s.asked <- struct{}{}
	<-s.goOn
	return s.PrivateKey.Sign(r, msg, o)
}

// No call waits for a checkpoint that is due, whose key does not answer, nor for a witness, which
// Done asks and which does not answer: the calls of this test end while both are silent.
func TestNoCallWaits(t *testing.T) {
	t.Parallel()
	goOn, done := make(chan struct{}), make(chan struct{}, 1000)
	key := &silent{PrivateKey: kerneltest.SeedKey(t, 9), asked: make(chan struct{}, 1000), goOn: make(chan struct{})}
	w := kerneltest.New(t, func(o *helm.Options) {
		o.LogKey = key
		o.Checkpoint = helm.Checkpoints{Every: 4, Done: func(context.Context, proofgraph.Checkpoint) {
			done <- struct{}{}
			<-goOn
		}}
	})
	ok := kerneltest.Executed(`{"n":1,"text":"x"}`)
	calls := func() {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					w.Call("echo", `{"text":"x"}`)
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, 100, w.Runs.Swap(0))
		w.MustCall(ok, "echo", `{"text":"x"}`)
	}
	w.MustCall(ok, "echo", `{"text":"x"}`)
	w.MustCall(ok, "echo", `{"text":"x"}`)
	<-key.asked
	calls()
	assert.Zero(t, marked(t, w), "the key has not answered")
	close(key.goOn)
	<-done
	was := w.Size()
	calls()
	assert.Equal(t, was+2*101, w.Size())
	assert.Empty(t, done, "Done has not returned")
	close(goOn)
	w.Close()
	assert.Equal(t, w.Size(), marked(t, w))
}

// While Done runs checkpoints are made, and only the latest is handed on. Close waits for it. What
// it panics with is dropped.
func TestCheckpointDone(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan uint64, 100), make(chan struct{})
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Checkpoint.Done = func(_ context.Context, c proofgraph.Checkpoint) {
			begun <- c.Size
			<-goOn
			panic("private")
		}
	})
	var sizes []uint64
	for i := range 4 {
		w.Call("echo", `{"text":"x"}`)
		c, err := w.Kernel.Checkpoint(t.Context())
		require.NoError(t, err)
		if sizes = append(sizes, c.Size); i == 0 {
			assert.Equal(t, c.Size, <-begun)
		}
	}
	assert.Empty(t, begun, "one at a time")
	closed := make(chan error, 1)
	go func() { closed <- w.Kernel.Close() }()
	select {
	case <-closed:
		t.Fatal("Close did not wait for Done")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	require.NoError(t, <-closed)
	assert.Equal(t, sizes[3], <-begun, "those between are passed over")
	assert.Empty(t, begun)
}

// Done may end its goroutine, and is called again for the next checkpoint.
func TestCheckpointDoneEndsGoroutine(t *testing.T) {
	t.Parallel()
	heard := make(chan uint64, 100)
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Checkpoint.Done = func(_ context.Context, c proofgraph.Checkpoint) {
			heard <- c.Size
			runtime.Goexit()
		}
	})
	for range 3 {
		w.Call("echo", `{"text":"x"}`)
		c, err := w.Kernel.Checkpoint(t.Context())
		require.NoError(t, err)
		assert.Equal(t, c.Size, <-heard)
	}
	w.Close()
}

// Calls of many goroutines: every checkpoint that is handed on is of a durable log, in order, and
// the last one is of all entries.
func TestCheckpointsOfManyCalls(t *testing.T) {
	t.Parallel()
	m := &marks{heard: make(chan struct{}, 10_000)}
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Checkpoint = helm.Checkpoints{Every: 5, After: time.Millisecond, Done: m.done}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 40 {
				w.Call("echo", `{"text":"x"}`)
			}
		})
	}
	wg.Wait()
	w.MustVerify()
	w.Call("echo", `{"text":"x"}`)
	w.Close()
	sizes := m.all()
	assert.IsNonDecreasing(t, sizes)
	assert.Equal(t, w.Size(), sizes[len(sizes)-1])
	assert.Equal(t, w.Size(), marked(t, w))
}

// A kernel that was sealed makes no checkpoint and tries none for ever.
func TestCheckpointOfSealed(t *testing.T) {
	t.Parallel()
	events := make(chan helm.Event, 1000)
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Checkpoint = helm.Checkpoints{After: time.Millisecond}
		o.Observe = func(_ context.Context, e helm.Event) {
			if e.Why == "checkpoint" {
				events <- e
			}
		}
	})
	w.Store.FailIn(1)
	w.Call("echo", `{"text":"x"}`)
	require.Error(t, w.Kernel.Err())
	time.Sleep(50 * time.Millisecond)
	assert.LessOrEqual(t, len(events), 1)
	require.NoError(t, w.Kernel.Close())
}

func TestCheckpointOptions(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Options.Checkpoint.After = -1
	_, err := helm.New(w.Options)
	require.EqualError(t, err, "helm: Options.Checkpoint.After: negative")
}
