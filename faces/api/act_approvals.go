package api

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// A waiting request is one that a person may answer.
type waiting struct {
	Nonce     string                    `json:"nonce"`
	Request   contracts.ApprovalRequest `json:"request"`
	Answers   []answered                `json:"answers"`
	Arguments *string                   `json:"arguments,omitempty"` // of those who may read them
}

type answered struct {
	Name     string `json:"name"`
	Approves bool   `json:"approves"`
}

func waitingOf(p *state.Pending, arguments bool) waiting {
	x := waiting{Nonce: p.Request.Nonce, Request: p.Request, Answers: []answered{}}
	for _, y := range p.Answers {
		x.Answers = append(x.Answers, answered(y))
	}
	if arguments {
		s := string(p.Args)
		x.Arguments = &s
	}
	return x
}

// approvals answers with the requests of the tenant that wait, without their arguments.
func (a *acting) approvals(w http.ResponseWriter, r *http.Request) {
	all, err := a.o.Approvals.Pending(r.Context())
	if err != nil {
		unavailable(w, r, "the requests cannot be read now")
		return
	}
	list := []waiting{}
	for i := range all {
		if all[i].Request.Caller.Tenant == auth.From(r.Context()).Caller.Tenant {
			list = append(list, waitingOf(&all[i], false))
		}
	}
	auth.Answer(w, map[string]any{"items": list})
}

// pending returns the request with a nonce. One of another tenant does not exist. If there is none
// it answers.
func (a *acting) pending(w http.ResponseWriter, r *http.Request, nonce string) (p state.Pending, ok bool) {
	p, err := a.o.Approvals.Get(r.Context(), nonce)
	switch {
	case err != nil && !errors.Is(err, state.ErrNoRequest):
		unavailable(w, r, "the request cannot be read now")
	case err != nil || p.Request.Caller.Tenant != auth.From(r.Context()).Caller.Tenant:
		absent(w, r, "there is no such request: it was answered and used, it has expired, or it never was")
	default:
		return p, true
	}
	return p, false
}

// approval answers with one request that waits.
func (a *acting) approval(w http.ResponseWriter, r *http.Request) {
	if p, ok := a.pending(w, r, r.PathValue("nonce")); ok {
		auth.Answer(w, waitingOf(&p, auth.From(r.Context()).May(auth.Inputs)))
	}
}

// approve keeps the answer to a request: an envelope, which says itself what it answers, and proves
// itself who signed it.
func (a *acting) approve(w http.ResponseWriter, r *http.Request) {
	b, back, ok := a.body(w, r)
	if !ok {
		return
	}
	defer back()
	var said *contracts.Approval
	sealed, err := new(contracts.Reader).Open(b)
	if err == nil {
		said, err = sealed.Approval()
	}
	if err != nil {
		bad(w, r, "want the envelope of an approval, as helm approve writes it")
		return
	}
	p, ok := a.pending(w, r, said.Request.Nonce)
	if !ok {
		return
	}
	switch err := a.o.Approvals.Answer(r.Context(), p.Request.Nonce, b); {
	case err == nil:
	case errors.Is(err, state.ErrNoRequest):
		absent(w, r, state.ErrNoRequest.Error())
		return
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(*state.Fault)), r.Context().Err() != nil:
		unavailable(w, r, "no answer can be kept now")
		return
	default:
		bad(w, r, "the answer is not kept: it is not to this very request, or not signed by one who may give it, "+
			"or that one has said otherwise")
		return
	}
	if p, ok = a.pending(w, r, p.Request.Nonce); ok {
		auth.Answer(w, waitingOf(&p, false))
	}
}
