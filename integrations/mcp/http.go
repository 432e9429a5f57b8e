package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/faces/auth"
)

// HandlerOptions say how a gateway is served over HTTP.
type HandlerOptions struct {
	Auth *auth.Auth // who asks, and how often they may

	Sessions int           // client sessions at once; 0 is 64
	Idle     time.Duration // after which a client session ends; 0 is 30 minutes

	// Resource is the URL of /mcp as clients have it, and Issuer that of who issues its tokens:
	// then there is metadata of the resource (RFC 9728), which Auth names.
	Resource, Issuer string

	// Unwell returns a word if the process is not well, for /healthz. Nil: it is, until Drain.
	Unwell func() string
}

// A Handler serves a gateway over HTTP: /mcp, /mcp/v1/capabilities, /mcp/v1/execute, /helm/messages
// and /healthz. It is safe for concurrent use.
type Handler struct {
	g   *Gateway
	o   HandlerOptions
	mux *http.ServeMux

	mu      sync.Mutex
	clients map[string]*session
	running int           // requests that are no stream
	held    int           // bytes of bodies
	closing chan struct{} // closed when it drains
	still   chan struct{} // closed when it drains, and nothing runs
}

const maxHeld = 512 << 20 // bodies, together

// Handler returns a handler that serves the gateway. The gateway must not be closed before it has
// drained.
func (g *Gateway) Handler(o HandlerOptions) (*Handler, error) {
	if o.Auth == nil {
		return nil, errors.New("mcp: HandlerOptions.Auth is nil: nobody says who asks")
	}
	if o.Sessions <= 0 {
		o.Sessions = 64
	}
	if o.Idle <= 0 {
		o.Idle = 30 * time.Minute
	}
	h := &Handler{g: g, o: o, mux: http.NewServeMux(), clients: map[string]*session{},
		closing: make(chan struct{}), still: make(chan struct{})}
	in := http.NewServeMux()
	in.HandleFunc("/mcp", h.serve)
	in.HandleFunc("/mcp/v1/capabilities", h.capabilities)
	in.HandleFunc("/mcp/v1/execute", h.execute)
	in.Handle("/helm/messages", o.Auth.Messages(g.options.Kernel))
	in.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", "nothing is served here")
	})
	h.mux.Handle("/healthz", auth.Health(h.unwell))
	h.mux.Handle("/", o.Auth.Handler(in))
	if o.Issuer != "" {
		h.mux.HandleFunc("/.well-known/oauth-protected-resource", h.metadata)
		h.mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", h.metadata)
	}
	return h, nil
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) unwell() string {
	select {
	case <-h.closing:
		return "closing"
	default:
	}
	if h.o.Unwell != nil {
		return h.o.Unwell()
	}
	return ""
}

func (h *Handler) metadata(w http.ResponseWriter, r *http.Request) {
	if auth.Method(w, r, http.MethodGet, http.MethodHead) {
		auth.Answer(w, map[string]any{"resource": h.o.Resource, "authorization_servers": []string{h.o.Issuer},
			"bearer_methods_supported": []string{"header"}})
	}
}

// Drain takes no new request, waits for those that run, as long as ctx, and ends all client
// sessions.
func (h *Handler) Drain(ctx context.Context) error {
	h.mu.Lock()
	select {
	case <-h.closing:
	default:
		close(h.closing)
		if h.running == 0 {
			close(h.still)
		}
	}
	h.mu.Unlock()
	var err error
	select {
	case <-h.still:
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.mu.Lock()
	var left []*session
	for _, s := range h.clients {
		left = append(left, s)
	}
	clear(h.clients)
	h.mu.Unlock()
	var wait sync.WaitGroup
	for _, s := range left {
		wait.Go(s.end)
	}
	wait.Wait()
	return err
}

// A session is one client's: its own servers, under one name in the log, of one caller.
type session struct {
	*client
	key     string
	caller  helm.Caller
	name    string
	handler http.Handler

	running int // requests that are no stream
	idle    *time.Timer
}

func (s *session) end() {
	s.idle.Stop()
	for c := range s.server.Sessions() {
		_ = c.Close()
	}
	s.close()
}

var (
	errMany    = errors.New("there are too many client sessions")
	errClosing = errors.New("the gateway is closing")
	errUnknown = errors.New("there is no such session")
)

// enter returns the session of a key, for a request of its caller. If make is set and there is none
// it is made; id is what clients know it by.
func (h *Handler) enter(key string, c helm.Caller, name, id string, stream, create bool) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closing:
		return nil, errClosing
	default:
	}
	s, ok := h.clients[key]
	switch {
	case ok && !s.caller.Equal(c): // it does not exist for anybody else
		return nil, errUnknown
	case !ok && !create:
		return nil, errUnknown
	case !ok && len(h.clients) >= h.o.Sessions:
		return nil, errMany
	case !ok:
		made, err := h.g.open(c, name, id)
		if err != nil {
			return nil, err
		}
		s = &session{client: made, key: key, caller: c, name: name}
		server := func(*http.Request) *sdk.Server { return made.server }
		s.handler = sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
			Stateless: id == "", MaxRequestBodyBytes: -1, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true, // Auth knows the hosts
		})
		s.idle = time.AfterFunc(h.o.Idle, func() { h.expire(s) })
		h.clients[key] = s
	}
	if !stream {
		s.running++
		h.running++
		s.idle.Stop()
	}
	return s, nil
}

// leave ends a request that is no stream.
func (h *Handler) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.running--; s.running == 0 && h.clients[s.key] == s {
		s.idle.Reset(h.o.Idle)
	}
	if h.running--; h.running == 0 {
		select {
		case <-h.closing:
			close(h.still)
		default:
		}
	}
}

// expire ends a session that nobody used.
func (h *Handler) expire(s *session) {
	h.mu.Lock()
	idle := s.running == 0 && h.clients[s.key] == s
	if idle {
		delete(h.clients, s.key)
	}
	h.mu.Unlock()
	if idle {
		s.end()
	}
}

// drop ends a session, whatever runs in it.
func (h *Handler) drop(s *session) {
	h.mu.Lock()
	there := h.clients[s.key] == s
	if there {
		delete(h.clients, s.key)
	}
	h.mu.Unlock()
	if there {
		s.end()
	}
}

// refuse answers a request that did not enter a session.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errUnknown):
		auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", err.Error())
	case errors.Is(err, errMany), errors.Is(err, errClosing):
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", err.Error())
	case errors.Is(err, auth.ErrTwoSessions), errors.Is(err, auth.ErrNoSession):
		auth.Refuse(w, r, http.StatusBadRequest, "helm_bad_request", err.Error())
	default:
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "no session can begin now")
	}
}

// may reports whether a request may ask for calls. If not, it answers it.
func may(w http.ResponseWriter, r *http.Request) bool {
	if auth.From(r.Context()).May(auth.Call) {
		return true
	}
	auth.Refuse(w, r, http.StatusForbidden, "helm_forbidden", "calls need a token of scope call")
	return false
}

// body reads the body of a request, which counts until it is given back. If it cannot it answers.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (b []byte, back func(), ok bool) {
	if !auth.JSON(r) {
		auth.Refuse(w, r, http.StatusUnsupportedMediaType, "helm_unsupported_media_type",
			"the body is to be application/json")
		return nil, nil, false
	}
	b, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		auth.Refuse(w, r, http.StatusRequestEntityTooLarge, "helm_too_large", "the body is too long")
		return nil, nil, false
	case err != nil:
		auth.Refuse(w, r, http.StatusBadRequest, "helm_bad_request", "the body did not come whole")
		return nil, nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held+len(b) > maxHeld {
		w.Header().Set("Retry-After", "1")
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "there are too many requests at once")
		return nil, nil, false
	}
	h.held += len(b)
	return b, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held -= len(b)
	}, true
}

// ownSession is the session of a caller whose requests name none.
const ownSession = "mcp"

// serve serves /mcp. Up to 2025-11-25 a client begins by initialize, and its session is known by an
// id; since then each request stands alone, and those of one caller are one session.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	if !auth.Method(w, r, http.MethodGet, http.MethodPost, http.MethodDelete) || !may(w, r) {
		return
	}
	c := auth.From(r.Context()).Caller
	id := r.Header.Get("Mcp-Session-Id")
	version := r.Header.Get("Mcp-Protocol-Version")
	var asked struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params struct {
			Meta map[string]any `json:"_meta"`
		} `json:"params"`
	}
	var b []byte
	if r.Method == http.MethodPost {
		var back func()
		var ok bool
		if b, back, ok = h.body(w, r); !ok {
			return
		}
		defer back()
		_ = json.Unmarshal(b, &asked) // what it is wrong with, the SDK says
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	_, named := asked.Params.Meta["io.modelcontextprotocol/protocolVersion"]
	alone := r.Method == http.MethodPost && (version >= stateless || named && id == "")
	first := r.Method == http.MethodPost && !alone && id == "" && asked.Method == "initialize"
	given := ownSession
	switch {
	case alone:
		r.Header.Del("Mcp-Session-Id")
		id = ""
	case first:
		id = strings.ToLower(rand.Text())
		given = id
	case id == "":
		auth.Refuse(w, r, http.StatusBadRequest, "helm_bad_request", "there is no session: begin by initialize")
		return
	default:
		given = id
	}
	name, err := h.name(r, given)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	key := id
	if alone {
		key = keyOf(c, name)
	}
	stream := r.Method == http.MethodGet || asked.Method == "subscriptions/listen"
	s, err := h.enter(key, c, name, id, stream, alone || first)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if !stream {
		defer h.leave(s)
	}
	if given == id && s.name != name && auth.SessionName(c, id) != name {
		h.refuse(w, r, auth.ErrTwoSessions)
		return
	}
	w.Header().Set("Helm-Session", s.name)
	if alone && r.Header.Get("Mcp-Method") == "tools/call" { // the SDK refuses another than the body's
		if wrong := s.contradiction(r.Context(), b, r.Header); wrong != nil {
			refuseHeaders(w, b, wrong)
			return
		}
	}
	h.g.carry(r, asked.ID)
	s.handler.ServeHTTP(w, r)
	if first && w.Header().Get("Mcp-Session-Id") == "" || r.Method == http.MethodDelete {
		h.drop(s)
	}
}

// name returns the session of a request: that of its header, else the one that is given.
func (h *Handler) name(r *http.Request, given string) (string, error) {
	name, err := h.o.Auth.Session(r, given)
	if errors.Is(err, auth.ErrTwoSessions) {
		return h.o.Auth.Session(r, "")
	}
	return name, err
}

// keyOf returns what a session without an id is known by. No id has such a form.
func keyOf(c helm.Caller, name string) string {
	roles := slices.Clone(c.Roles)
	slices.Sort(roles)
	b, _ := json.Marshal([]any{c.ID, c.Tenant, roles, name})
	return string(b)
}
