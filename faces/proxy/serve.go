package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/internal/callindex"
	"github.com/helmkernel/helm/faces/internal/rawjson"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
)

// An exchange is one request of an app for an answer of a model.
type exchange struct {
	*answering
	p      *Proxy
	w      http.ResponseWriter
	r      *http.Request
	api    api
	up     *Upstream
	forbid bool // Forbid
	share  share
	hosts  hosting
	agreed []opened // calls that the app lets the provider run
	asked  bool     // the provider may have the request, and did not refuse it
	done   func()   // with its session

	account account
}

// paths of the upstreams.
var paths = map[api]string{chatAPI: "/chat/completions", responsesAPI: "/responses", messagesAPI: "/messages"}

// governed serves a request whose answer may have calls.
func (p *Proxy) governed(w http.ResponseWriter, r *http.Request, of api) {
	up, ok := p.admit(w, r, of, http.MethodPost)
	if !ok {
		return
	}
	x := &exchange{p: p, w: w, r: r, api: of, up: up, share: share{of: p.meter}, hosts: hosting{}, done: func() {}}
	if p.o.Kernel.Err() != nil {
		p.refuse(w, r, errClosed)
		return
	}
	x.answering = &answering{books: p.books, caller: auth.From(r.Context()).Caller, offer: newOffer()}
	x.account.begin(p.o.Telemetry != nil)
	defer x.report()
	defer x.share.set(0)
	defer x.hosts.end(false) // what is left of them, whatever happened
	defer x.failed()
	defer func() { x.done() }()
	defer x.ran()
	body, err := x.share.request(r)
	if err != nil {
		x.refuse(err)
		return
	}
	request, err := x.prepare(body)
	if err != nil {
		x.refuse(err)
		return
	}
	x.account.model = request.body.Get("model").Text()
	query := ""
	if beta := r.URL.Query().Get("beta"); beta != "" && of == messagesAPI {
		query = url.Values{"beta": {beta}}.Encode()
	}
	a, err := p.ask(r, of, up, paths[of], query, request.body.Raw())
	if x.asked = err != errKey; err != nil {
		x.refuse(err)
		return
	}
	whole := false
	defer func() { a.close(whole) }()
	body, request.body = nil, rawjson.Value{}
	x.share.set(0)
	media, err := a.media()
	switch {
	case err != nil:
		x.refuse(err)
	case a.StatusCode != http.StatusOK:
		whole = x.passError(a, media)
		x.asked = !whole
	case media == "application/json":
		whole = x.plain(a)
	case media == "text/event-stream":
		whole = x.stream(a)
	default:
		x.refuse(errMedia)
	}
}

// ran ends the permissions of calls that the app let the provider run: it may have run each, and is
// to run none again.
func (x *exchange) ran() {
	for _, o := range x.agreed {
		if t := x.ticket(o); t != nil && x.asked {
			t.Drop()
		}
	}
	x.unspent(x.agreed)
}

// prepare reads a request, and does what is to be done before it goes on, in this order: the
// session, the user's words, the results of calls, and the permissions for what the provider runs.
func (x *exchange) prepare(body []byte) (*request, error) {
	switch mode := x.r.Header.Get("Helm-On-Deny"); {
	case mode == Forbid, mode == "" && x.p.o.OnDeny == Forbid:
		x.forbid = true
	case mode != "" && mode != Rewrite:
		return nil, bad("Helm-On-Deny is %s or %s", Rewrite, Forbid)
	}
	who := owner(x.caller)
	policy := x.kernel.Policy()
	shelf := newShelf(policy, x.caller)
	read := func() (*request, error) {
		return (&reader{api: x.api, of: shelf, pass: x.p.pass,
			withheld: func(tool string, output []byte, failed bool) string {
				return withheld(policy, tool, output, failed)
			},
			tool: func(id string) string {
				e, _ := x.index.Get(who, id)
				return e.Tool
			},
			orphan: func(id string) bool {
				e, ok := x.index.Get(who, id)
				return ok && e.Denied && e.Kind == "reasoning"
			},
			said: func(id string) string {
				e, _ := x.index.Get(who, id)
				return e.Refusal
			},
			denied: func(answer string) []callindex.Denied { return x.index.Denied(who, answer) },
		}).read(body)
	}
	request, err := read()
	if err != nil {
		return nil, err
	}
	if x.session, err = x.sessionOf(request); err != nil {
		return nil, err
	}
	x.w.Header().Set("Helm-Session", x.session)
	x.done = x.limit.Use(x.caller, x.session)
	if err := x.words(request); err != nil {
		return nil, err
	}
	unknown := 0
	if unknown, x.agreed, err = x.settle(x.caller, x.session, request.results, x.p.o.Auth.Strict()); err != nil {
		x.agreed = nil
		return nil, err
	}
	if unknown > 0 {
		x.tell.Tell(state.Fact{Kind: state.Unknown, More: unknown - 1})
	}
	if shelf.asked {
		shelf.judge = func(tool string, entry []byte) bool {
			return x.hosts.permit(x.r.Context(), x.answering, tool, entry)
		}
		if request, err = read(); err != nil {
			return nil, err
		}
		if x.forbid && x.denied > 0 {
			return nil, errDenied
		}
	}
	x.offer = request.offer
	if len(request.removed) > 0 {
		x.w.Header().Set("Helm-Removed", names(request.removed))
	}
	return request, nil
}

// errDenied is a denial in a request or an answer that is then not passed on at all.
var errDenied = errors.New("denied")

// sessionOf returns the session of a request: the one that it names, else that of its calls.
func (x *exchange) sessionOf(r *request) (string, error) {
	who, found := owner(x.caller), ""
	ids := r.order[:len(r.order):len(r.order)]
	for _, result := range r.results {
		ids = append(ids, result.id)
	}
	for _, id := range []string{r.previous, r.compared} {
		_, mine := x.index.Get(who, id)
		if _, other := x.index.Get("", id); other && !mine {
			return "", bad("previous_response_id, comparison_response_id: there is no such response")
		}
	}
	if r.previous != "" {
		ids = append(ids, r.previous)
	}
	for _, id := range ids {
		e, ok := x.index.Get(who, id)
		switch {
		case !ok || x.p.o.Auth.Named(x.r):
		case found != "" && found != e.Session:
			return "", bad("the calls of this request are of two sessions")
		default:
			found = e.Session
		}
	}
	session, err := x.p.o.Auth.Session(x.r, found)
	if err != nil {
		return "", bad("%v", err)
	}
	if found == "" && len(r.order) > 0 && !x.p.o.Auth.Named(x.r) {
		b := append(crypto.AppendString([]byte("["), x.caller.ID), ',')
		b = append(crypto.AppendString(b, r.order[0]), ']')
		session = auth.SessionName(x.caller, "c-"+crypto.Sum(b).String()[:32])
	}
	return session, nil
}

// words records the user's words, if the request says that its last message is that.
func (x *exchange) words(r *request) error {
	switch said := x.r.Header.Get("Helm-User"); {
	case said == "":
		return nil
	case said != "last":
		return bad("Helm-User is last, or not there")
	case !auth.From(x.r.Context()).May(auth.User):
		return &refusal{http.StatusForbidden, "the user's words need a token of scope user"}
	case r.words == "":
		return nil
	}
	if _, err := x.p.o.Auth.Record(x.r.Context(), x.kernel, x.session, r.words); err != nil {
		if x.kernel.Err() != nil {
			return errClosed
		}
		x.w.Header().Set("Helm-User-Refused", ascii(err.Error()))
	}
	return nil
}

var errClosed = errors.New("nothing is judged now")

// passError passes on what the provider answers as an error, if it is one: it has no answer in it.
func (x *exchange) passError(a *asking, media string) (whole bool) {
	body, err := x.share.read(a, x.p.limits.error)
	if err == errTooLong || media == "text/event-stream" {
		err = errStatus
	}
	if err == nil && answers(body) {
		err = errStatus
	}
	if err != nil {
		x.refuse(err)
		return false
	}
	a.tell(x.w.Header())
	x.w.WriteHeader(a.StatusCode)
	_ = x.write(body) // an app that is gone
	return true
}

// write writes the rest of an answer that is no stream.
func (x *exchange) write(body []byte) error {
	w := newWriter(x.w, x.p.limits, x.account.writes, nil)
	defer w.close()
	return w.write(body)
}

// watch hears what the answer says besides calls.
func (x *exchange) watch() watch {
	who := owner(x.caller)
	return watch{
		began: func(id string) {
			if x.api == responsesAPI {
				x.answer = id
				x.index.Put(who, id, callindex.Entry{Session: x.session})
				x.index.Put("", id, callindex.Entry{Session: x.session})
			}
		},
		ran: x.hosts.ran,
		said: func(id, text string) {
			x.index.Put(who, id, callindex.Entry{Session: x.session, Kind: "message", Refusal: text})
		},
		alone: func(id string) {
			x.index.Put(who, id, callindex.Entry{Session: x.session, Denied: true, Kind: "reasoning"})
		},
		done: func(request string, raw []byte) {
			if e, ok := x.index.Get(who, request); !ok || e.Session != x.session {
				return
			}
			if t := x.ticket(opened{who, request}); t != nil {
				t.Settle(handoff.Outcome{Output: bytes.Clone(raw)})
			}
		},
	}
}

func (x *exchange) hosted(tool string) bool { return x.offer.hosted[tool] }

// plain serves an answer that is no stream.
func (x *exchange) plain(a *asking) (whole bool) {
	x.account.holds(true)
	body, err := x.share.read(a, x.p.limits.plain)
	if err != nil {
		x.refuse(err)
		return false
	}
	x.account.count(body)
	ctx := x.r.Context()
	p := &plain{judge: x.judge, session: x.session, pass: x.p.pass, hosted: x.hosted, shell: x.offer.shell,
		watch: x.watch()}
	var out []byte
	switch x.api {
	case chatAPI:
		out, err = p.chat(ctx, body)
	case responsesAPI:
		out, err = p.responses(ctx, body)
	case messagesAPI:
		out, err = p.messages(ctx, body)
	}
	if err == nil && x.forbid && x.denied > 0 {
		err = errDenied
	}
	if err != nil {
		x.refuse(err)
		return true
	}
	x.hosts.end(true)
	h := x.w.Header()
	a.tell(h)
	h.Set("Helm-Denied", strconv.Itoa(x.denied))
	h.Set("Content-Length", strconv.Itoa(len(out)))
	if x.write(out) == nil {
		x.delivered()
	}
	return true
}

// A machine turns the events of a streamed answer into those that the app gets.
type machine interface {
	event(context.Context, frame) ([]frame, error)
	end() error    // nil if the answer is whole
	holding() int  // bytes
	sequence() int // the number of the next event, if the API counts them
}

func (x *exchange) machine() machine {
	most := x.p.limits.held
	switch x.api {
	case chatAPI:
		return &chatStream{judge: x.judge, session: x.session, pass: x.p.pass, most: most,
			choices: map[int]*chatChoice{}}
	case responsesAPI:
		s := newResponses(x.judge, x.session, x.p.pass, x.hosted, x.offer.shell, most)
		s.watch = x.watch()
		return s
	default:
		s := newMessages(x.judge, x.session, x.p.pass, x.hosted, most)
		s.watch = x.watch()
		return s
	}
}

// stream serves a streamed answer. It reads no faster than the app takes what is written.
func (x *exchange) stream(a *asking) (whole bool) {
	alive := []byte(": helm\n\n")
	if x.api == messagesAPI {
		alive = appendFrame(nil, frame{"ping", []byte(`{"type": "ping"}`)})
	}
	if x.forbid {
		alive = nil // whether it is 403 is known at its end
	}
	w := newWriter(x.w, x.p.limits, func() {
		x.account.writes()
		a.tell(x.w.Header())
		x.w.WriteHeader(http.StatusOK)
	}, alive)
	defer w.close()
	m := x.machine()
	err := x.events(a, w, m)
	if err == nil && x.forbid && x.denied > 0 {
		err = errDenied
	}
	if err == nil {
		x.hosts.end(true)
		return true
	}
	x.failed()
	if !w.close() {
		x.refuse(err)
		return false
	}
	if err != errUpstream { // whose own word was the last
		_ = w.write(x.broken(err, m.sequence()))
	}
	return false
}

// events reads an answer to its end, and writes what the app gets of it. An answer in which nothing
// may be denied is written when it is whole.
func (x *exchange) events(a *asking, w *writer, m machine) error {
	in := &frames{r: bufio.NewReaderSize(a, 16<<10), most: x.p.limits.event}
	var out []byte
	for {
		e, err := in.next()
		if err == io.EOF {
			if err = m.end(); err == nil && x.forbid {
				return x.release(w, out)
			}
		}
		if err != nil {
			return err
		}
		x.account.count(e.data)
		events, err := m.event(x.r.Context(), e)
		x.account.holds(x.forbid || m.holding() > 0)
		if !x.forbid {
			out = out[:0]
		}
		for _, f := range events {
			out = appendFrame(out, f)
		}
		if err != nil {
			if len(events) > 0 && err == errUpstream && !x.forbid {
				_ = w.write(out)
			}
			return err
		}
		switch {
		case !x.share.set(m.holding() + len(out)):
			return errFull
		case x.forbid && len(out) > x.p.limits.held:
			return errTooLong
		case x.forbid:
		default:
			if err := x.release(w, out); err != nil {
				return err
			}
		}
		if m.end() == nil { // what comes after the end reaches nobody
			if x.forbid {
				return x.release(w, out)
			}
			return nil
		}
	}
}

// release writes events. What they released is delivered then.
func (x *exchange) release(w *writer, out []byte) error {
	if x.forbid && x.denied > 0 {
		return errDenied
	}
	if err := w.write(out); err != nil {
		return err
	}
	x.delivered()
	return nil
}

// names returns the value of the header Helm-Removed.
func names(list []string) string {
	s := ascii(strings.Join(list, ", "))
	if len(s) > 1024 {
		s = s[:1024] + "..."
	}
	return s
}

// ascii returns a text as a header may have it.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
