package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/auth"
)

const chunkOfText = `data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"

const chunkOfCall = `data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1",` +
	`"type":"function",` +
	`"function":{"name":"read","arguments":"{}"}}]},"finish_reason":null}]}` + "\n\n"

const chunkOfEnd = `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"

func posted(t *testing.T, b *bureau, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.url+chatPath, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "%s", what)
	}
}

// flood has the provider write text without end, and counts it.
func flood(b *bureau) *atomic.Int64 {
	n := new(atomic.Int64)
	many := strings.Replace(chunkOfText, `"a"`, `"`+strings.Repeat("a", 64<<10)+`"`, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provider = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			k, err := io.WriteString(w, many)
			if n.Add(int64(k)); err != nil {
				return
			}
		}
	}
	return n
}

// TestSlowClients: what a client does not take is not read, so that many of them take little
// memory.
func TestSlowClients(t *testing.T) {
	b := newBureau(t, func(_ *Options, o *auth.Options) { o.CallerRequests = 300 })
	written := flood(b)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const clients = 200
	var all []*http.Response
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return c, err
	}}
	for range clients {
		resp, err := transport.RoundTrip(posted(t, b, `{"stream":true,"messages":[]}`))
		require.NoError(t, err)
		all = append(all, resp)
	}
	last := int64(-1)
	eventually(t, "the provider is to be slowed down", func() bool {
		now := written.Load()
		still := now == last
		last = now
		time.Sleep(100 * time.Millisecond)
		return still
	})
	runtime.GC()
	runtime.ReadMemStats(&during)
	used := int64(during.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d streams that nobody reads: %d KiB of heap each, %d KiB written by the provider each", clients,
		used/clients>>10, last/clients>>10)
	assert.Less(t, used, int64(256<<20))
	for _, resp := range all {
		resp.Body.Close()
	}
	transport.CloseIdleConnections()
	b.ends()
}

// TestHeldTogether: requests whose bodies are more than may be held at once are refused, and come
// again later.
func TestHeldTogether(t *testing.T) {
	t.Parallel()
	b := newBureau(t, func(o *Options, _ *auth.Options) {
		o.limits = limits{}.orDefault()
		o.limits.all = 4 << 20
	})
	b.says("%s", completion("", "stop"))
	wait := make(chan struct{})
	var refused, answered atomic.Int64
	var all sync.WaitGroup
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("a", 1<<20) + `"}`
	for range 16 {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, b.url+chatPath, io.MultiReader(strings.NewReader(body),
				stalled{wait}, strings.NewReader("]}")))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			b.proxy.o.Auth.Handler(b.proxy).ServeHTTP(w, r)
			switch resp := w.Result(); resp.StatusCode {
			case 200:
				answered.Add(1)
			case 503:
				assert.NotEmpty(t, resp.Header.Get("Retry-After"))
				assert.Empty(t, resp.Header.Get("X-Should-Retry"))
				refused.Add(1)
			default:
				assert.Fail(t, resp.Status)
			}
		})
	}
	eventually(t, "some are refused", func() bool {
		b.proxy.meter.mu.Lock()
		defer b.proxy.meter.mu.Unlock()
		assert.LessOrEqual(t, b.proxy.meter.now, 4<<20)
		return refused.Load() >= 12
	})
	close(wait)
	all.Wait()
	assert.NotZero(t, answered.Load())
	eventually(t, "nothing is held at the end", func() bool {
		b.proxy.meter.mu.Lock()
		defer b.proxy.meter.mu.Unlock()
		return b.proxy.meter.now == 0
	})
	b.ends()
}

// A stalled reader ends when wait is closed.
type stalled struct{ wait chan struct{} }

func (s stalled) Read([]byte) (int, error) {
	<-s.wait
	return 0, io.EOF
}

// TestGone: if the provider or the app goes in the middle of an answer, every call in it is
// settled, and no goroutine is left.
func TestGone(t *testing.T) {
	ask := `{"stream":true,"messages":[],` + offered + `}`
	t.Run("the provider, with calls held", func(t *testing.T) {
		b := newBureau(t)
		b.streams(chunkOfText, chunkOfCall)
		a := b.ask(chatPath, ask)
		assert.Equal(t, 200, a.status)
		assert.Contains(t, a.body, `"content":"a"`)
		assert.Contains(t, a.body, `"helm_upstream"`)
		assert.NotContains(t, a.body, "c1")
		assert.NotContains(t, a.body, "[DONE]")
		assert.Empty(t, b.receipts(), "it was not judged")
		b.ends()
	})
	t.Run("the provider, after a call", func(t *testing.T) {
		b := newBureau(t)
		b.streams(chunkOfCall, chunkOfEnd)
		a := b.ask(chatPath, ask)
		assert.Contains(t, a.body, "c1", "what was released is the app's")
		assert.Equal(t, []string{"read open"}, b.receipts())
		b.ends()
	})
	t.Run("the app", func(t *testing.T) {
		b := newBureau(t)
		before := runtime.NumGoroutine()
		ended := make(chan struct{})
		b.mu.Lock()
		b.provider = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunkOfText+chunkOfCall)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
		}
		b.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		transport := &http.Transport{}
		resp, err := transport.RoundTrip(posted(t, b, ask).WithContext(ctx))
		require.NoError(t, err)
		_, err = bufio.NewReader(resp.Body).ReadString('\n')
		require.NoError(t, err)
		cancel()
		<-ended
		resp.Body.Close()
		transport.CloseIdleConnections()
		assert.Empty(t, b.receipts())
		b.proxy.client.(*http.Transport).CloseIdleConnections()
		eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
		b.ends()
	})
	t.Run("the app, before a call is written", func(t *testing.T) {
		b := newBureau(t)
		b.says("%s", completion(proposedOK, "tool_calls"))
		r := posted(t, b, `{"messages":[],`+offered+`}`)
		w := &lost{header: http.Header{}}
		b.proxy.o.Auth.Handler(b.proxy).ServeHTTP(w, r)
		assert.Equal(t, []string{"read INDETERMINATE"}, b.receipts())
		b.ends()
	})
}

// A lost client takes nothing.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header       { return l.header }
func (l *lost) WriteHeader(int)           {}
func (l *lost) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestSilence: a silent provider is waited for only so long, and meanwhile the app hears a sign of
// life.
func TestSilence(t *testing.T) {
	t.Parallel()
	short := func(first, next, keep time.Duration) func(*Options, *auth.Options) {
		return func(o *Options, _ *auth.Options) {
			o.limits = limits{}.orDefault()
			o.limits.first, o.limits.next, o.limits.keep = first, next, keep
		}
	}
	silent := func(b *bureau, begin string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.provider = func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	ask := `{"stream":true,"messages":[]}`
	b := newBureau(t, short(20*time.Millisecond, time.Minute, time.Minute))
	silent(b, "")
	a := b.ask(chatPath, ask)
	assert.Equal(t, 504, a.status)
	assert.Contains(t, a.body, "helm_upstream_timeout")
	b.ends()

	b = newBureau(t, short(time.Minute, 100*time.Millisecond, 10*time.Millisecond))
	silent(b, chunkOfText)
	a = b.ask(chatPath, ask)
	assert.Equal(t, 200, a.status)
	assert.Contains(t, a.body, ": helm\n\n")
	assert.Contains(t, a.body, "helm_upstream_timeout")
	b.ends()
}

// TestUnreachable: a provider that cannot be reached, and a key that cannot be read.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	b := newBureau(t, func(o *Options, _ *auth.Options) {
		o.Chat.URL = "http://127.0.0.1:1"
		o.Messages.Key = func() (string, error) { return "", fmt.Errorf("/secret/place is not there") }
	})
	a := b.ask(chatPath, `{"messages":[]}`)
	assert.Equal(t, 502, a.status)
	a = b.ask("/v1/messages", `{"messages":[]}`)
	assert.Equal(t, 502, a.status)
	assert.NotContains(t, a.body, "place")
	assert.Contains(t, a.body, `"type":"api_error"`)
	assert.Zero(t, b.count())
}

// TestSealed: a kernel that takes no calls asks no model.
func TestSealed(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	b.says("%s", completion(proposedOK, "tool_calls"))
	b.Store.FailIn(1)
	a := b.ask(chatPath, `{"messages":[],`+offered+`}`)
	assert.NotContains(t, a.body, "tool_calls", "the permission could not be written")
	n := b.count()
	a = b.ask(chatPath, `{"messages":[],`+offered+`}`)
	assert.Equal(t, 503, a.status)
	assert.Equal(t, n, b.count())
}

// TestStoreFails: at whatever append the store fails, no call is released without a permission.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		b := newBureau(t)
		b.streams(chunkOfCall, strings.ReplaceAll(chunkOfCall, `"index":0,"id":"c1"`, `"index":1,"id":"c2"`),
			chunkOfEnd,
			"data: [DONE]\n\n")
		b.Store.FailIn(n + 1)
		a := b.ask(chatPath, `{"stream":true,"messages":[],`+offered+`}`)
		released := strings.Count(a.body, `"arguments":"{}"`)
		durable := 0
		for _, st := range b.Statements() {
			if st.Decision != nil {
				durable++
			}
		}
		assert.LessOrEqual(t, released, durable, "the append %d: %s", n, a.body)
		if n == 0 {
			assert.Zero(t, released)
		}
	}
}

// TestFirstText prints the time to the first text of a stream, through the proxy and without it.
func TestFirstText(t *testing.T) {
	b := newBureau(t)
	b.streams(chunkOfText, chunkOfEnd, "data: [DONE]\n\n")
	for _, way := range []struct{ name, base string }{{"direct", b.upstream}, {"through the proxy", b.url}} {
		var all []time.Duration
		for range 300 {
			r := posted(t, b, `{"stream":true,"messages":[]}`)
			u, err := r.URL.Parse(way.base + chatPath)
			require.NoError(t, err)
			r.URL = u
			begin := time.Now()
			resp, err := http.DefaultTransport.RoundTrip(r)
			require.NoError(t, err)
			line, err := bufio.NewReader(resp.Body).ReadString('\n')
			all = append(all, time.Since(begin))
			require.NoError(t, err)
			require.Contains(t, line, `"content":"a"`)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
		}
		slices.Sort(all)
		t.Logf("%s: first text after %v (p50), %v (p99)", way.name, all[len(all)/2], all[len(all)*99/100])
	}
	b.ends()
}
