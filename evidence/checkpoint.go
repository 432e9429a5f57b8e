package evidence

import (
	"errors"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
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

// level returns Logged if a log key of the trust state signed the checkpoint, else Intact. The
// first line alone may be by such a key.
func (c *signed) level(state *registry.State) (Level, *Error) {
	bad := func(what string) (Level, *Error) { return Invalid, newError(ErrCheckpoint, "signature", what) }
	keys := state.Keys(registry.Log, c.Size)
	level := Intact
	for i, l := range c.lines {
		claimed, valid := c.by(l, keys)
		switch {
		case !claimed:
		case !valid:
			return bad("a line of a log key does not verify")
		case i > 0 && level == Intact:
			return bad("a line of a log key is not the first")
		default:
			level = Logged
		}
	}
	return level, nil
}
