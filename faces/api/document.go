package api

import (
	_ "embed" // openapi.json
	"net/http"
)

//go:embed openapi.json
var document []byte

// describe answers with the description of the API.
func describe(_ *api, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // a client that is gone
}
