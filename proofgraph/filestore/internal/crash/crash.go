// Package crash tests a file store by what a crash leaves: of the process, of the disk, of the
// power.
//
// A kernel works over the store, its tools and its answers are recorded outside of it, and whatever
// happens then, an audit holds the records against the log that is found. The tests of package
// filestore set [Open] and [View] and call the functions that take a *testing.T.
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

// What the files of the store are called, and how what is written to them begins. The names are
// given again here, so that a change of the format shows.
const (
	logKind   = ".log"
	indexKind = ".index"
	newKind   = ".new"

	kindBegin  = 'B'
	kindNext   = 'N'
	kindErased = 'X'
)

// overwritten is what the bytes of an erased blob begin with.
var overwritten = [2]byte{kindErased, kindErased}

// The tests look at one change of the disk in everyChange, and kill so many processes: less under
// the race detector, which makes everything slower, and with -short.
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

func defaultKills() int {
	switch {
	case testing.Short():
		return 20
	case race.Enabled:
		return 40
	}
	return 200
}
