package helmtest

import (
	"testing"

	"github.com/helmkernel/helm/proofgraph"
)

// Store tests that a store keeps the contract of [proofgraph.Store], and of [proofgraph.Eraser],
// [proofgraph.Condenser], [proofgraph.Rememberer] and [golang.org/x/mod/sumdb/tlog.HashReader] if
// it is one. Each promise is a subtest with its name.
//
// place is called once for each promise. It makes a new, empty place to keep a log in, and returns
// a function that opens the store there. That function is called again to see whether everything
// that was acknowledged is found: by another process, as far as the store can tell. Both run in the
// goroutine of the subtest, so they may call t.Fatal on errors. place removes what it makes with
// t.Cleanup.
//
// If the store is an [io.Closer], it is open once at a time: it is closed before it is opened
// again, and at the end. Otherwise it may be open more than once, and everyone who has it open
// appends to one log. For a store that is both, make a second test that hides the method:
// struct{ proofgraph.Store }{s}.
func Store(t *testing.T, place func(t *testing.T) (open func() proofgraph.Store)) {
	t.Helper()
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) { p.test(begin(t, place(t), testing.Short())) })
	}
}

// A promise is one thing that users of a store depend on.
type promise struct {
	name string
	test func(t *trial)
}

var promises = []promise{
	{"a new store is empty", newIsEmpty},
	{"an empty batch changes nothing", emptyBatch},
	{"entries keep their order", order},
	{"entries, blobs and checkpoints are any bytes", anyBytes},
	{"a batch is as big as a log makes them", bigBatch},
	{"a batch that does not begin at the end is ErrConflict and changes nothing", conflicts},
	{"of those who append at one place one wins", oneWins},

	{"any range of entries is read", ranges},
	{"a range beyond the end is an error and no entry", beyond},
	{"an iteration can be left", left},
	{"the store can be used during an iteration", during},
	{"readers see whole batches", wholeBatches},

	{"a blob has the name of its bytes", blobs},
	{"a blob that is not there is ErrNoBlob", noBlob},
	{"a checkpoint stays until the next", checkpoints},

	{"bytes that it is given are copied", given},
	{"bytes that it gives are the caller's", got},

	{"a context that has ended is honoured", ended},
	{"a context that ends during an append leaves all of the batch or nothing", endsInAppend},
	{"a context that ends during an iteration ends it", endsInIteration},

	{"what was acknowledged is found when it is opened again", again},
	{"all who have it open append to one log", shared},
	{"closed, it says so", closed},
	{"closing loses nothing that was acknowledged", closing},

	{"a blob that was erased is gone, and nothing else", erases},
	{"a blob that is appended after it was erased is there again", erasesAgain},
	{"who may not erase erases nothing", erasesNothing},
	{"what is erased while others append and read is whole or gone", erasesBeside},

	{"stubs are in the place of entries that were condensed, and nothing else changes", condenses},
	{"a blob that is appended while the store condenses stays", condensesNotWhatComes},
	{"condensing that is refused, or ended, leaves entries or their stubs", condensesNothingElse},
	{"blobs are forgotten before the last entry that may name them is a stub", condensesBlobsFirst},
	{"what is condensed while others append and read is itself or its stub", condensesBeside},

	{"a state stays until the next, and nothing else changes", remembers},
	{"who may not save a state saves nothing", remembersNothing},
	{"a state that is saved while others append and read is whole", remembersBeside},

	{"hashes are those of the log's tree", readsHashes},
	{"hashes are right while others append", readsHashesBeside},

	{"random operations leave what a model has", model},
}
