package auth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
)

// said are texts that sessions have as the user's words, so that one that is sent again is not
// recorded again. It forgets the oldest, and all of them when the process ends.
type said struct {
	record [64]sync.Mutex // held while a text is recorded, so that one that is sent twice at once is not either

	mu    sync.Mutex
	texts map[crypto.Digest]bool
	order []crypto.Digest
	next  int
}

const remembered = 1 << 16

func (s *said) has(text crypto.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[text]
}

func (s *said) add(text crypto.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.texts[text]:
		return
	case s.texts == nil:
		s.texts = map[crypto.Digest]bool{}
	}
	if len(s.order) < remembered {
		s.order = append(s.order, text)
	} else {
		delete(s.texts, s.order[s.next])
		s.order[s.next] = text
		s.next = (s.next + 1) % remembered
	}
	s.texts[text] = true
}

// maxWords is more than the text that a session holds, escaped.
const maxWords = 2 << 20

// Messages returns the handler of POST /helm/messages: {"session", "text"} is what the user wrote,
// and is recorded by Kernel.UserMessage before it answers {"session", "recorded"}. It needs the
// scope User, which the anonymous caller does not have: role, header or path of a request prove
// nothing of who wrote a text.
func (a *Auth) Messages(k *helm.Kernel) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bad := func(message string) {
			Refuse(w, r, http.StatusBadRequest, "helm_bad_request", message)
		}
		if !Method(w, r, http.MethodPost) {
			return
		}
		who := From(r.Context())
		if !who.May(User) {
			Refuse(w, r, http.StatusForbidden, "helm_forbidden", "the user's words need a token of scope user")
			return
		}
		if !JSON(r) {
			Refuse(w, r, http.StatusUnsupportedMediaType, "helm_unsupported_media_type",
				"the body is to be application/json")
			return
		}
		b, err := io.ReadAll(io.LimitReader(r.Body, maxWords+1))
		switch {
		case errors.As(err, new(*http.MaxBytesError)), len(b) > maxWords:
			Refuse(w, r, http.StatusRequestEntityTooLarge, "helm_too_large", "the body is too long")
			return
		case err != nil:
			bad("the body did not come whole")
			return
		}
		var message struct{ Session, Text *string }
		if !Object(b, map[string]any{"session": &message.Session, "text": &message.Text}) || message.Text == nil {
			bad(`want {"session": "…", "text": "…"}, each once, and nothing else`)
			return
		}
		given := ""
		if message.Session != nil {
			given = *message.Session
		}
		session, err := a.Session(r, given)
		if err != nil {
			bad(err.Error())
			return
		}
		w.Header().Set("Helm-Session", session)
		defer a.Use(From(r.Context()).Caller, session)()
		recorded, err := a.Record(r.Context(), k, session, *message.Text)
		if err != nil {
			a.refused(w, r, k, err)
			return
		}
		Answer(w, map[string]any{"session": session, "recorded": recorded})
	})
}

// Record has the kernel record what the user wrote, by Kernel.UserMessage, and reports whether it
// did: a text that the session has already is not recorded again. Whether the request may say what
// the user's words are is the caller's to ask.
func (a *Auth) Record(ctx context.Context, k *helm.Kernel, session, text string) (recorded bool, err error) {
	sum := crypto.Sum(append(crypto.AppendString(nil, session), text...))
	one := &a.said.record[sum[0]%64]
	one.Lock()
	defer one.Unlock()
	if err := k.Err(); err != nil || a.said.has(sum) {
		return false, err
	}
	if err := k.UserMessage(ctx, session, text); err != nil {
		return false, err
	}
	a.said.add(sum)
	return true, nil
}

// refused answers what UserMessage refused. A kernel that takes no calls, and whatever has a cause,
// is no fault of the text, and the cause is told nobody.
func (a *Auth) refused(w http.ResponseWriter, r *http.Request, k *helm.Kernel, err error) {
	if k.Err() != nil || r.Context().Err() != nil || errors.Unwrap(errors.Unwrap(err)) != nil {
		Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "nothing is recorded now")
		return
	}
	Refuse(w, r, http.StatusBadRequest, "helm_bad_request", err.Error())
}

// Object reads an object of JSON into values by the names of its members, each of which may be left
// out. It reports whether the text is strict JSON, and has no other member and none twice.
func Object(b []byte, members map[string]any) bool {
	var tree crypto.Tree
	if tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth}) != nil {
		return false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || object == nil {
		return false
	}
	for name, raw := range object {
		v, ok := members[name]
		if !ok || json.Unmarshal(raw, v) != nil {
			return false
		}
	}
	return true
}

// Method reports whether a request has one of the methods. If not, it answers it.
func Method(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
		w.Header().Add("Allow", m)
	}
	Refuse(w, r, http.StatusMethodNotAllowed, "helm_method_not_allowed", "this path has no such method")
	return false
}

// Health returns the handler of /healthz, which stands outside Handler: it answers any host. It
// says "ok", or with 503 the word that unwell returns, which names no cause.
func Health(unwell func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Method(w, r, http.MethodGet, http.MethodHead) {
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Type", "application/json")
		status := "ok"
		if word := unwell(); word != "" {
			status = word
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		write(w, map[string]string{"status": status})
	})
}
