package auth

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// identify returns what tells callers apart: id and tenant, and not the roles, which may change.
func identify(c helm.Caller) crypto.Digest {
	b := append(crypto.AppendString([]byte(`{"id":`), c.ID), `,"tenant":`...)
	return crypto.Sum(append(crypto.AppendString(b, c.Tenant), '}'))
}

// owner returns what the names of a caller's sessions begin with.
func owner(c helm.Caller) string {
	if c.ID == "" && c.Tenant == "" {
		return "anonymous/"
	}
	return identify(c).String()[:12] + "/"
}

// SessionName returns the name in the log of a caller's session, so that nobody joins another's.
// One that has the caller's own prefix already is taken as it is. What makes no legal name becomes
// h- and 32 hex digits of its SHA-256.
func SessionName(c helm.Caller, name string) string {
	prefix := owner(c)
	name = strings.TrimPrefix(name, prefix)
	if name == "" || !contracts.IsSession(prefix+name) {
		name = "h-" + crypto.Sum([]byte(name)).String()[:32]
	}
	return prefix + name
}

// Errors of Session.
var (
	ErrTwoSessions = errors.New("the header and the body name two sessions")
	ErrNoSession   = errors.New("a session is required: name one by the header Helm-Session")
)

// Named reports whether a header names the session of a request.
func (a *Auth) Named(r *http.Request) bool {
	return slices.ContainsFunc(a.o.SessionHeaders, func(h string) bool { return len(r.Header.Values(h)) > 0 })
}

// Strict reports whether Options.SessionRequired says that a request names its session.
func (a *Auth) Strict() bool { return a.o.SessionRequired }

// Session returns the session of a request, as the log names it: that of the first session header
// that is there, or of the body; given is the body's, if there is one. Without either it is a fresh
// one, p- and 26 characters, unless Options.SessionRequired.
func (a *Auth) Session(r *http.Request, given string) (string, error) {
	c := From(r.Context()).Caller
	for _, h := range a.o.SessionHeaders {
		values := r.Header.Values(h)
		if len(values) == 0 {
			continue
		}
		switch named := values[0]; {
		case named == "":
			return "", ErrNoSession
		case given != "" && SessionName(c, given) != SessionName(c, named):
			return "", ErrTwoSessions
		default:
			return SessionName(c, named), nil
		}
	}
	switch {
	case given != "":
		return SessionName(c, given), nil
	case a.o.SessionRequired:
		return "", ErrNoSession
	}
	return owner(c) + "p-" + strings.ToLower(rand.Text()), nil
}
