package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

// A failing store fails at each reading of entries after so many.
type failing struct {
	proofgraph.Store
	after int
	n     atomic.Int64
	err   error
}

func (f *failing) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if f.n.Add(1) > int64(f.after) {
		return func(yield func(contracts.Entry, error) bool) { yield(nil, f.err) }
	}
	return f.Store.Entries(ctx, from, to)
}

// A counting store counts how often the whole log was read, and can be made to wait then.
type counting struct {
	proofgraph.Store
	reads   atomic.Int64
	waiting chan struct{} // nil: nothing waits
}

func (c *counting) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	c.reads.Add(1)
	if c.waiting != nil {
		<-c.waiting
	}
	return c.Store.Entries(ctx, from, to)
}

func newAuditor(t *testing.T, w *kerneltest.World) (*face, string) {
	t.Helper()
	secret, entry := token(t, eve, auth.ReadAll, auth.Inputs)
	return faceOf(t, w, entry), secret
}

// TestVerify: the report is that of VerifyStore, kept as long as the checkpoint is the latest.
func TestVerify(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	f, secret := newAuditor(t, w)
	store := &counting{Store: w.Store}
	f.over(store)
	f.ask(secret, "GET", "/api/v1/verify").fails(404, "helm_not_found")
	w.Call("echo", `{}`)
	checkpoint := func() {
		_, err := w.Kernel.Checkpoint(t.Context())
		require.NoError(t, err)
	}
	checkpoint()
	get := func() (v struct {
		About, Text string
		Report      struct {
			Level, Signer string
			Size, Behind  uint64
		}
	}) {
		require.NoError(t, json.Unmarshal([]byte(f.get(secret, "/api/v1/verify").body), &v))
		return v
	}
	v := get()
	assert.Contains(t, v.About, "about itself")
	assert.Equal(t, "LOGGED", v.Report.Level)
	assert.Equal(t, w.Size(), v.Report.Size)
	reads := store.reads.Load()
	w.Call("echo", `{}`)
	v = get()
	assert.Equal(t, reads, store.reads.Load(), "the report was kept")
	assert.EqualValues(t, 2, v.Report.Behind)
	checkpoint()
	v = get()
	assert.Less(t, reads, store.reads.Load())
	assert.Zero(t, v.Report.Behind)
	assert.Equal(t, w.Size(), v.Report.Size)
}

// TestVerifyOneAtATime: those who ask at once wait for one verification. One who leaves does not
// keep the others.
func TestVerifyOneAtATime(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	_, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	f, secret := newAuditor(t, w)
	plain := &counting{Store: w.Store}
	f.over(plain)
	f.get(secret, "/api/v1/verify")
	once := plain.reads.Load()

	store := &counting{Store: w.Store, waiting: make(chan struct{})}
	f.over(store)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { f.get(secret, "/api/v1/verify") })
	}
	require.Eventually(t, func() bool { return store.reads.Load() == 1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/api/v1/verify", nil)
	require.NoError(t, err)
	r.Header.Set("Helm-Token", secret)
	f.ServeHTTP(&discarded{}, r) // returns though nothing was verified yet
	close(store.waiting)
	all.Wait()
	assert.Equal(t, once, store.reads.Load())
}

type discarded struct{ h http.Header }

func (d *discarded) Header() http.Header {
	if d.h == nil {
		d.h = http.Header{}
	}
	return d.h
}
func (*discarded) Write(b []byte) (int, error) { return len(b), nil }
func (*discarded) WriteHeader(int)             {}

// TestVerifyFindsFaults: a log that is at fault is the answer, and no error.
func TestVerifyFindsFaults(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{}`)
	_, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	f, secret := newAuditor(t, w)
	f.over(kerneltest.ReadStore{Store: w.Store,
		OnEntries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				i := from
				for e, err := range w.Store.Entries(ctx, from, to) {
					if i == 2 {
						e = bytes.Clone(e)
						at := bytes.Index(e, []byte(`"sig":"`)) + 10
						e[at] ^= 1
					}
					if i++; !yield(e, err) {
						return
					}
				}
			}
		}})
	var v struct{ Report struct{ Level string } }
	require.NoError(t, json.Unmarshal([]byte(f.get(secret, "/api/v1/verify").body), &v))
	assert.Equal(t, "INVALID", v.Report.Level)
}

// TestPack: the pack reaches to a checkpoint that was made for it, and verifies.
func TestPack(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{"text":"x"}`)
	w.Call("closed", `{}`)
	f, secret := newAuditor(t, w)
	a := f.get(secret, "/api/v1/pack")
	assert.Equal(t, "application/x-tar", a.header.Get("Content-Type"))
	report, err := evidence.Verify(t.Context(), bytes.NewReader([]byte(a.body)), int64(len(a.body)),
		evidence.Options{Trust: w.Kernel.Trust()})
	require.NoError(t, err)
	assert.True(t, report.Success(evidence.Logged))
	assert.Equal(t, w.Size(), report.Size)

	w.Close()
	a = f.ask(secret, "GET", "/api/v1/pack").fails(503, "helm_unavailable")
	assert.Empty(t, a.header.Get("Content-Disposition"))
}

// TestPackScopes: each of the two scopes alone is too little.
func TestPackScopes(t *testing.T) {
	t.Parallel()
	all, allEntry := token(t, ann, auth.ReadAll)
	inputs, inputsEntry := token(t, bob, auth.Read, auth.Inputs)
	f := newFace(t, allEntry, inputsEntry)
	for _, secret := range []string{all, inputs} {
		f.ask(secret, "GET", "/api/v1/pack").fails(403, "helm_forbidden")
	}
	f.ask(inputs, "GET", "/api/v1/verify").fails(403, "helm_forbidden")
	note, err := f.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	assert.Nil(t, note, "nothing was done")
}

// A pipeListener has connections without any buffer: what nobody reads cannot be written.
type pipeListener struct {
	accept chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// served serves the face, and returns what connects to it.
func (f *face) served() (dial func() net.Conn) {
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: f.Handler}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(l) }()
	f.T.Cleanup(func() { _ = s.Close(); <-ended })
	return func() net.Conn {
		here, there := net.Pipe()
		l.accept <- there
		f.T.Cleanup(func() { here.Close() })
		return here
	}
}

// TestClientThatTakesNothing: it is waited for so long, and then its connection ends: in the middle
// of the pack, so that nobody takes it for whole. It keeps no place.
func TestClientThatTakesNothing(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	for range 30 {
		w.Call("echo", `{"text":"x"}`)
	}
	f, secret := newAuditor(t, w)
	store := &counting{Store: w.Store}
	f.over(store)
	f.api.within = 10 * time.Millisecond
	dial := f.served()
	for range packs + 1 {
		before := store.reads.Load()
		c := dial()
		_, err := io.WriteString(c, "GET /api/v1/pack HTTP/1.1\r\nHost: 127.0.0.1\r\nHelm-Token: "+secret+"\r\n\r\n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return store.reads.Load() > before && len(f.api.packs) == 0 },
			time.Minute, time.Millisecond)
		_, err = io.Copy(io.Discard, c)
		assert.NoError(t, err, "the connection is closed")
	}
	f.api.within = time.Minute
	c := dial()
	_, err := io.WriteString(c, "GET /api/v1/pack HTTP/1.1\r\nHost: 127.0.0.1\r\nHelm-Token: "+secret+"\r\n\r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	_, err = evidence.Verify(t.Context(), bytes.NewReader(b), int64(len(b)), evidence.Options{Trust: w.Kernel.Trust()})
	require.NoError(t, err)
}

// TestPackThatBreaks: a store that fails in the middle ends the connection.
func TestPackThatBreaks(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{}`)
	f, secret := newAuditor(t, w)
	f.over(&failing{Store: w.Store, after: 1, err: errors.New("disk")}) // the second reading writes
	c := f.served()()
	_, err := io.WriteString(c, "GET /api/v1/pack HTTP/1.1\r\nHost: 127.0.0.1\r\nHelm-Token: "+secret+"\r\n\r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && r.StatusCode == http.StatusOK {
		_, err = io.ReadAll(r.Body)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
}

// TestTooManyPacks: a pack takes memory, so there are few at once.
func TestTooManyPacks(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	f, secret := newAuditor(t, w)
	for range packs {
		f.api.packs <- struct{}{}
	}
	a := f.ask(secret, "GET", "/api/v1/pack")
	assert.Equal(t, 503, a.status)
	assert.Equal(t, "10", a.header.Get("Retry-After"))
	note, err := w.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	assert.Nil(t, note, "nothing was done")
}
