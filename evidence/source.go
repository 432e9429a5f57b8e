package evidence

import (
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
)

// A source is where a log is verified: a pack or a store. It finds bytes and makes no claim about
// them. Their readers check them, each time, because it may return other bytes the second
// time.
type source interface {
	// lines returns the entries in order. It is called once. It may be ahead of the fold. A fault
	// is the last pair.
	lines() iter.Seq2[line, *Error]

	// total is the size of all lines, in bytes or in another unit that line.end has too.
	total() uint64

	// checkpoint is the signed note.
	checkpoint() ([]byte, *Error)

	// view returns a reader of single entries and blobs, with memory of its own.
	view() view

	// names notes that an entry names the blob of that number in a role.
	names(number int, as entry.Role)

	// unreadable returns the fault that a blob or, if it is nil, the entries could not be read.
	unreadable(blob *contracts.Digest, err error) *Error
}

// A line is an entry in a source. It is valid until the next one is read.
type line struct {
	bytes []byte
	place int64  // for a view
	end   uint64 // the size of all lines to here, out of total
}

// noBlob is the number of a blob that is not there.
const noBlob = ustar.NotFound

// A view reads at any place of a source. Its bytes are valid until it reads again.
type view interface {
	// line returns the nth entry after the one at a place.
	line(place int64, n int) ([]byte, error)

	// run returns n entries from the one on that is skip entries after a place. An error is the
	// last pair.
	run(place int64, skip, n int) iter.Seq2[[]byte, error]

	// blob returns bytes that are said to be a blob's, and its number, or noBlob if it is not
	// there. If the blob is longer than any may be, the error is errLong.
	blob(d contracts.Digest) ([]byte, int, error)
}
