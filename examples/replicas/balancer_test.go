package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fake is a replica that counts the requests that came to it, and answers with its name.
type fake struct {
	name   string
	came   atomic.Int64
	handle http.HandlerFunc // or as it says
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.came.Add(1)
	if f.handle != nil {
		f.handle(w, r)
		return
	}
	io.Copy(w, io.MultiReader(strings.NewReader(f.name+" "), r.Body))
}

// breaks ends the connection without an answer, as a process that is killed does.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// cut ends it in the middle of one.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, "half an answer")
}

// balanced returns the URL of a balancer over some replicas.
func balanced(t *testing.T, fakes ...*fake) (*balancer, string) {
	b := newBalancer()
	for _, f := range fakes {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		b.put(f.name, server.URL)
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func ask(t *testing.T, url, key string) (status int, answer string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/call", strings.NewReader("body"))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set(idempotencyKey, key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func TestInTurn(t *testing.T) {
	_, url := balanced(t, &fake{name: "a"}, &fake{name: "b"}, &fake{name: "c"})
	for range 3 {
		for _, name := range []string{"a", "b", "c"} {
			status, answer := ask(t, url, "")
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, name+" body", answer)
		}
	}
}

// What was sent to a replica that has gone goes to another only if it has a key.
func TestSentAgain(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{"breaks": breaks, "cut": cut} {
		t.Run(name, func(t *testing.T) {
			a, b := &fake{name: "a", handle: handle}, &fake{name: "b"}
			_, url := balanced(t, a, b)
			status, _ := ask(t, url, "")
			assert.Equal(t, http.StatusBadGateway, status)
			assert.Zero(t, b.came.Load(), "it may have run at a")
			for range 3 {
				status, answer := ask(t, url, "")
				assert.Equal(t, http.StatusOK, status)
				assert.Equal(t, "b body", answer)
			}
			assert.EqualValues(t, 1, a.came.Load(), "it is not up")

			a, b = &fake{name: "a", handle: handle}, &fake{name: "b"}
			_, url = balanced(t, a, b)
			status, answer := ask(t, url, "key")
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, "b body", answer)
			assert.EqualValues(t, 1, a.came.Load())
		})
	}
}

// What was never sent goes to another replica, with a key or without.
func TestNotSent(t *testing.T) {
	b, url := balanced(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	b.put("gone", gone.URL)
	status, _ := ask(t, url, "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	f := &fake{name: "f"}
	server := httptest.NewServer(f)
	defer server.Close()
	b.put("gone", gone.URL)
	b.put(f.name, server.URL)
	status, answer := ask(t, url, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "f body", answer)
}

// A replica is drained when its requests are answered, and gets no more.
func TestDrain(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	a := &fake{name: "a", handle: func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		io.WriteString(w, "late")
	}}
	b, url := balanced(t, a, &fake{name: "b"})
	answered := make(chan string, 1)
	go func() {
		_, answer := ask(t, url, "")
		answered <- answer
	}()
	<-began
	drained := make(chan struct{})
	go func() {
		b.drain("a")
		close(drained)
	}()
	for up := 2; up > 1; { // until it gets no more
		b.mu.Lock()
		up = len(b.up)
		b.mu.Unlock()
	}
	for range 3 {
		_, answer := ask(t, url, "")
		assert.Equal(t, "b body", answer)
	}
	select {
	case <-drained:
		t.Error("its request was not answered yet")
	default:
	}
	close(goOn)
	assert.Equal(t, "late", <-answered)
	<-drained
	b.drain("nobody")
}
