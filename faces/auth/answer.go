package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// Refuse answers a request with an error of HELM's own, in the form of the API that its path is of.
// The message is for people, and has nothing of arguments, outputs or keys. The code is one of
// helm_bad_request and so on, or a reason code.
func Refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if refused, ok := r.Context().Value(refusedKey{}).(func(string)); ok {
		refused(code)
	}
	refuse(w, r, status, code, message, nil)
}

// A refusedKey is the context key of Options.Refused.
type refusedKey struct{}

// hears returns a request whose refusal Options.Refused is told.
func (a *Auth) hears(r *http.Request) *http.Request {
	if a.o.Refused == nil {
		return r
	}
	told := func(code string) {
		defer func() { _ = recover() }()
		a.o.Refused(code)
	}
	return r.WithContext(context.WithValue(r.Context(), refusedKey{}, told))
}

// RefuseCall answers a request that is a call which was denied, with what is told of it.
func RefuseCall(w http.ResponseWriter, r *http.Request, code, message string, t Told) {
	refuse(w, r, http.StatusForbidden, code, message, t)
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string, told any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if h.Get("Retry-After") == "" {
		h.Set("X-Should-Retry", "false")
	}
	var v map[string]any
	if p := r.URL.Path; p == "/v1/messages" || strings.HasPrefix(p, "/v1/messages/") {
		v = map[string]any{"type": "error", "error": map[string]any{"type": kind(status), "message": message}}
	} else {
		e := map[string]any{"message": message, "type": "helm_error", "param": nil, "code": code}
		v = map[string]any{"error": e}
	}
	if told != nil {
		v["helm"] = told
	}
	w.WriteHeader(status)
	write(w, v)
}

// kind returns the type of an error in the messages API.
func kind(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusServiceUnavailable:
		return "overloaded_error"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// Answer answers a request with JSON.
func Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, v)
}

func write(w http.ResponseWriter, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a client that is gone
}
