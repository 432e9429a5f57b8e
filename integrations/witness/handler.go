package witness

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// maxBody is how many bytes the body of a request may have.
const maxBody = 64 << 10

// Handler returns a handler of C2SP tlog-witness: POST /add-checkpoint, and, if the State of the
// witness is a [Finder], GET /<hex SHA-256 of an origin>/checkpoint. The package comment lists the
// answers. It is safe for concurrent use.
func Handler(w *witness.Witness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", func(rw http.ResponseWriter, r *http.Request) { add(w, rw, r) })
	mux.HandleFunc("GET /{log}/checkpoint", func(rw http.ResponseWriter, r *http.Request) { latest(w, rw, r) })
	return mux
}

func add(w *witness.Witness, rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	if err != nil {
		refuse(rw, http.StatusBadRequest, "the body is not there, or has more than 65,536 bytes")
		return
	}
	q, err := parseRequest(body)
	if err != nil {
		refuse(rw, http.StatusBadRequest, err.Error())
		return
	}
	lines, err := w.Add(r.Context(), q.old, q.proof, q.note)
	var conflict *witness.Conflict
	switch {
	case err == nil:
		send(rw, http.StatusOK, "text/plain; charset=utf-8", lines)
	case errors.As(err, &conflict):
		send(rw, http.StatusConflict, "text/x.tlog.size", strconv.AppendUint(nil, conflict.Size, 10), '\n')
	case errors.Is(err, witness.ErrBadRequest):
		refuse(rw, http.StatusBadRequest, err.Error())
	case errors.Is(err, witness.ErrUnknownLog):
		refuse(rw, http.StatusNotFound, err.Error())
	case errors.Is(err, witness.ErrForbidden):
		refuse(rw, http.StatusForbidden, err.Error())
	case errors.Is(err, witness.ErrUnprocessable):
		refuse(rw, http.StatusUnprocessableEntity, err.Error())
	default:
		failed(rw)
	}
}

func latest(w *witness.Witness, rw http.ResponseWriter, r *http.Request) {
	finder, ok := w.State.(Finder)
	log, err := crypto.ParseDigest(r.PathValue("log"))
	if !ok || err != nil {
		refuse(rw, http.StatusNotFound, "no such checkpoint")
		return
	}
	note, err := finder.Find(r.Context(), log)
	switch {
	case err != nil:
		failed(rw)
	case note == nil:
		refuse(rw, http.StatusNotFound, "no such checkpoint")
	default:
		rw.Header().Set("Cache-Control", "no-cache")
		send(rw, http.StatusOK, "text/plain; charset=utf-8", note)
	}
}

func send(rw http.ResponseWriter, status int, kind string, body []byte, more ...byte) {
	rw.Header().Set("Content-Type", kind)
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	rw.Write(append(body, more...)) // if that fails, nobody is there to be told
}

func refuse(rw http.ResponseWriter, status int, why string) {
	send(rw, status, "text/plain; charset=utf-8", []byte(why), '\n')
}

// failed says nothing of the cause, which may be a path or of a key.
func failed(rw http.ResponseWriter) {
	refuse(rw, http.StatusInternalServerError, "the witness has failed: see its state, its signer and its clock")
}
