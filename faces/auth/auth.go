package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm/crypto"
)

// Options are what a face knows of those who may ask. Zero values are the defaults.
type Options struct {
	Tokens *Tokens // nil: all are anonymous

	// Hosts are further values of the header Host, such as helm.example or helm.example:8080. What
	// names the loopback is always one.
	Hosts []string

	// Origins are pages that may ask from a browser, such as https://app.example, with a token.
	Origins []string

	// SessionHeaders name the session, the first that is there. Nil: Helm-Session,
	// X-Claude-Code-Session-Id, session-id, session_id.
	SessionHeaders []string

	// SessionRequired refuses a request that names no session, if it needs one.
	SessionRequired bool

	// EndSession ends a session of the kernel for good: one that nobody used for SessionIdle, 30
	// days if it is zero, and one of a caller who has more than Sessions, 10,000 if that is zero.
	// Nil: none is ended.
	EndSession  func(session string) error
	SessionIdle time.Duration
	Sessions    int

	Body           int64        // the most bytes of a request's body; 0 is 32 MiB
	Requests       int          // the most at once; 0 is 1,024
	CallerRequests int          // the most at once of one caller; 0 is 256
	Denials        int          // denied calls of a caller, a minute; 0 is 120
	Refused        func(string) // is told the code of each error of HELM's own that is no denial; nil: nobody is
	Metadata       string       // URL of the protected resource's metadata (RFC 9728), which a 401 names
	Log            *slog.Logger // hears of a handler that panics, and not what it panicked with; nil: nobody does
	Now            func() time.Time
}

// An Auth lets requests in. It is safe for concurrent use.
type Auth struct {
	o       Options
	denials *denials
	said    said
	uses    *uses

	mu      sync.Mutex
	running map[crypto.Digest]int // requests at once, by caller
	all     int
}

// New returns an Auth.
func New(o Options) (*Auth, error) {
	if len(o.Origins) > 0 && !o.Tokens.Any() {
		return nil, errors.New("auth: origins are let in only with tokens")
	}
	for _, origin := range o.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("auth: %q is no origin such as https://app.example", origin)
		}
	}
	if slices.Contains(o.Hosts, "") {
		return nil, errors.New("auth: a host has no name")
	}
	if _, err := url.Parse(o.Metadata); err != nil || strings.ContainsAny(o.Metadata, "\"\\ ") {
		return nil, fmt.Errorf("auth: %q is no URL of metadata", o.Metadata)
	}
	if o.SessionHeaders == nil {
		o.SessionHeaders = []string{"Helm-Session", "X-Claude-Code-Session-Id", "session-id", "session_id"}
	}
	for _, n := range []struct {
		n    *int
		most int
	}{{&o.Requests, 1024}, {&o.CallerRequests, 256}, {&o.Denials, 120}, {&o.Sessions, 10_000}} {
		if *n.n <= 0 {
			*n.n = n.most
		}
	}
	if o.Body <= 0 {
		o.Body = 32 << 20
	}
	if o.SessionIdle <= 0 {
		o.SessionIdle = 30 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Auth{o: o, denials: newDenials(o.Denials, o.Now), uses: newUses(o), running: map[crypto.Digest]int{}}, nil
}

type key struct{}

// From returns who makes a request that Handler let in, else the zero Identity.
func From(ctx context.Context) Identity {
	i, _ := ctx.Value(key{}).(Identity)
	return i
}

// Handler returns a handler that lets requests in. The context of one whose token ends meanwhile is
// canceled within 10 seconds.
func (a *Auth) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = a.hears(r)
		if done := a.reached(w, r); done {
			return
		}
		h := w.Header()
		if name := a.twice(r); name != "" {
			Refuse(w, r, http.StatusBadRequest, "helm_bad_request", "the header "+name+" is there twice")
			return
		}
		who, secret, ok := a.who(r)
		if !ok {
			if a.o.Metadata != "" {
				h.Set("WWW-Authenticate", `Bearer resource_metadata="`+a.o.Metadata+`"`)
			} else {
				h.Set("WWW-Authenticate", "Bearer")
			}
			Refuse(w, r, http.StatusUnauthorized, "helm_unauthorized", "no token, or one that is not good here")
			return
		}
		leave, ok := a.enter(who)
		if !ok {
			h.Set("Retry-After", "1")
			Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "there are too many requests at once")
			return
		}
		defer leave()
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, who))
		defer cancel()
		defer a.watch(who, secret, cancel)()
		defer a.fell(w, r)
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, a.o.Body)
		next.ServeHTTP(w, r)
	})
}

// Page returns a handler that lets in everybody who reaches this server by its name and from no
// page of elsewhere. It is for a page without data: into such a one a token is typed.
func (a *Auth) Page(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = a.hears(r)
		if done := a.reached(w, r); !done {
			page.ServeHTTP(w, r)
		}
	})
}

// reached answers a request that names another host, or comes from a page of elsewhere.
func (a *Auth) reached(w http.ResponseWriter, r *http.Request) (done bool) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !a.hosted(r) {
		Refuse(w, r, http.StatusMisdirectedRequest, "helm_wrong_host", "this host is not served here")
		return true
	}
	return a.origin(w, r)
}

// fell ends a request whose handler panics. What it panicked with may have parts of a call, so it
// is told nobody.
func (a *Auth) fell(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if fault != http.ErrAbortHandler && a.o.Log != nil {
		a.o.Log.Error("a request ended in a panic", "method", r.Method, "path", r.URL.Path)
	}
	panic(http.ErrAbortHandler) // the server closes the connection, so that nothing half said is taken for whole
}

// hosted reports whether the request is for a host that is served.
func (a *Auth) hosted(r *http.Request) bool {
	host := r.Host
	if slices.ContainsFunc(a.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if slices.ContainsFunc(a.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// origin answers a request of a page in a browser, unless it may go on.
func (a *Auth) origin(w http.ResponseWriter, r *http.Request) (done bool) {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		site := r.Header.Values("Sec-Fetch-Site")
		if len(site) == 0 || len(site) == 1 && (site[0] == "none" || site[0] == "same-origin") {
			return false
		}
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if len(origins) == 1 && origins[0] == scheme+r.Host {
		return false // of this face's own page: its host was checked before
	}
	if len(origins) != 1 || !slices.Contains(a.o.Origins, origins[0]) {
		Refuse(w, r, http.StatusForbidden, "helm_forbidden", "pages of this origin may not ask")
		return true
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Add("Vary", "Origin")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Expose-Headers",
		"Helm-Session, Helm-Denied, Helm-Removed, Helm-User-Refused, Mcp-Session-Id, Retry-After, Location")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join(append([]string{"Authorization", "Content-Type", "Helm-Token",
		"Helm-User", "Helm-On-Deny", "X-Api-Key", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID"},
		a.o.SessionHeaders...), ", "))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// twice returns a header that must be there once, and is there more than once.
func (a *Auth) twice(r *http.Request) string {
	var found string
	for name, values := range r.Header {
		if len(values) < 2 {
			continue
		}
		once := strings.HasPrefix(strings.ToLower(name), "helm-") ||
			slices.ContainsFunc([]string{"Authorization", "X-Api-Key", "Content-Type", "Mcp-Session-Id"},
				func(n string) bool { return strings.EqualFold(n, name) }) ||
			slices.ContainsFunc(a.o.SessionHeaders, func(n string) bool { return strings.EqualFold(n, name) })
		if once && (found == "" || name < found) {
			found = name
		}
	}
	return found
}

// who returns who makes a request. The first header that may have a token counts, and no other.
func (a *Auth) who(r *http.Request) (i Identity, secret string, ok bool) {
	token, key, bearer := r.Header.Values("Helm-Token"), r.Header.Values("X-Api-Key"), r.Header.Get("Authorization")
	switch {
	case len(token) > 0:
		secret = token[0]
	case len(bearer) >= len("Bearer") && strings.EqualFold(bearer[:len("Bearer")], "Bearer"):
		secret = strings.TrimSpace(bearer[len("Bearer"):])
	case len(key) > 0:
		secret = key[0]
	}
	if !a.o.Tokens.Any() {
		return anonymous, "", true
	}
	i, ok = a.o.Tokens.find(secret)
	return i, secret, ok
}

// enter counts a request in, unless there are too many.
func (a *Auth) enter(who Identity) (leave func(), ok bool) {
	id := identify(who.Caller)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all >= a.o.Requests || a.running[id] >= a.o.CallerRequests {
		return nil, false
	}
	a.all++
	a.running[id]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all--
		if a.running[id]--; a.running[id] == 0 {
			delete(a.running, id)
		}
	}, true
}

// watch has end called when the token is no longer good, or stands for something else. The caller
// calls stop.
func (a *Auth) watch(who Identity, secret string, end func()) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	var look func()
	look = func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		good := !a.o.Tokens.Any() // who came without a token goes when one is needed
		if !good && secret != "" {
			var now Identity
			now, good = a.o.Tokens.find(secret)
			good = good && now.Caller.Equal(who.Caller) && slices.Equal(now.scopes, who.scopes)
		}
		if !good {
			end()
			return
		}
		timer = time.AfterFunc(fresh, look)
	}
	if a.o.Tokens == nil {
		return func() {}
	}
	mu.Lock()
	timer = time.AfterFunc(fresh, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// JSON reports whether the body of a request is said to be JSON.
func JSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
