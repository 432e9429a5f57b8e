package witness

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	helmcrypto "github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
)

// A Witness cosigns checkpoints of logs. Set its fields, and do not change them after the first
// call. It is safe for concurrent use by multiple goroutines, and so may be several witnesses over
// one State. It must not be copied.
type Witness struct {
	// Name is that of the key in signature lines, such as witness.example.com/w1: 1 to 255 bytes of
	// UTF-8 without spaces, control characters and +.
	Name string

	// Key is an Ed25519 key that nothing else is signed with.
	Key crypto.Signer

	// Logs returns the verifier keys (name+hash+base64, type 0x01) that a log may sign with, or
	// none if the witness does not know the log.
	Logs func(origin string) []string

	// State keeps the latest checkpoints.
	State State

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu    sync.Mutex // protects the fields below
	ready *cosigner  // nil before the first call
	asked asker
}

// rounds is how often Add begins again because another note was swapped in meanwhile.
const rounds = 100

var errRounds = errors.New("witness: state: another note was there 100 times in a row")

// VerifierKey returns the key that the lines of the witness verify under: name+hash+base64, type
// 0x04. Those who rely on the witness configure it.
func (w *Witness) VerifierKey() (string, error) {
	c, _, err := w.begin()
	if err != nil {
		return "", err
	}
	return c.verifierKey(), nil
}

// begin returns what signs. It reads Name and the public key of Key, once.
func (w *Witness) begin() (*cosigner, asker, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready == nil {
		if w.Logs == nil || w.State == nil {
			return nil, nil, errors.New("witness: Logs and State are required")
		}
		c, err := newCosigner(w.Name, w.Key, w.Now)
		if err != nil {
			return nil, nil, err
		}
		w.ready, w.asked = c, make(asker, maxAsked)
	}
	return w.ready, w.asked, nil
}

// Add cosigns a checkpoint if it extends the latest one that was cosigned of its log. The caller
// names the size of that one in old, 0 if there is none, and proves by an RFC 6962 consistency
// proof that the note extends it; the proof is empty if old is 0 or the size of the note. A
// checkpoint of the same size gets a new line, with a new time.
//
// Add returns the signature line of the witness, with its line end. The refusals are, in this
// order:
//
//   - [ErrBadRequest]: [proofgraph.ParseCheckpoint] refuses the note
//   - [ErrUnknownLog]: Logs returns no key of its origin
//   - [ErrForbidden]: no signature by one of these keys
//   - [ErrBadRequest]: old is above the size
//   - [*Conflict]: old is not the size of the latest checkpoint
//   - [ErrUnprocessable]: another root of the same size, an empty log with another root than that
//     of no entries, a proof that does not hold or that is there and must not be
//
// Any other error is of the witness itself, and no line was returned. The state may then have the
// checkpoint, so ask again. If ctx ends, Add returns its error, unless the note is swapped in.
func (w *Witness) Add(ctx context.Context, old uint64, proof []contracts.Digest, note []byte) (
	lines []byte, err error) {
	c, ask, err := w.begin()
	if err != nil {
		return nil, err
	}
	next, signatures, err := proofgraph.ParseCheckpoint(note)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	keys, err := w.logKeys(next.Origin)
	if err != nil {
		return nil, err
	}
	body := bodyOf(next)
	good := signed(body, signatures, keys)
	if good == nil {
		return nil, ErrForbidden
	}
	if old > next.Size {
		return nil, fmt.Errorf("%w: the old size is above that of the checkpoint", ErrBadRequest)
	}
	for range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		last, err := w.latest(ctx, next.Origin)
		if err != nil {
			return nil, err
		}
		if old != last.Size {
			return nil, &Conflict{last.Size}
		}
		if !extends(next, last, proof) {
			return nil, ErrUnprocessable
		}
		line, err := c.line(ctx, body, ask)
		if err != nil {
			return nil, err
		}
		err = w.swap(ctx, next.Origin, last.Note, cosigned(body, good, line))
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, ErrChanged) {
			return nil, err
		}
	}
	return nil, errRounds
}

// extends reports whether the proof shows that a checkpoint extends the latest one, which is of the
// old size, and is the zero Checkpoint if there is none.
func extends(next, last proofgraph.Checkpoint, proof []contracts.Digest) bool {
	switch {
	case next.Size == 0 && next.Root != helmcrypto.Sum(nil):
		return false
	case last.Note != nil && last.Size == next.Size:
		return last.Root == next.Root && len(proof) == 0
	case last.Size == 0: // every log extends the empty one
		return len(proof) == 0
	}
	hashes := make(tlog.TreeProof, len(proof))
	for i, d := range proof {
		hashes[i] = tlog.Hash(d)
	}
	return tlog.CheckTree(hashes, int64(next.Size), tlog.Hash(next.Root), int64(last.Size), tlog.Hash(last.Root)) == nil
}

// cosigned returns the note with the lines of the log, and then that of the witness.
func cosigned(body []byte, good []proofgraph.SignatureLine, line []byte) []byte {
	b := append(append([]byte(nil), body...), '\n')
	for _, l := range good {
		b = cosign.AppendLine(b, l)
	}
	return append(b, line...)
}
