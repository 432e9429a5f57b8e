package helmtest

import (
	"testing"

	"github.com/helmkernel/helm/proofgraph"
)

// Shared tests that a store keeps the contract of [proofgraph.Shared] and of its writers. Each
// promise is a subtest with its name. Those of a store, see [Store], are among them: in their place
// of Append is a turn.
//
// place is called once for each promise. It makes a new, empty place to keep a log in, and returns
// a function that opens the store there. That function is called again for another process, while
// the first has the store open, and to see whether everything that was acknowledged is found. A
// store that is an [io.Closer] is closed at the end.
//
// How a writer dies is the store's. If its writers have a method Kill(), place lets it do what the
// end of a process does: when Kill returns, Dead of another writer finds this one dead, and its
// turn has ended with nothing written. It may be called during another call of the writer. What
// the writer writes after it and before Dead is the store's choice. Without the method the promises
// about dead writers are skipped.
//
// Shared fails if a promise takes more than five minutes.
func Shared(t *testing.T, place func(t *testing.T) (open func() proofgraph.Shared)) {
	t.Helper()
	for _, p := range sharedPromises {
		t.Run(p.name, func(t *testing.T) { p.test(beginShared(t, place(t), testing.Short())) })
	}
	t.Run("as a store", func(t *testing.T) {
		Store(t, func(t *testing.T) func() proofgraph.Store { return appenders(t, place(t)) })
	})
}

// A killer is a writer that can die as its process would.
type killer interface{ Kill() }

// A sharedPromise is one thing that logs over a shared store depend on.
type sharedPromise struct {
	name string
	test func(t *sharedTrial)
}

var sharedPromises = []sharedPromise{
	{"a log is begun without entries", beginsEmpty},
	{"Append is ErrShared and changes nothing", appendIsErrShared},
	{"a writer's number is never used again", numbers},

	{"a right guess is written whole", rightGuess},
	{"a guess that is wrong in any part is ErrMoved and changes nothing", wrongGuess},
	{"a change that contradicts itself or the log changes nothing", contradicts},

	{"a turn returns what it was asked, in order", turnAnswers},
	{"the zero change ends a turn and changes nothing", zeroChange},
	{"the change of a turn is whole or not there", wholeTurn},
	{"turns exclude each other", turnsExclude},
	{"a put waits for another writer's turn", putWaits},
	{"a reader waits for no turn", readsInTurn},

	{"writers that put and take turns at once leave no hole", atOnce},
	{"of writers that settle one decision one does", oneSettles},

	{"a session is read from any seq", readsSession},
	{"a session is read while others append", readsSessionBeside},
	{"the larger checkpoint stays", largerStays},

	{"bytes of a change are copied", givenToWriters},
	{"bytes of a session are the caller's", gotFromSession},

	{"a context that has ended is honoured by writers", endedForWriters},
	{"a context that ends while a writer waits for the log ends that", endsInWait},
	{"a context that ends during a put leaves all of it or nothing", endsInPut},

	{"what writers wrote is found when it is opened again", writersAgain},
	{"open decisions of writers that left are found", leaves},
	{"a writer that lives is not fenced", lives},
	{"a dead writer is fenced, and its open decisions are found", dies},
	{"a fenced writer changes nothing", fenced},
	{"what a writer puts while it dies is found or was not written", diesWhilePutting},
}
