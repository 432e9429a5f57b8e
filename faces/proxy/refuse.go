package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// An answerOf is the answer of HELM's own to an error.
type answerOf struct {
	status  int
	code    string
	message string
}

func answerFor(err error) answerOf {
	var r *refusal
	switch {
	case errors.As(err, &r) && r.status == http.StatusForbidden:
		return answerOf{r.status, "helm_forbidden", r.message}
	case errors.As(err, &r) && r.status == http.StatusRequestEntityTooLarge:
		return answerOf{r.status, "helm_too_large", r.message}
	case errors.As(err, &r):
		return answerOf{r.status, "helm_bad_request", r.message}
	case err == errFull, err == errClosed:
		return answerOf{http.StatusServiceUnavailable, "helm_unavailable", err.Error()}
	case err == errSilent:
		return answerOf{http.StatusGatewayTimeout, "helm_upstream_timeout", err.Error()}
	case err == errKey, err == errReach, err == errStatus, err == errMedia, err == errEncoded, err == errHosted,
		err == errUpstream:
		return answerOf{http.StatusBadGateway, "helm_upstream", err.Error()}
	}
	return answerOf{http.StatusBadGateway, "helm_upstream",
		"the provider's answer is not understood here, and so it is " +
			"not passed on: " + err.Error()}
}

// refuse answers a request of which nothing was answered yet.
func (x *exchange) refuse(err error) {
	if err == errDenied {
		x.failed()
		x.w.Header().Set("Helm-Denied", strconv.Itoa(x.denied))
		auth.RefuseCall(x.w, x.r, x.first.code, x.first.text, auth.Told{Session: x.session, Calls: x.told})
		return
	}
	x.p.refuse(x.w, x.r, err)
}

// refuse answers a request with an error of HELM's own.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch a := answerFor(err); {
	case errors.Is(err, context.Canceled): // the app is gone
		auth.Refuse(w, r, http.StatusBadGateway, "helm_upstream", "the request ended")
	case err == errFull:
		w.Header().Set("Retry-After", "1")
		auth.Refuse(w, r, a.status, a.code, a.message)
	default:
		auth.Refuse(w, r, a.status, a.code, a.message)
	}
}

// broken returns the last event of a stream that cannot go on.
func (x *exchange) broken(err error, sequence int) []byte {
	a := answerFor(err)
	x.p.tell.Tell(state.Fact{Kind: state.Refused, Name: a.code})
	member := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			return []byte("{}")
		}
		return b
	}
	type members = map[string]any
	switch x.api {
	case messagesAPI:
		return appendFrame(nil, frame{"error", member(members{"type": "error",
			"error": members{"type": "api_error", "message": a.message}})})
	case responsesAPI:
		return appendFrame(nil, frame{"error", member(members{"type": "error", "code": a.code, "message": a.message,
			"param": nil, "sequence_number": sequence})})
	}
	return appendFrame(nil, frame{"", member(members{"error": members{"message": a.message, "type": "helm_error",
		"param": nil, "code": a.code}})})
}
