package witness

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

// A logKey is a key of a log.
type logKey struct {
	name   string
	hash   uint32
	public crypto.PublicKey
}

// parseLogKey parses a verifier key of type 0x01, Ed25519.
func parseLogKey(vkey string) (logKey, error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return logKey{}, errors.New("not a verifier key of Ed25519")
	}
	_, rest, _ := strings.Cut(vkey, "+")
	_, b64, _ := strings.Cut(rest, "+")
	b, err := crypto.DecodeBase64(nil, []byte(b64))
	if err != nil || len(b) == 0 {
		return logKey{}, errors.New("not a verifier key of Ed25519")
	}
	k := logKey{v.Name(), v.KeyHash(), b[1:]}
	return k, crypto.CheckPublicKey(k.public)
}

// logKeys returns the keys that the log may sign with. A key that is malformed is an error: the
// witness is not as it was meant to be.
func (w *Witness) logKeys(origin string) (keys []logKey, err error) {
	defer contain.Error(&err, "witness: Logs")
	for i, vkey := range w.Logs(origin) {
		k, err := parseLogKey(vkey)
		if err != nil {
			return nil, fmt.Errorf("witness: Logs: key %d of the log: %w", i, err)
		}
		keys = append(keys, k)
	}
	if keys == nil {
		return nil, ErrUnknownLog
	}
	return keys, nil
}

// maxLines is how many lines of the log are kept, so that there is a place for that of the witness.
const maxLines = 99

// signed returns the lines that verify, the first of each key, at most maxLines. All others are
// passed over, also if they name a key.
func signed(body []byte, lines []proofgraph.SignatureLine, keys []logKey) []proofgraph.SignatureLine {
	var good []proofgraph.SignatureLine
	taken := make([]bool, len(keys))
	for _, line := range lines {
		for i, k := range keys {
			if taken[i] || line.Name != k.name || line.KeyHash != k.hash {
				continue
			}
			if !crypto.Verify(k.public, body, line.Signature) {
				continue
			}
			taken[i] = true
			if good = append(good, line); len(good) == maxLines {
				return good
			}
			break
		}
	}
	return good
}
