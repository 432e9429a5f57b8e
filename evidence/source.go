package evidence

import (
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/evidence/internal/ustar"
)

// A source is what a log is verified in: a pack or a store. It says where bytes are and makes no claim of them: they are checked by those who read
// them, each time, for it may give others the second time.
type source interface {
	// lines gives the entries in order. It is not asked for twice, and may be ahead of those who fold what it gives. A fault is the last pair.
	lines() iter.Seq2[line, *Error]

	// total is how much there is of all lines, in bytes or whatever else they count as they are gone over.
	total() uint64

	// checkpoint is the signed note.
	checkpoint() ([]byte, *Error)

	// view makes a reader of single entries and blobs, with memory of its own.
	view() view

	// names notes that an entry names the blob of that number, and what as. It tells whether none did before, as far as is known.
	names(number int, as entry.Role) (first bool)

	// unreadable is the fault that a blob, or with nil the entries, could not be read.
	unreadable(blob *contracts.Digest, err error) *Error
}

// A line is an entry as it stands in a source, until the next one is read.
type line struct {
	bytes  []byte
	place  int64  // for a view
	behind uint64 // it, and what is before it, out of total
}

// noBlob is the number of a blob that is not there.
const noBlob = ustar.NotFound

// A view reads here and there in a source. What it gives is valid until it reads again.
type view interface {
	// line gives the nth entry after the one at a place.
	line(place int64, n int) ([]byte, error)

	// blob gives bytes that are said to be a blob's, and its number; noBlob where there is none, errLong where it is longer than any may be.
	blob(d contracts.Digest) ([]byte, int, error)
}
