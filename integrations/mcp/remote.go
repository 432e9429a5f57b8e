package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A remote is a line to a server over streamable HTTP. A message is a request of its own, whose
// body answers it.
type remote struct {
	*calls
	server Server
	client *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu               sync.Mutex
	session, version string
}

// dial makes a line to a server's address. It follows no redirect, asks no proxy, and reads nothing
// of a refusal but its status.
func dial(s Server, changed func()) *remote {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxResponseHeaderBytes = 64 << 10
	r := &remote{calls: newCalls(changed), server: s, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *remote) ended() <-chan struct{} { return r.ctx.Done() }

// close ends the session with the server, if it has one.
func (r *remote) close() {
	r.cancel()
	r.group.Wait()
	if r.session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if answer, err := r.do(ctx, http.MethodDelete, nil); err == nil {
			answer.Body.Close()
		}
	}
	r.client.CloseIdleConnections()
}

func (r *remote) do(ctx context.Context, method string, message []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, r.server.URL, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	session, version := r.session, r.version
	r.mu.Unlock()
	q.Header.Set("User-Agent", "helm")
	q.Header.Set("Accept", "text/event-stream")
	if message != nil {
		q.Header.Set("Accept", "application/json, text/event-stream")
		q.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		q.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" {
		q.Header.Set("MCP-Protocol-Version", version)
	}
	if r.server.Key != nil {
		q.Header.Set("Authorization", "Bearer "+r.server.Key())
	}
	return r.client.Do(q)
}

// greeted is told the version of the protocol. Servers tell of changes in a stream of their own.
func (r *remote) greeted(version string) {
	r.mu.Lock()
	r.version = version
	r.mu.Unlock()
	r.group.Add(1)
	go r.listen()
}

// listen reads the server's own stream, of which nothing counts but that the list changed.
func (r *remote) listen() {
	defer r.group.Done()
	wait := time.Second
	for ; ; wait = min(2*wait, time.Minute) {
		began := time.Now()
		answer, err := r.do(r.ctx, http.MethodGet, nil)
		if err == nil {
			if answer.StatusCode == http.StatusOK {
				r.stream(answer.Body, nil)
				r.changed() // whatever was said meanwhile
			}
			answer.Body.Close()
			if answer.StatusCode == http.StatusMethodNotAllowed || answer.StatusCode == http.StatusNotFound {
				return
			}
		}
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		t := time.NewTimer(wait)
		select {
		case <-r.ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

func (r *remote) notify(ctx context.Context, method string, params []byte) error {
	m, err := request(0, method, params)
	if err != nil {
		return err
	}
	answer, err := r.do(ctx, http.MethodPost, m)
	if err != nil {
		return errDown
	}
	answer.Body.Close()
	return nil
}

var errRefused = errors.New("the server refused the request")

func (r *remote) call(ctx context.Context, method string, params []byte, how progress) (json.RawMessage, error) {
	id, w, m, err := r.begin(method, params, how)
	if err != nil {
		return nil, err
	}
	defer r.forget(id)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the body, too
	defer context.AfterFunc(r.ctx, cancel)()
	r.post(ctx, method, m, w)
	select {
	case a := <-w.answer:
		return result(a)
	default:
	}
	if err := context.Cause(ctx); err != nil && r.ctx.Err() == nil {
		go func() {
			later, cancel := context.WithTimeout(r.ctx, grace)
			defer cancel()
			_ = r.notify(later, "notifications/cancelled", canceled(id))
		}()
		return nil, err
	}
	return nil, w.failed
}

// post sends a call, and reads until it is answered.
func (r *remote) post(ctx context.Context, method string, m []byte, w *waiter) {
	w.failed = errEnded
	answer, err := r.do(ctx, http.MethodPost, m)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound && method != "initialize":
		r.cancel() // the session is over
		return
	case answer.StatusCode >= 300 && answer.StatusCode < 500:
		w.failed = errRefused
		return
	case answer.StatusCode != http.StatusOK:
		return
	}
	if method == "initialize" {
		r.mu.Lock()
		r.session = answer.Header.Get("Mcp-Session-Id")
		r.mu.Unlock()
	}
	switch kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind {
	case "application/json":
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
		if err == nil && len(body) <= maxMessage {
			r.answered(body)
		}
	case "text/event-stream":
		r.stream(answer.Body, w)
	}
}

// stream reads events until one answers the call. The stream of a call is at most two messages
// long.
func (r *remote) stream(body io.Reader, w *waiter) {
	if w != nil {
		body = io.LimitReader(body, 2*maxMessage)
	}
	b := bufio.NewReaderSize(body, 64<<10)
	var data, text []byte
	for {
		part, err := b.ReadSlice('\n')
		if text = append(text, part...); len(text)+len(data) > maxMessage {
			return
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		field := strings.TrimRight(string(text), "\r\n")
		text = text[:0]
		if value, ok := strings.CutPrefix(field, "data:"); ok {
			data = append(append(data, strings.TrimPrefix(value, " ")...), '\n')
		}
		if field != "" || len(data) == 0 {
			continue
		}
		if !r.answered(data) || w != nil && len(w.answer) > 0 {
			return
		}
		data = nil
	}
}

// answered takes a message, and reports whether to read on. A request of the server is refused.
func (r *remote) answered(m []byte) bool {
	reply, err := r.take(m)
	if err != nil {
		return false
	}
	if reply != nil {
		ctx, cancel := context.WithTimeout(r.ctx, grace)
		defer cancel()
		if answer, err := r.do(ctx, http.MethodPost, reply); err == nil {
			answer.Body.Close()
		}
	}
	return true
}
