package proofgraph

import (
	"context"
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
)

// A Batch is the entries, blobs and checkpoint that become durable together.
type Batch struct {
	At         uint64            // the index of its first entry, which is the store's size before it
	Entries    []contracts.Entry // may be empty
	Blobs      [][]byte          // each named by its SHA-256; durable no later than the entries
	Checkpoint []byte            // replaces the one before it; nil keeps that
}

// A Store keeps the entries of one log, the blobs that they name and the latest checkpoint. It does
// not read what they say. It is safe for concurrent use by multiple goroutines, and readers see
// whole batches.
//
// A Store returns bytes that the caller may change, and copies those that it is given, because a
// [Log] reuses them. Every method checks its context before it does anything, and then returns the
// context's error. After a store was closed, every method returns an error that is neither
// ErrNoBlob nor ErrConflict, since those say something of the log. Package helmtest tests all of
// this.
//
// A Store may be a [tlog.HashReader] of the RFC 6962 hashes of its log, of as many entries as Size
// returns. Proofs are then made in a few reads, and without it by a pass over the entries. The
// hashes are checked before a proof is returned.
type Store interface {
	// Append writes all of a batch or nothing, and returns nil when it is on stable storage. It
	// returns ErrConflict if the batch is not At the end. After any other error it is unknown what
	// was stored, until the store is opened again and asked for its Size.
	Append(ctx context.Context, b Batch) error

	// Size returns the number of entries.
	Size(ctx context.Context) (uint64, error)

	// Entries returns the entries with indexes from ≤ i < to, in order. A range beyond Size, or
	// with from > to, is an error. The first error is the last pair.
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]

	// Blob returns the bytes whose SHA-256 is d, or ErrNoBlob.
	Blob(ctx context.Context, d contracts.Digest) ([]byte, error)

	// Checkpoint returns the latest checkpoint, or nil if there is none.
	Checkpoint(ctx context.Context) ([]byte, error)
}

// An Eraser is a [Store] that can erase a blob while the log stays as it is, for instance because a
// person has a right to have it erased.
type Eraser interface {
	// EraseBlob permanently removes the blob with digest d. After it returns nil, Blob returns
	// ErrNoBlob, also after a crash, and nothing in which the store keeps the log contains the
	// bytes. Erasing an absent blob is not an error. After an error it is unknown whether the blob
	// is still there, whole. A blob that is appended again afterwards is there again.
	EraseBlob(ctx context.Context, d contracts.Digest) error
}

// A Condenser is a [Store] that can let go of entries. A stub ([contracts.Stub]) takes the place of
// each in Entries, so that every leaf hash stays.
type Condenser interface {
	// Condense puts stubs, pairs of an index and a line in ascending order, in the place of the
	// entries at those indexes, and forgets blobs. Each line must be the stub of the entry in its
	// place. An entry of which there is a stub already stays as it is, and to forget an absent blob
	// is not an error.
	//
	// A blob that is appended after Condense was called stays, even if the store had it before.
	// Other calls go on meanwhile. The sequences may make some, but for Condense and Close. Each
	// sequence is used at most once, in any order, and a line is copied before the next one is
	// asked for.
	//
	// After nil all of it is durable. After an error, and after a crash, each of the entries is
	// itself or its stub, each of the blobs is there or not, and the store goes on: if Condense is
	// called again, it does the rest.
	//
	// The blobs go first: before one of the stubs can be read, or is durable, all blobs are
	// forgotten, but for those that came to the store in a batch of whose entries none is a stub.
	// Stubs do not name blobs, so a process that goes on after a crash finds what is still to be
	// forgotten in the entries that are left.
	Condense(ctx context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest]) error
}

// A Rememberer is a [Store] that keeps a state: one value next to the log, from which a log can be
// opened without reading what is before it. It is no part of the log, of a copy of it or of a pack.
// A state that is lost costs time and nothing else.
type Rememberer interface {
	// SaveState replaces the state. When it returns nil that is durable. After an error, and after
	// a crash, the state is this one, whole, or still the one before. An empty state is none. Other
	// calls go on meanwhile.
	SaveState(ctx context.Context, state []byte) error

	// State returns the state that was saved last, or nil if there is none. If the store has other
	// bytes by now, it returns an error, and Append and SaveState go on.
	State(ctx context.Context) ([]byte, error)
}

// The errors of a [Store] that say something of the log.
var (
	// ErrConflict is returned by Append if the batch does not begin at the end of the log.
	ErrConflict = errors.New("proofgraph: store: the batch does not begin at the end: the store has another writer")

	// ErrNoBlob is returned by Blob if the store does not have the blob, or has erased it.
	ErrNoBlob = errors.New("proofgraph: store: no blob of that digest")

	// ErrDamaged is returned by Blob if what the store has is not the blob any more. Append then
	// stores the blob again.
	ErrDamaged = errors.New("proofgraph: store: the blob is damaged")
)
