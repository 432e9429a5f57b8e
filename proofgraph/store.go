package proofgraph

import (
	"context"
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
)

// A Batch is what becomes durable together.
type Batch struct {
	At         uint64            // the index of its first entry, which is the store's size before it
	Entries    []contracts.Entry // may be empty
	Blobs      [][]byte          // each named by its SHA-256; durable no later than the entries
	Checkpoint []byte            // takes the place of the one before it; nil leaves that
}

// A Store keeps the entries of one log, the blobs that they name and the latest checkpoint. It knows nothing of what they say. It is safe
// for concurrent use by multiple goroutines, and readers see whole batches. Bytes that it returns are the caller's; of those that it is
// given it keeps copies, for a [Log] uses them again. Every method honours its context before it does anything: the error is then the
// context's. Of a store that can be closed everything is an error afterwards, neither ErrNoBlob nor ErrConflict, which say something of
// the log. Package helmtest has all of this as tests.
type Store interface {
	// Append writes all of a batch or nothing, and returns nil when it is on stable storage. A batch that is not At the end is ErrConflict.
	// After any other error what was stored is unknown, until Size is asked of a store opened anew.
	Append(ctx context.Context, b Batch) error

	// Size is the number of entries.
	Size(ctx context.Context) (uint64, error)

	// Entries gives those with indexes from ≤ i < to, in order; a range beyond Size, or with from > to, is an error. The first error is the last pair.
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]

	// Blob gives the bytes whose SHA-256 is d, or ErrNoBlob.
	Blob(ctx context.Context, d contracts.Digest) ([]byte, error)

	// Checkpoint gives the latest one, nil where there is none.
	Checkpoint(ctx context.Context) ([]byte, error)
}

// An Eraser is a [Store] that can forget a blob: what somebody else has a right to have forgotten, while the log stays as it is.
type Eraser interface {
	// EraseBlob erases the blob whose SHA-256 is d. When it returns nil, no read of the store gives the bytes any more, after a crash
	// neither, and nothing in which it keeps the log has them; Blob says ErrNoBlob. So it does of a blob that is not there: that is no error.
	// After an error it is not known whether the blob is there, whole. One that is appended afterwards is there again.
	EraseBlob(ctx context.Context, d contracts.Digest) error
}

var (
	ErrConflict = errors.New("proofgraph: store: the batch does not begin at the end: somebody else writes to this store")
	ErrNoBlob   = errors.New("proofgraph: store: no blob of that digest")
)
