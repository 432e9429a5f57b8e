package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm/faces/auth"
)

// A door lets requests in until the process ends, and says then when those that run have ended.
type door struct {
	handler http.Handler
	health  http.Handler

	mu      sync.Mutex
	running int
	closing bool
	still   chan struct{} // closed when it is closing, and nothing runs
}

// newDoor returns a door before a handler. unwell returns a word if the process is not well.
func newDoor(handler http.Handler, unwell func() string) *door {
	d := &door{handler: handler, still: make(chan struct{})}
	d.health = auth.Health(func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closing {
			return "closing"
		}
		return unwell()
	})
	return d
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		d.health.ServeHTTP(w, r)
		return
	}
	if !d.enter() {
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "the process is ending")
		return
	}
	defer d.leave()
	d.handler.ServeHTTP(w, r)
}

func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closing {
		d.running++
	}
	return !d.closing
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running--; d.closing && d.running == 0 {
		close(d.still)
	}
}

// Drain lets no request in from now on, and waits for those that run, as long as ctx.
func (d *door) Drain(ctx context.Context) error {
	d.mu.Lock()
	if !d.closing {
		d.closing = true
		if d.running == 0 {
			close(d.still)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.still:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// routes are handlers by their path, or, if that ends in a slash, by what paths begin with. Nothing
// is redirected: a client of an API would follow with another method, or not at all.
type routes map[string]http.Handler

func (s routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	best := r.URL.Path
	if s[best] == nil || strings.HasSuffix(best, "/") {
		best = ""
		for prefix := range s {
			if strings.HasSuffix(prefix, "/") && strings.HasPrefix(r.URL.Path, prefix) && len(prefix) > len(best) {
				best = prefix
			}
		}
	}
	if h := s[best]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", "nothing is served here")
}

// A draining is something that is served over HTTP until it has drained.
type draining interface {
	http.Handler
	Drain(context.Context) error
}

// unwell returns a word if the kernel takes no calls.
func (h *held) unwell() string {
	if h.Kernel().Err() != nil {
		return "sealed"
	}
	return ""
}

// listens listens at an address, until the caller closes it. SIGHUP has the certificate read again.
func (h *held) listens(ctx context.Context, address string) (*auth.Listener, error) {
	conf := h.Config()
	l, err := auth.Listen(ctx, auth.ListenOptions{
		Address: address, Cert: conf.Cert, Key: conf.Key, Plain: conf.Plain, Tokens: h.Tokens(),
	})
	if err == nil {
		h.rereads(l.Reload)
		if conf.Plain && conf.Cert == "" {
			h.log.Warn("insecure_plain_http: who reads the network reads tokens and calls")
		}
	}
	return l, err
}

// overWeb serves what is there over HTTP, until the context ends and what runs has ended. What runs
// then has the time of the drain.
func (h *held) overWeb(ctx context.Context, l *auth.Listener, handler draining) error {
	server := auth.Server(h.export.served(handler))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithDeadline(context.WithoutCancel(ctx), h.late())
	defer cancel()
	err := handler.Drain(late)
	if err == nil && !time.Now().Before(h.late()) {
		err = errCut // the gateway, closed at that moment, may have cut what ran
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if err != nil {
		err = errCut
		_ = server.Close() // what runs is ended, and settles
		_ = handler.Drain(closing)
	} else if server.Shutdown(closing) != nil {
		_ = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
