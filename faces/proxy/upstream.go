package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/faces/auth"
)

// transport returns what asks an upstream: it follows no redirect, and asks for no encoding, since
// an answer is to be read.
func transport() http.RoundTripper {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}

// Headers that are passed on: of requests by their names and by what they begin with, and likewise
// of answers.
var (
	asked         = []string{"Accept", "Content-Type", "User-Agent", "Idempotency-Key", "Traceparent", "Tracestate"}
	askedPrefixes = []string{"Openai-", "Anthropic-", "X-Stainless-", "X-Claude-", "X-Codex-"}

	answered         = []string{"Content-Type", "Request-Id", "X-Request-Id", "Retry-After", "X-Should-Retry"}
	answeredPrefixes = []string{"Openai-", "Anthropic-", "X-Ratelimit-"}
)

// neverPassed reports whether a header is never one that is passed on, whatever is configured.
func neverPassed(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return name == "" || strings.HasPrefix(name, "Helm-") || slices.Contains([]string{"Host", "Cookie", "Authorization",
		"X-Api-Key", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Accept-Encoding"}, name)
}

func listed(name string, names, prefixes []string) bool {
	return slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}

// headers returns those of a request that go to the upstream, with the provider's key.
func (p *Proxy) headers(r *http.Request, of api, u *Upstream) (http.Header, error) {
	h := http.Header{"Accept-Encoding": {"identity"}, "User-Agent": nil}
	defer func() {
		for name, value := range p.tell.Carry(r.Context()) {
			h.Set(name, value)
		}
	}()
	for name, values := range r.Header {
		if !listed(name, asked, askedPrefixes) && !slices.ContainsFunc(p.o.Headers, func(n string) bool {
			return http.CanonicalHeaderKey(n) == name
		}) {
			continue
		}
		for _, v := range values {
			if !auth.IsToken(v) {
				h.Add(name, v)
			}
		}
	}
	if u.Key == nil {
		names := []string{"Authorization", "X-Api-Key"}
		if of == messagesAPI {
			slices.Reverse(names)
		}
		for _, name := range names {
			if v := r.Header.Get(name); v != "" && !auth.IsToken(v) {
				h.Set(name, v) // the one alone: the other may be another provider's
				break
			}
		}
		return h, nil
	}
	key, err := u.Key()
	switch {
	case err != nil, key == "":
		return nil, errKey
	case of == messagesAPI:
		h.Set("X-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
	return h, nil
}

// Errors of upstreams.
var (
	errKey     = errors.New("the provider's key cannot be read")
	errReach   = errors.New("the provider cannot be reached")
	errSilent  = errors.New("the provider is silent")
	errStatus  = errors.New("the provider answered with a status that is not known here")
	errMedia   = errors.New("the provider answered with a type of content that is not known here")
	errEncoded = errors.New("the provider encoded its answer, which was not asked for")
)

// An asking is a request to an upstream, and what is read of its answer. Every read ends when the
// upstream is silent for too long.
type asking struct {
	*http.Response
	next    time.Duration
	timer   *time.Timer
	end     context.CancelCauseFunc
	context context.Context
}

// ask asks an upstream. The caller closes the answer.
func (p *Proxy) ask(r *http.Request, of api, u *Upstream, path, query string, body []byte) (*asking, error) {
	ctx, end := context.WithCancelCause(r.Context())
	a := &asking{next: p.limits.next, end: end, context: ctx}
	url := u.URL + path
	if query != "" {
		url += "?" + query
	}
	// Not a bytes.Reader: with one the transport could send a request again that it has sent.
	var content io.Reader
	if body != nil {
		content = struct{ io.Reader }{bytes.NewReader(body)}
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, url, content)
	if err != nil {
		end(nil)
		return nil, errReach
	}
	out.ContentLength = int64(len(body))
	if out.Header, err = p.headers(r, of, u); err != nil {
		end(nil)
		return nil, err
	}
	a.timer = time.AfterFunc(p.limits.first, func() { end(errSilent) })
	a.Response, err = p.client.RoundTrip(out)
	if err != nil {
		a.timer.Stop()
		err = a.why(errReach)
		end(nil)
		return nil, err
	}
	a.timer.Stop()
	return a, nil
}

// why returns why the answer ended: since the upstream is silent, or as err says.
func (a *asking) why(err error) error {
	if context.Cause(a.context) == errSilent {
		return errSilent
	}
	return err
}

// Read reads the answer.
func (a *asking) Read(b []byte) (int, error) {
	a.timer.Reset(a.next)
	n, err := a.Body.Read(b)
	a.timer.Stop() // what comes next is for others to wait for: an app, a person
	if err != nil && err != io.EOF {
		err = a.why(errReach)
	}
	return n, err
}

// close ends the request. What is left of an answer that has ended is read first, if it comes at
// once, so that the connection can be used again.
func (a *asking) close(whole bool) {
	if whole {
		a.timer.Reset(100 * time.Millisecond)
		_, _ = io.CopyN(io.Discard, a.Body, 1<<10)
	}
	a.timer.Stop()
	a.end(nil)
	_ = a.Body.Close()
}

// media returns the type of an answer's content, or an error if it is encoded, or no answer.
func (a *asking) media() (string, error) {
	switch e := a.Header.Get("Content-Encoding"); {
	case a.StatusCode < 400 && a.StatusCode != http.StatusOK:
		return "", errStatus
	case e != "" && !strings.EqualFold(e, "identity"):
		return "", errEncoded
	}
	media, parameters, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return "", nil
	}
	if c := parameters["charset"]; a.StatusCode == http.StatusOK && c != "" && !strings.EqualFold(c, "utf-8") {
		return "", errMedia // other bytes for those that heed it than for others
	}
	return media, nil
}

// tell sets the headers of the upstream's answer that are passed on.
func (a *asking) tell(h http.Header) {
	for name, values := range a.Header {
		if listed(name, answered, answeredPrefixes) {
			h[name] = values
		}
	}
}
