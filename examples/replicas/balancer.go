package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
)

// A balancer hands requests to replicas in turn. If one does not answer, another gets the request
// only if it was not sent, or has an idempotency key: then the log says whether the call ran. Any
// other call may have run, and must not run twice.
type balancer struct {
	client http.Client

	mu   sync.Mutex // protects the fields below
	up   []*backend
	next int
}

// A backend is a replica that takes requests.
type backend struct {
	name, url string
	requests  sync.WaitGroup
}

func newBalancer() *balancer {
	// With a connection for each request it is known whether a request was sent: an error of the
	// dialer says that it was not.
	return &balancer{client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// put has a replica take requests.
func (b *balancer) put(name, url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up = append(b.up, &backend{name: name, url: url})
}

// drain has a replica take no more requests, and returns when those that it took are answered. To
// end a process before that would lose requests that it has not read yet.
func (b *balancer) drain(name string) {
	b.mu.Lock()
	var out *backend
	for _, x := range b.up {
		if x.name == name {
			out = x
		}
	}
	b.mu.Unlock()
	if out != nil {
		b.remove(out)
		out.requests.Wait()
	}
}

func (b *balancer) remove(x *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up = slices.DeleteFunc(b.up, func(y *backend) bool { return y == x })
}

// take returns the replica whose turn it is. Call requests.Done of it.
func (b *balancer) take() *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.up) == 0 {
		return nil
	}
	x := b.up[b.next%len(b.up)]
	b.next++
	x.requests.Add(1)
	return x
}

const maxRequest = 2 << 20

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	for {
		x := b.take()
		if x == nil {
			http.Error(w, "no replica is up", http.StatusServiceUnavailable)
			return
		}
		status, answer, err := b.send(r, x, body)
		x.requests.Done()
		if err == nil {
			w.WriteHeader(status)
			w.Write(answer)
			return
		}
		if r.Context().Err() != nil {
			return // the client has gone
		}
		b.remove(x)
		if sent(err) && r.Header.Get(idempotencyKey) == "" {
			http.Error(w, "the replica has gone, and the call may have run", http.StatusBadGateway)
			return
		}
	}
}

// send passes a request on, and returns a whole answer.
func (b *balancer) send(r *http.Request, x *backend, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, x.url+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = r.Header.Clone()
	res, err := b.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// sent reports whether a request that failed may have reached the replica.
func sent(err error) bool {
	var op *net.OpError
	return !errors.As(err, &op) || op.Op != "dial"
}
