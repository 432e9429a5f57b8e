package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/auth"
)

// own says what a report is worth that a kernel makes of its own log.
const own = "The kernel says this about itself, by keys and a trust state that it names itself. " +
	"It proves nothing to whom does not trust it: verify a pack elsewhere, under a trust state from another source."

// A verifier keeps the last report, which is of one checkpoint. One request has it at a time: it is
// there while turn has a place.
type verifier struct {
	turn   chan struct{}
	note   []byte
	report evidence.Report
}

// A verified log is what is told of it.
type verified struct {
	About  string          `json:"about"`
	Report evidence.Report `json:"report"`
	Text   string          `json:"text"`
}

// verify answers with what the verifier says of the log, up to its latest checkpoint.
func (a *reading) verify(w http.ResponseWriter, r *http.Request) {
	report, err := a.verified(r.Context())
	switch {
	case errors.Is(err, errNoCheckpoint):
		absent(w, r, noCheckpoint)
	case err != nil:
		unavailable(w, r, unreadable)
	default:
		auth.Answer(w, verified{own, report, report.String()})
	}
}

var errNoCheckpoint = errors.New("api: no checkpoint")

// verified returns the report of the latest checkpoint: the one that is kept, or a new one.
func (a *reading) verified(ctx context.Context) (report evidence.Report, err error) {
	done, err := take(ctx, a.verifier.turn)
	if err != nil {
		return report, err
	}
	defer done()
	note, err := a.store.Checkpoint(ctx)
	switch {
	case err != nil:
		return report, err
	case len(note) == 0:
		return report, errNoCheckpoint
	}
	v := &a.verifier
	if !bytes.Equal(v.note, note) {
		report, err = evidence.VerifyStore(ctx, a.store, evidence.Options{Trust: a.kernel.Trust()})
		if err != nil && report.Fault != nil && !errors.Is(err, evidence.ErrStore) {
			return report, nil // the answer is that the log is at fault
		}
		if err != nil {
			return report, err
		}
		v.note, v.report = report.Checkpoint, report
	}
	report = v.report
	size, err := a.store.Size(ctx)
	report.Behind = size - report.Size
	return report, err
}

// checkpoint answers with the latest checkpoint of the log.
func (a *reading) checkpoint(w http.ResponseWriter, r *http.Request) {
	note, err := a.store.Checkpoint(r.Context())
	switch {
	case err != nil:
		unavailable(w, r, unreadable)
	case len(note) == 0:
		absent(w, r, noCheckpoint)
	default:
		writeNote(w, note)
	}
}

const noCheckpoint = "there is no checkpoint yet"

// writeNote answers with a signed note.
func writeNote(w http.ResponseWriter, note []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(note) // a client that is gone
}
