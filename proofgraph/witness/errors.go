package witness

import (
	"errors"
	"fmt"
)

// The refusals of Add, in the order in which it looks for them. A [Conflict] comes before
// ErrUnprocessable. Any other error says that the witness itself has failed: its state, its signer,
// its clock, or what it was made with.
var (
	// ErrBadRequest is returned if the note is not a checkpoint, or the old size is above its size.
	ErrBadRequest = errors.New("witness: bad request")

	// ErrUnknownLog is returned if the witness knows no key of a log with that origin.
	ErrUnknownLog = errors.New("witness: unknown log")

	// ErrForbidden is returned if no known key of the log has signed the checkpoint.
	ErrForbidden = errors.New("witness: no signature by a known key of the log")

	// ErrUnprocessable is returned if the checkpoint does not extend the latest one as the proof
	// says. A log that signed it may have two histories: keep the note.
	ErrUnprocessable = errors.New("witness: the checkpoint does not extend the latest one")
)

// A Conflict is the error of a request whose old size is not that of the latest checkpoint.
type Conflict struct {
	Size uint64 // of the latest checkpoint; 0 if there is none
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("witness: the latest checkpoint has size %d", c.Size)
}
