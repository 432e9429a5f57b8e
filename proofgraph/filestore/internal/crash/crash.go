// Package crash tests a file store by simulated and real crashes: of the process, of the disk, of
// the power.
//
// A kernel works over the store. Its calls and the effects of its tools are recorded outside of it.
// After the crash an audit opens the store and compares the log with the recorded events. The tests
// of package filestore set [Open] and [View] and call the functions that take a *testing.T.
package crash

import (
	"io"
	"testing"
	"time"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A Store is the store under test.
type Store interface {
	proofgraph.Store
	proofgraph.Eraser
	io.Closer
}

// Sizes are those of a store's files, in bytes. Zero is the store's own choice.
type Sizes struct{ Segment, Ahead int64 }

// The store under test, to be set before anything else of this package is used.
var (
	Open func(d disk.Disk, dir string, z Sizes) (Store, error)
	View func(d disk.Disk, dir string) (Store, error) // for reading only
)

// The suffixes of the store's files, and the kinds of its records. They are repeated here, so that
// a change of the format shows.
const (
	logKind   = ".log"
	indexKind = ".index"
	newKind   = ".new"

	hashesName = "hashes"
	stateName  = "state"

	kindBegin  = 'B'
	kindNext   = 'N'
	kindErased = 'X'
)

// overwritten is the beginning of the bytes of an erased blob.
var overwritten = [2]byte{kindErased, kindErased}

// everyChange says that the tests try one change of the disk in so many: fewer of them under the
// race detector, which makes everything slower, and with -short.
func everyChange() int {
	switch {
	case testing.Short():
		return 7
	case race.Enabled:
		return 5
	}
	return 1
}

// slowness is by how much the race detector slows the processes that are killed.
func slowness() time.Duration {
	if race.Enabled {
		return 5
	}
	return 1
}

// defaultKills is how many processes [Kill] kills unless a flag says otherwise.
func defaultKills() int {
	switch {
	case testing.Short():
		return 20
	case race.Enabled:
		return 40
	}
	return 200
}
