package proofgraph

import (
	"context"
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
)

// A Shared is a [Store] that several logs write to at once, of this process and of others. Its
// Append returns [ErrShared]: it grows by its writers. What a reader sees is on stable storage.
//
// No process leads. An append is a guess or a turn. A guess ([Writer.Put]) is a batch that was made
// on what the process remembers of the log. The store compares this with what holds, and writes all
// of the batch or nothing. A turn ([Writer.Turn]) is for a batch that cannot be guessed: the store
// returns what holds, and the log is nobody else's until the batch is written ([Writer.End]).
// Indexes are no part of an entry, so neither needs to guess them.
type Shared interface {
	Store

	// Join returns a writer of the log with that origin. It begins the log, without entries, if
	// there is none.
	Join(ctx context.Context, origin string) (Writer, error)

	// Session returns the entries of a session from a seq on, in order. None is no error. The first
	// error is the last pair.
	Session(ctx context.Context, name string, from uint64) iter.Seq2[Placed, error]
}

// A Placed is an entry with its index.
type Placed struct {
	Index uint64
	Entry contracts.Entry
}

// A Writer appends to a [Shared] store for one process. It is for one goroutine at a time.
//
// If the context of a call ends while it waits for the log, nothing was written, and the call
// returns the context's error.
//
// Every method but Leave returns [ErrFenced] if another writer has found this one dead. Nothing of
// a fenced writer is written after the fence. If a method returns any other error than ErrMoved it
// is unknown what was written, and the writer is of no more use: Leave ends it, in any case. A
// context that had ended before the call, and a Change that contradicts itself or has a seq that
// its session has already, are such errors, but nothing was written.
type Writer interface {
	// ID returns the writer's number, which is never given twice.
	ID() uint64

	// Put writes a batch if the log is as guessed, and returns the index of the first of its
	// entries, when all of it is on stable storage. It returns ErrMoved, and has changed nothing,
	// if
	//
	//   - Guess.Kernel is another than the log's, or Next or Last of a session in Guess.Sessions,
	//     or a balance of Guess.Spent,
	//   - a nonce of Change.Used is used, or
	//   - a decision of Change.Settled is not open, or is of another writer that was not fenced and
	//     did not leave;
	//
	// and also if the batch was not written for another reason, and another try may succeed. A
	// decision of this writer that another one has settled is ErrFenced; one that it has settled
	// itself is not open.
	Put(ctx context.Context, guess State, c Change) (at uint64, err error)

	// Turn waits until the log is nobody else's, and returns what holds of it. It is followed by
	// End, in any case, and by no other call before that but Leave. After an error there is no
	// turn. A writer that hangs in its turn may be fenced.
	Turn(ctx context.Context, a Ask) (State, error)

	// End writes a batch and ends the turn, when all of the batch is on stable storage. Its first
	// entry has the index State.Size. The zero Change changes nothing and only ends the turn. It
	// returns ErrMoved, and has changed nothing, for the reasons of Put that are in the Change.
	// The turn ends with an error too.
	End(ctx context.Context, c Change) error

	// Dead fences the writers that are dead, and returns the indexes of all open decisions of
	// fenced writers and of those that left, ascending.
	Dead(ctx context.Context) ([]uint64, error)

	// Leave ends the writer. When it returns nil, nothing of the writer is written any more.
	Leave(ctx context.Context) error
}

// An Ask names what a turn asks for.
type Ask struct {
	Sessions []string
	Balances []contracts.Balance // Spent is not read
	Nonces   []string
}

// A State is what holds of a log, as far as it was asked for; or what a writer takes to hold.
type State struct {
	Size     uint64              // the number of entries, of a turn; no part of a guess
	Kernel   uint64              // the next seq of the session "", which has trust and policy entries
	Sessions map[string]End      // a session without entries has the zero End
	Spent    []contracts.Balance // in the order of Ask.Balances; 0 if nothing was charged
	Used     []string            // the nonces of Ask.Nonces that are used, in that order
}

// An End is where a session ends.
type End struct {
	Next    uint64           // seq of the next entry
	Last    contracts.Digest // hash of the last entry
	Lamport uint64           // of the last entry
	Time    contracts.Time   // of the last entry
	Open    int              // its decisions that have no receipt yet
	Closed  bool             // its last entry closed it
}

// A Change is a batch, and what the log holds after it.
type Change struct {
	// Batch is what is written. Its At is not read. Of two checkpoints the store keeps the one of
	// the larger size; of one size, the later one, unless the earlier one begins with it: then that
	// is the same one with lines of witnesses. Bytes that are no checkpoint are as one of size 0.
	Batch

	Of       []string            // the session of each entry of the batch; their seqs end before End.Next
	Sessions map[string]End      // of every session that the batch has an entry of
	Spent    []contracts.Balance // of every balance that it moves
	Used     []string            // nonces that it uses
	Opened   []int               // decisions that have to get a receipt, by their places in Batch.Entries, ascending
	Settled  []uint64            // earlier decisions that it has the receipts of, by their indexes, ascending
}

// The errors of a [Writer].
var (
	// ErrShared is returned by Append of a store that is a [Shared].
	ErrShared = errors.New("proofgraph: store: it is shared: its writers append, see Join")

	// ErrMoved is returned if nothing was written, since the log is not as guessed.
	ErrMoved = errors.New("proofgraph: store: the log is not as guessed: nothing was written")

	// ErrFenced is returned to a writer that another one has found dead. Its open decisions were
	// settled, or will be.
	ErrFenced = errors.New("proofgraph: store: another writer has found this one dead, and settled its calls")
)
