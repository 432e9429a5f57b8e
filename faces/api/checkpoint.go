package api

import (
	_ "embed" // openapi.json
	"net/http"
)

//go:embed openapi.json
var document []byte

// document answers with the description of the API.
func (a *api) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // a client that is gone
}

// checkpoint answers with the latest checkpoint of the log.
func (a *api) checkpoint(w http.ResponseWriter, r *http.Request) {
	note, err := a.o.Store.Checkpoint(r.Context())
	switch {
	case err != nil:
		unavailable(w, r, unreadable)
	case len(note) == 0:
		absent(w, r, noCheckpoint)
	default:
		writeNote(w, note)
	}
}

// Words of several answers.
const (
	unreadable   = "the log cannot be read now"
	noCheckpoint = "there is no checkpoint yet"
)

// writeNote answers with a signed note.
func writeNote(w http.ResponseWriter, note []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(note) // a client that is gone
}
