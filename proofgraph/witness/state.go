package witness

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

// A State keeps the latest checkpoint of each log for a [Witness], which calls it from multiple
// goroutines. A witness that forgets may cosign two histories of a log: never begin with an empty
// state under a key that has signed before.
type State interface {
	// Latest returns the note that was swapped in last for the log, or nil if there is none. If it
	// cannot tell, it returns an error.
	Latest(ctx context.Context, origin string) ([]byte, error)

	// Swap replaces the note was with the note now. It compares and replaces atomically, and the
	// new note is durable before it returns nil. A nil was means that there is no note. If another
	// note is there, Swap changes nothing and returns an error that wraps ErrChanged. After any
	// other error either note may be there.
	Swap(ctx context.Context, origin string, was, now []byte) error
}

// ErrChanged is the error of a [State] whose Swap finds another note.
var ErrChanged = errors.New("witness: state: another note is there")

func (w *Witness) latest(ctx context.Context, origin string) (c proofgraph.Checkpoint, err error) {
	defer contain.Error(&err, "witness: state: Latest")
	note, err := w.State.Latest(ctx, origin)
	if err != nil {
		return c, fmt.Errorf("witness: state: %w", err)
	}
	if note == nil {
		return c, nil
	}
	c, _, err = proofgraph.ParseCheckpoint(note)
	if err != nil {
		return c, fmt.Errorf("witness: state: the latest note: %w", err)
	}
	if c.Origin != origin {
		return c, errors.New("witness: state: the latest note is of another log")
	}
	return c, nil
}

func (w *Witness) swap(ctx context.Context, origin string, was, now []byte) (err error) {
	defer contain.Error(&err, "witness: state: Swap")
	if err := w.State.Swap(ctx, origin, was, now); err != nil {
		return fmt.Errorf("witness: state: %w", err)
	}
	return nil
}
