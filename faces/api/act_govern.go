package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// closeSession ends a session. Calls of it that are handed over are dropped, and those that run
// here are waited for.
func (a *acting) closeSession(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("session_id")
	s, ok := a.reads.look(w, r)
	if !ok {
		return
	}
	if _, ok := s.session(name); !ok || !contracts.IsSession(name) {
		absent(w, r, "there is no such session")
		return
	}
	if name == contracts.DefaultSession {
		bad(w, r, `session "main" cannot be closed`)
		return
	}
	a.o.Desk.DropSession(name)
	ended := make(chan struct{})
	defer close(ended)
	go func() { // a call that was handed over just before the session began to close
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				a.o.Desk.DropSession(name)
			case <-ended:
				return
			}
		}
	}()
	if err := a.o.Kernel.CloseSession(r.Context(), name); err != nil {
		unavailable(w, r, "the session was not closed")
		return
	}
	auth.Answer(w, map[string]any{"session": name, "closed": true})
}

// govern puts a trust event in force.
func (a *acting) govern(w http.ResponseWriter, r *http.Request) {
	b, back, ok := a.body(w, r)
	if !ok {
		return
	}
	defer back()
	if a.o.Kernel.Err() != nil {
		unavailable(w, r, "nothing is recorded now")
		return
	}
	err := a.o.Kernel.Govern(r.Context(), b)
	switch {
	case err == nil:
		auth.Answer(w, map[string]any{"governed": true})
	case a.o.Kernel.Err() != nil, r.Context().Err() != nil:
		unavailable(w, r, "nothing is recorded now")
	default:
		bad(w, r, err.Error()) // which says what is missing: the version, the log's name, signers
	}
}

// policy answers with the stack that the kernel judges by now.
func (a *acting) policy(w http.ResponseWriter, r *http.Request) {
	p := a.o.Kernel.Policy()
	if p == nil {
		unavailable(w, r, "no policy judges now")
		return
	}
	type document struct {
		Layer    string           `json:"layer"`
		Name     string           `json:"name"`
		Version  uint64           `json:"version"`
		Digest   contracts.Digest `json:"digest"`
		Document json.RawMessage  `json:"document"`
	}
	record := p.Record()
	list := make([]document, len(record.Documents))
	for i, d := range record.Documents {
		list[i] = document{d.Layer, d.Name, d.Version, d.Digest, p.Document(i).Canonical}
	}
	auth.Answer(w, map[string]any{
		"policy": record.Policy, "documents": list,
		"engine": map[string]uint64{"rules": record.Engine.Rules, "threat": record.Engine.Threat},
	})
}
