package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// acting is the part of the API that does something.
type acting struct {
	o      *Options
	reads  *reading
	bodies bodies
}

// A bodies counts the bytes of bodies that are held at once.
type bodies struct{ held atomic.Int64 }

const (
	mostHeld = 512 << 20
	bodyStep = 16 << 10
)

var errHeld = errors.New("api: too much is held at once")

// read reads a body, whose bytes count before they are read, until back is called.
func (h *bodies) read(body io.Reader) (b []byte, back func(), err error) {
	var size int64
	back = func() { h.held.Add(-size) }
	for {
		if len(b) == cap(b) {
			more := max(bodyStep, cap(b))
			size += int64(more)
			if h.held.Add(int64(more)) > mostHeld {
				return nil, back, errHeld
			}
			b = append(make([]byte, 0, cap(b)+more), b...)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, back, nil
		}
		if err != nil {
			return nil, back, err
		}
	}
}

// body reads the body of a request, which counts until back is called. If it cannot it answers.
func (a *acting) body(w http.ResponseWriter, r *http.Request) (b []byte, back func(), ok bool) {
	if !auth.JSON(r) {
		auth.Refuse(w, r, http.StatusUnsupportedMediaType, "helm_unsupported_media_type",
			"the body is to be application/json")
		return nil, nil, false
	}
	b, back, err := a.bodies.read(r.Body)
	if err == nil {
		return b, back, true
	}
	back()
	switch {
	case err == errHeld:
		w.Header().Set("Retry-After", "1")
		unavailable(w, r, "there are too many requests at once")
	case errors.As(err, new(*http.MaxBytesError)):
		auth.Refuse(w, r, http.StatusRequestEntityTooLarge, "helm_too_large", "the body is too long")
	default:
		bad(w, r, "the body did not come whole")
	}
	return nil, nil, false
}

// asked reads the body of a request, an object with these members and no others, each of which may
// be left out. If it cannot it answers; form says what is wanted.
func (a *acting) asked(
	w http.ResponseWriter, r *http.Request, form string, members map[string]any,
) (back func(), ok bool) {
	b, back, ok := a.body(w, r)
	if !ok {
		return nil, false
	}
	if !auth.Object(b, members) {
		back()
		bad(w, r, "want "+form+", each once, and nothing else")
		return nil, false
	}
	return back, true
}

// same reports whether a call is of the caller who asks. Roles may change between two requests.
func same(c, d helm.Caller) bool { return c.ID == d.ID && c.Tenant == d.Tenant }

// refOf returns how a receipt is named in an answer; nil: there is none.
func refOf(r helm.Receipt) *auth.ToldReceipt {
	ref := r.Ref()
	if ref == (contracts.Ref{}) {
		return nil
	}
	return &auth.ToldReceipt{Index: ref.Index, Hash: ref.Hash}
}

// newCheckpoint answers with a checkpoint of the log as it is now, which it makes.
func (a *acting) newCheckpoint(w http.ResponseWriter, r *http.Request) {
	c, err := a.o.Kernel.Checkpoint(context.WithoutCancel(r.Context()))
	if err != nil {
		unavailable(w, r, "no checkpoint can be made now")
		return
	}
	writeNote(w, c.Note)
}
