package witness

import (
	"fmt"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
)

// logKeys returns the keys that the log may sign with. A key that is malformed is an error: the
// witness is not as it was meant to be.
func (w *Witness) logKeys(origin string) (keys []cosign.Key, err error) {
	defer contain.Error(&err, "witness: Logs")
	for i, vkey := range w.Logs(origin) {
		k, err := cosign.ParseLogKey(vkey)
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
func signed(body []byte, lines []proofgraph.SignatureLine, keys []cosign.Key) []proofgraph.SignatureLine {
	var good []proofgraph.SignatureLine
	taken := make([]bool, len(keys))
	for _, line := range lines {
		for i, k := range keys {
			if taken[i] || !k.Names(line) || !crypto.Verify(k.Public, body, line.Signature) {
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
