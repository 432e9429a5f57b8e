package proxy

import (
	"bytes"
	"net/http"

	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// passed serves a path whose answers have no calls: what is asked goes on, and so does the answer.
func (p *Proxy) passed(w http.ResponseWriter, r *http.Request, of api, method, path string) {
	up, ok := p.admit(w, r, of, method)
	if !ok {
		return
	}
	x := &exchange{p: p, w: w, r: r, api: of, up: up, share: share{of: p.meter}}
	x.answering = &answering{books: p.books, caller: auth.From(r.Context()).Caller}
	defer x.share.set(0)
	body, err := x.countable(method, path)
	if err != nil {
		x.refuse(err)
		return
	}
	a, err := p.ask(r, of, up, path, "", body)
	if err != nil {
		x.refuse(err)
		return
	}
	whole := false
	defer func() { a.close(whole) }()
	media, err := a.media()
	switch {
	case err != nil:
		x.refuse(err)
		return
	case a.StatusCode != http.StatusOK:
		whole = x.passError(a, media)
		return
	case media != "application/json":
		x.refuse(errMedia)
		return
	}
	answer, err := x.share.read(a, p.limits.plain)
	if err == nil {
		_, err = rawjson.Check(answer)
	}
	if err == nil && answers(answer) {
		err = errShape
	}
	if err != nil {
		x.refuse(err)
		return
	}
	whole = true
	a.tell(w.Header())
	_ = x.write(answer) // an app that is gone
}

// countable returns the body of a request as it is forwarded. Of tokens that are to be counted,
// tools that the provider runs are left out unjudged.
func (x *exchange) countable(method, path string) ([]byte, error) {
	if method == http.MethodGet {
		return nil, nil
	}
	body, err := x.share.request(x.r)
	if err != nil {
		return nil, err
	}
	if path != "/messages/count_tokens" {
		v, err := rawjson.Check(body)
		if err != nil || v.Kind() != rawjson.Object {
			return nil, bad("the body is no object of JSON in which each name is there once")
		}
		return body, nil
	}
	p := &reader{api: messagesAPI, of: none{newShelf(x.kernel.Policy(), x.caller)}, pass: x.p.pass,
		withheld: func(string, []byte, bool) string { return "" }}
	request, err := p.read(body)
	if err != nil {
		return nil, err
	}
	if len(request.removed) > 0 {
		x.w.Header().Set("Helm-Removed", names(request.removed))
	}
	return request.body.Raw(), nil
}

// answers reports whether a text is an answer of a model, which may have calls, or one that some
// clients would read as JSON and others not.
func answers(text []byte) bool {
	v, err := rawjson.Check(text)
	if err != nil {
		text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
		return len(text) > 0 && (text[0] == '{' || text[0] == '[')
	}
	for e := range v.Elements() {
		if answers(e.Raw()) {
			return true
		}
	}
	for m := range v.Members() {
		switch folded(m.Name) {
		case "choices", "output", "content":
			return true
		}
	}
	return false
}
