package api

import (
	"context"
	"net/http"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// upTo is a log that ends at a checkpoint.
type upTo struct {
	proofgraph.Store
	note []byte
}

func (u upTo) Checkpoint(context.Context) ([]byte, error) { return u.note, nil }

// packs is how many packs are written at once: each takes memory as the log is long.
const packs = 2

// pack answers with the pack of the log, up to a checkpoint that is made for it. One that breaks
// off is no pack, and the connection ends with it.
func (a *reading) pack(w http.ResponseWriter, r *http.Request) {
	select {
	case a.packs <- struct{}{}:
		defer func() { <-a.packs }()
	default:
		w.Header().Set("Retry-After", "10")
		unavailable(w, r, "there are too many packs at once")
		return
	}
	c, err := a.kernel.Checkpoint(r.Context())
	if err != nil {
		unavailable(w, r, "a checkpoint cannot be made now")
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", `attachment; filename="helm.pack"`)
	out := &begun{w: w}
	if err := evidence.Write(r.Context(), out, upTo{a.store, c.Note}, a.key); err != nil {
		w.Header().Del("Content-Disposition")
		out.broken(r)
	}
}
