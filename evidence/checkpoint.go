package evidence

import (
	"errors"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// maxNote is the largest size of a signed note in bytes, as in package note.
const maxNote = 1_000_000

// signed is a checkpoint with its signature lines, none of them verified.
type signed struct {
	proofgraph.Checkpoint
	lines []proofgraph.SignatureLine
}

func parseSigned(b []byte) (*signed, error) {
	if len(b) > maxNote {
		return nil, errors.New("longer than 1,000,000 bytes")
	}
	c, lines, err := proofgraph.ParseCheckpoint(b)
	if err != nil {
		return nil, err
	}
	return &signed{c, lines}, nil
}

// by reports whether a line claims to be by one of the keys under the name of the log, and whether
// it is.
func (c *signed) by(l proofgraph.SignatureLine, keys []crypto.PublicKey) (claimed, valid bool) {
	for _, k := range keys {
		v, err := note.NewVerifier(proofgraph.VerifierKey(c.Origin, k))
		if err == nil && l.Name == v.Name() && l.KeyHash == v.KeyHash() {
			return true, c.SignedBy(l, k)
		}
	}
	return false, false
}
