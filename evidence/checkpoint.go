package evidence

import (
	"errors"

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

// by reports whether a line names one of the keys, and whether it is by that key.
func (c *signed) by(l proofgraph.SignatureLine, keys []crypto.PublicKey) (claimed, valid bool) {
	for _, k := range keys {
		if c.Names(l, k) {
			return true, c.SignedBy(l, k)
		}
	}
	return false, false
}
