// Package lastseen judges a log by a checkpoint of it that was kept elsewhere. Only memory outside
// of a store can show that the store lost the log's end, or that an older copy was put back.
//
// The log must have the size of the checkpoint or more, and its first entries the checkpoint's
// root. The caller vouches for the checkpoint, so none of its lines need be by a key that is known.
// But a line that names a log key of the log's trust state after the checkpoint's last entry must
// verify: one that does not was changed, or is not of this log. Keys that were revoked by then are
// not of that state, nor are those that were added later: a line that names one is a stranger's.
// The kernel judges its last checkpoint so, and a verifier judges the one that it saw.
package lastseen

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Compare reports whether c is of a log whose first c.Size entries have that root, and leave the
// trust in that state. The error is of a line that names a log key and does not verify.
func Compare(
	c proofgraph.Checkpoint, lines []proofgraph.SignatureLine, root contracts.Digest, state *registry.State,
) (same bool, err error) {
	keys := state.Keys(registry.Log, c.Size)
	for _, line := range lines {
		for _, key := range keys {
			if c.Names(line, key) && !c.SignedBy(line, key) {
				return false, errors.New("a line of a log key does not verify: " +
					"it was changed since it was kept, or is not of this log")
			}
		}
	}
	return c.Root == root, nil
}

// A Checkpoint is one that was kept, with the log that must extend it as far as it was read. Every
// log extends a nil one.
type Checkpoint struct {
	proofgraph.Checkpoint
	lines []proofgraph.SignatureLine
	tree  proofgraph.Tree // of the entries so far, at most Size of them
	done  bool            // the log was compared with it
	err   error           // why the log does not extend it
}

// Parse reads a checkpoint of the log of that name. No note is no checkpoint, and an empty one is
// an error: a file that was lost must not pass for none.
func Parse(note []byte, origin string) (*Checkpoint, error) {
	if note == nil {
		return nil, nil
	}
	c, lines, err := proofgraph.ParseCheckpoint(note)
	if err != nil {
		return nil, err
	}
	if c.Origin != origin {
		return nil, fmt.Errorf("a checkpoint of the log %s, and this is %s", c.Origin, origin)
	}
	return &Checkpoint{Checkpoint: c, lines: lines}, nil
}

// Begin returns an error if a log of that size, of which nothing was read, cannot extend the
// checkpoint. Nothing may be written before, because an empty store would begin a log.
func (c *Checkpoint) Begin(size uint64, initial *registry.State) error {
	if c == nil {
		return nil
	}
	if size < c.Size {
		return fmt.Errorf("the store has %d entries, and the checkpoint is of %d: the log lost its end, "+
			"or an older copy was put back, on which approvals, keys and budgets would be used again: "+
			"put back what has them all", size, c.Size)
	}
	c.tree, c.done, c.err = proofgraph.Tree{}, false, nil
	c.reached(initial)
	return c.err
}

// Resume sets the entries so far to those of tree, of which none are read. If there are more than
// the checkpoint is of, root returns the root at its size. The state is the one after them.
func (c *Checkpoint) Resume(
	tree proofgraph.Tree, root func(size uint64) (contracts.Digest, error), state *registry.State,
) error {
	switch {
	case c == nil || c.done:
		return nil
	case tree.Size() < c.Size:
		c.tree = tree
		return nil
	}
	r, err := root(c.Size)
	if err != nil {
		return err
	}
	c.compare(r, state)
	return nil
}

// Compare compares the checkpoint with a log that was not read. It has that root at the size of the
// checkpoint. The state is a later one than that there.
func (c *Checkpoint) Compare(root contracts.Digest, state *registry.State) error {
	c.compare(root, state)
	return c.err
}

// Add reads the next entry of the log. The state is the one after it.
func (c *Checkpoint) Add(hash contracts.Digest, state *registry.State) {
	if c == nil || c.done {
		return
	}
	c.tree.Append(hash)
	c.reached(state)
}

// reached compares the log with the checkpoint, if it has its size.
func (c *Checkpoint) reached(state *registry.State) {
	if c.tree.Size() == c.Size {
		c.compare(c.tree.Root(), state)
	}
}

// compare compares the checkpoint with the log, which has that root at its size. The state is the
// one there or a later one: that says of each key what it was at an earlier index.
func (c *Checkpoint) compare(root contracts.Digest, state *registry.State) {
	c.done = true
	same, err := Compare(c.Checkpoint, c.lines, root, state)
	if err == nil && !same {
		err = fmt.Errorf("the first %d entries are not those of the checkpoint: "+
			"the store has another history of this log: put back the one that has them", c.Size)
	}
	c.err = err
}

// Err returns an error if the log, all of which was read, does not extend the checkpoint.
func (c *Checkpoint) Err() error {
	if c == nil {
		return nil
	}
	if !c.done {
		return fmt.Errorf("%d entries were read, and the checkpoint is of %d", c.tree.Size(), c.Size)
	}
	return c.err
}
