// Package proxy stands between an app and the API of a model: an app changes its base URL, and then
// each call of a tool that a model proposes is judged before the app sees it, in streamed answers
// too. It speaks chat completions, responses and messages.
//
//	p, err := proxy.New(proxy.Options{
//		Kernel: k, Desk: desk, Auth: a,
//		Chat: proxy.Upstream{URL: "https://api.openai.com/v1", Key: key},
//	})
//	server := auth.Server(a.Handler(p))
//
// A call reaches the app only after its permission is durable, with the arguments that were judged
// and no others. The app runs it, and its result, which the app sends with its next request, is
// recorded before that request goes on. What is denied the app reads as a text of the model, and so
// does the model. What a table of this package does not name is not passed on: a member that is not
// known is left out, and an answer with an item that is not known is refused whole.
//
// The proxy cannot stop an app that runs a call it was never given, or reports another output: a
// receipt says "reported" of each. It sees nothing of a call that a model writes into a text.
// What the provider runs itself is judged once, in the request that permits it.
package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/internal/callindex"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
)

// Modes of Options.OnDeny.
const (
	Rewrite = "rewrite" // the app gets what was allowed, and of what was denied the refusal as text
	Forbid  = "403"     // the app gets 403 and no part of an answer in which something was denied
)

// An Upstream is where a model is asked.
type Upstream struct {
	URL string                 // https, or on the loopback http; without the last part of the path
	Key func() (string, error) // the provider's key; nil: the client's own goes on
}

// Options are what a Proxy is made of. Kernel, Desk, Auth and one Upstream are needed. Zero values
// of the others are the defaults.
type Options struct {
	Kernel *helm.Kernel
	Desk   *handoff.Desk // of that kernel
	Auth   *auth.Auth    // the one that lets requests in

	// Upstreams of the three APIs. Chat has models and embeddings, too. Paths of one without a URL
	// are not served.
	Chat, Responses, Messages Upstream

	OnDeny string // Rewrite, if it is empty; a request may say otherwise by Helm-On-Deny

	Approvals    Approvals     // nil: nobody is asked
	ApprovalWait time.Duration // how long an answer waits for a person; at most 5 minutes

	Index string        // file of the calls that answers had; empty: none, and they are forgotten at the end
	Idle  time.Duration // after which such a call is forgotten; 0 is 30 days

	Members []string // further members that are passed on, of requests and answers; never helm
	Headers []string // further headers of requests that are passed on

	Telemetry state.Telemetry // nil: nothing is told

	Transport http.RoundTripper // nil: one that follows nothing and asks for no encoding
	Now       func() time.Time  // nil: time.Now

	limits limits // of tests
}

// Approvals are requests that wait for a person, and their answers: state.Approvals.
type Approvals interface {
	Ask(request *contracts.ApprovalRequest, args json.RawMessage) (nonce string, err error)
	For(ctx context.Context, c helm.Caller, session, tool string, args []byte, policy contracts.Digest) []helm.Envelope
	Wait(ctx context.Context, nonce string) error
}

// limits are bounds of one answer, and of all.
type limits struct {
	plain int           // bytes of an answer that is no stream
	event int           // bytes of an event
	held  int           // bytes that are held back of a stream
	error int           // bytes of an error of the provider
	all   int           // bytes of bodies and answers that are held, together
	first time.Duration // to the first byte of an answer
	next  time.Duration // between two
	taken time.Duration // in which the client takes what is written
	keep  time.Duration // between two signs of life
}

func (l limits) orDefault() limits {
	if l == (limits{}) {
		return limits{32 << 20, 4 << 20, 8 << 20, 1 << 20, 512 << 20,
			10 * time.Minute, 5 * time.Minute, time.Minute, 10 * time.Second}
	}
	return l
}

// A Proxy is an http.Handler for the paths that begin with /v1/. It is safe for concurrent use.
type Proxy struct {
	o        Options
	limits   limits
	books    *books
	meter    *meter
	pass     map[string]bool
	upstream map[api]*Upstream
	client   http.RoundTripper
	tell     state.Telemetry
}

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	switch {
	case o.Kernel == nil:
		return nil, errors.New("proxy: Options.Kernel is nil: nothing judges")
	case o.Desk == nil:
		return nil, errors.New("proxy: Options.Desk is nil: no call can be permitted")
	case o.Auth == nil:
		return nil, errors.New("proxy: Options.Auth is nil: nobody says who asks")
	case o.OnDeny != "" && o.OnDeny != Rewrite && o.OnDeny != Forbid:
		return nil, fmt.Errorf("proxy: Options.OnDeny is %q; want %s or %s", o.OnDeny, Rewrite, Forbid)
	case o.ApprovalWait < 0 || o.ApprovalWait > 5*time.Minute:
		return nil, fmt.Errorf("proxy: Options.ApprovalWait is %v; want at most 5m", o.ApprovalWait)
	}
	p := &Proxy{o: o, limits: o.limits.orDefault(), pass: map[string]bool{}, upstream: map[api]*Upstream{},
		tell: state.Contained(o.Telemetry)}
	for name, u := range map[api]Upstream{chatAPI: o.Chat, responsesAPI: o.Responses, messagesAPI: o.Messages} {
		if u.URL == "" {
			continue
		}
		if err := checkURL(u.URL); err != nil {
			return nil, fmt.Errorf("proxy: the upstream of %s: %w", name, err)
		}
		u.URL = strings.TrimSuffix(u.URL, "/")
		p.upstream[name] = &u
	}
	if len(p.upstream) == 0 {
		return nil, errors.New("proxy: Options has no upstream: there is no model to ask")
	}
	for _, m := range o.Members {
		if folded(m) == "helm" {
			return nil, errors.New("proxy: the member helm is HELM's own, and is not passed on")
		}
		p.pass[m] = true
	}
	for _, h := range o.Headers {
		if neverPassed(h) {
			return nil, fmt.Errorf("proxy: the header %q is not passed on", h)
		}
	}
	if p.o.OnDeny == "" {
		p.o.OnDeny = Rewrite
	}
	if p.o.Idle <= 0 {
		p.o.Idle = 30 * 24 * time.Hour
	}
	if p.o.Now == nil {
		p.o.Now = time.Now
	}
	index, err := callindex.Open(o.Index, p.o.Idle, p.o.Now)
	if err != nil {
		return nil, fmt.Errorf("proxy: the calls of before: %w", err)
	}
	p.books = &books{kernel: o.Kernel, desk: o.Desk, index: index, approvals: o.Approvals, wait: o.ApprovalWait,
		limit: o.Auth, tell: p.tell, open: map[opened]held{}}
	p.meter = &meter{most: p.limits.all}
	if p.client = o.Transport; p.client == nil {
		p.client = transport()
	}
	return p, nil
}

// checkURL reports what is wrong with the URL of an upstream.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("that is no URL")
	case u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.Opaque != "":
		return errors.New("want a URL such as https://api.openai.com/v1, without user, query or fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("want https: by http whoever reads the network reads keys and answers")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Close closes the file of the calls that answers had. Requests have ended before.
func (p *Proxy) Close() error { return p.books.index.Close() }

// modelID is what a path may have as the id of a model.
var modelID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	model, isModel := strings.CutPrefix(r.URL.Path, "/v1/models/")
	of := chatAPI
	if r.Header.Get("Anthropic-Version") != "" {
		of = messagesAPI
	}
	switch path := r.URL.Path; {
	case path == "/v1/chat/completions":
		p.governed(w, r, chatAPI)
	case path == "/v1/responses":
		p.governed(w, r, responsesAPI)
	case path == "/v1/messages":
		p.governed(w, r, messagesAPI)
	case path == "/v1/messages/count_tokens":
		p.passed(w, r, messagesAPI, http.MethodPost, "/messages/count_tokens")
	case path == "/v1/embeddings":
		p.passed(w, r, chatAPI, http.MethodPost, "/embeddings")
	case path == "/v1/models":
		p.passed(w, r, of, http.MethodGet, "/models")
	case isModel && modelID.MatchString(model):
		p.passed(w, r, of, http.MethodGet, "/models/"+model)
	default:
		auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", "nothing is served here")
	}
}

// admit answers a request that has no upstream, another method, no right to ask, or a body of
// another type.
func (p *Proxy) admit(w http.ResponseWriter, r *http.Request, of api, method string) (u *Upstream, ok bool) {
	if u = p.upstream[of]; u == nil {
		auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", "no upstream is configured for this path")
		return nil, false
	}
	if !auth.Method(w, r, method) {
		return nil, false
	}
	if !auth.From(r.Context()).May(auth.Call) {
		auth.Refuse(w, r, http.StatusForbidden, "helm_forbidden", "asking a model needs a token of scope call")
		return nil, false
	}
	if method == http.MethodPost && !auth.JSON(r) {
		auth.Refuse(w, r, http.StatusUnsupportedMediaType, "helm_unsupported_media_type",
			"the body is to be application/json")
		return nil, false
	}
	return u, true
}
