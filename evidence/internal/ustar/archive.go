package ustar

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A Kind is a kind of archive. Its first members have one of some lists of names, in order; blobs
// follow.
type Kind struct {
	name  string
	lists [][]string
}

// The kinds that there are. Each begins with another name.
var (
	Pack    = Kind{"a pack", [][]string{Members[:]}}
	Excerpt = Kind{"an excerpt", [][]string{Call, Denial}}
)

// Members are the names of the first members of a pack.
var Members = [...]string{Manifest: "manifest.json", Checkpoint: "checkpoint", Entries: "entries.jsonl"}

// Indexes of Members.
const (
	Manifest = iota
	Checkpoint
	Entries
)

// Call and Denial are the names of the first members of an excerpt, of a call that was allowed and
// of one that was denied.
var (
	Call   = []string{"checkpoint", "decision", "decision.proof", "receipt", "receipt.proof"}
	Denial = []string{"checkpoint", "receipt", "receipt.proof"}
)

// BlobPrefix is the name of a blob's member before its digest in hex.
const BlobPrefix = "blobs/"

// An Extent is the place of a member's content.
type Extent struct{ At, Size int64 }

// An Archive is a directory of the members of an archive. A blob takes 8 bytes of it; the rest of
// its name is read from its header again.
type Archive struct {
	Names   []string         // of Members
	Members []Extent         // the first ones
	Blobs   []uint64         // in order of names: prefixBits of the name, then the block of the header
	Bytes   uint64           // of all blobs
	Root    contracts.Digest // of the Merkle tree over the names of the blobs
}

const (
	blockBits  = 40 // 512 TiB
	prefixBits = 64 - blockBits
)

// NotFound is the number of a blob that is not in the archive.
const NotFound = -1

// ErrChanged is what an archive is whose headers are not those that Open read.
var ErrChanged = errors.New("it changed while it was read")

// An Error says in which member Open found a fault.
type Error struct {
	Field string // a member, "blobs" if the name of the blob is not known, "end", or ""
	What  string
	Err   error // of the reader; nil if it read
}

func (e *Error) Error() string { return e.Field + ": " + e.What }

// Open reads all headers and all padding of an archive of that kind. Its errors are *Error or that
// of ctx.
func Open(ctx context.Context, w *Window, kind Kind) (*Archive, error) {
	o := opening{w: w, kind: kind, lists: slices.Clone(kind.lists)}
	for end := false; !end; {
		err := ctx.Err()
		if err == nil {
			end, err = o.member()
		}
		if err != nil {
			return nil, err
		}
	}
	if o.first() {
		return nil, &Error{Field: o.lists[0][o.count], What: "it is missing"}
	}
	o.Names = o.lists[0]
	switch b, err := w.Get(o.at+Block, Block); {
	case err != nil:
		return nil, o.short("end", o.at+2*Block, err)
	case !zero(b):
		return nil, &Error{Field: "end", What: "it does not end in two zero blocks"}
	case o.at+2*Block != w.size:
		return nil, &Error{Field: "end", What: fmt.Sprintf("%d bytes follow it", w.size-o.at-2*Block)}
	}
	o.Blobs = slices.Clip(o.Blobs)
	o.Root = o.names.Root()
	return &o.Archive, nil
}

// An opening is a run of Open.
type opening struct {
	Archive
	w     *Window
	kind  Kind
	lists [][]string // those of the kind that begin with the names so far
	at    int64      // of the next header
	count int        // members before it
	names proofgraph.Tree
	last  []byte // the name of the last blob
}

// member reads the next member, and reports whether there is a zero block in its place.
func (o *opening) member() (end bool, err error) {
	if o.at == 0 {
		if b, err := o.w.Get(0, int(min(o.w.size, Block))); err == nil && o.kind.foreign(b) != "" {
			return false, &Error{What: o.kind.foreign(b)}
		}
	}
	b, err := o.w.Get(o.at, Block)
	if err != nil {
		return false, o.short(o.field(nil), o.at+Block, err)
	}
	h := (*[Block]byte)(b)
	if *h == Zeros {
		return true, nil
	}
	name, size, ok := ParseHeader(h)
	switch {
	case !ok:
		return false,
			&Error{Field: o.field(nil), What: fmt.Sprintf("the header at byte %d is not the one that its "+
				"name and size have: %s is verified as it was written, not packed anew", o.at, o.kind.name)}
	case o.first() && !o.next(string(name)):
		what := "it is not the next member"
		if o.count == 0 {
			what += o.kind.other(name)
		}
		return false, &Error{Field: o.lists[0][o.count], What: what}
	case o.first():
		o.Members = append(o.Members, Extent{o.at + Block, size})
	default:
		if err := o.blob(name, size); err != nil {
			return false, err
		}
	}
	o.at += Block + size
	pad, err := o.w.Get(o.at, int(Padding(size)))
	if err != nil {
		return false, o.short(o.field(o.last), o.at+Padding(size), err)
	}
	if !zero(pad) {
		return false, &Error{Field: o.field(o.last), What: "padding is not zero"}
	}
	o.at += int64(len(pad))
	o.count++
	return false, nil
}

// first reports whether the next member is one of the first ones.
func (o *opening) first() bool { return o.count < len(o.lists[0]) }

// next reports whether a list goes on with that name, and leaves those that do.
func (o *opening) next(name string) bool {
	others := func(list []string) bool { return o.count >= len(list) || list[o.count] != name }
	left := slices.DeleteFunc(slices.Clone(o.lists), others)
	if len(left) == 0 {
		return false
	}
	o.lists = left
	return true
}

// blob adds the blob whose header is at o.at.
func (o *opening) blob(member []byte, size int64) error {
	name, ok := BlobName(member)
	if !ok || bytes.Compare(o.last, name[:]) >= 0 {
		return &Error{Field: o.field(nil), What: fmt.Sprintf("the member at byte %d is not the next blob", o.at)}
	}
	if o.at/Block >= 1<<blockBits {
		return &Error{Field: o.field(name[:]), What: "beyond 512 TiB"}
	}
	o.last = append(o.last[:0], name[:]...)
	o.Blobs = append(o.Blobs, prefixOf(name)|uint64(o.at/Block))
	o.Bytes += uint64(size)
	o.names.Append(crypto.LeafHash(name[:]))
	return nil
}

// short is the error that the bytes before an offset cannot be read.
func (o *opening) short(field string, end int64, err error) error {
	what, cause := o.kind.unreadable(o.w.size, end, err)
	return &Error{field, what, cause}
}

// field returns the name that errors use for the member at hand, or for the blobs if it is not
// known which.
func (o *opening) field(blob []byte) string {
	switch {
	case o.first():
		return o.lists[0][o.count]
	case blob == nil:
		return "blobs"
	}
	return BlobPrefix + hex.EncodeToString(blob)
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Place returns the offset of a blob's header.
func (a *Archive) Place(i int) int64 { return int64(a.Blobs[i]&(1<<blockBits-1)) * Block }

// NameAt returns the name of a blob as its header has it now.
func (a *Archive) NameAt(i int, w *Window) (contracts.Digest, bool) {
	h, err := w.Get(a.Place(i), Block)
	if err != nil {
		return contracts.Digest{}, false
	}
	return BlobName(bytes.TrimRight(h[:maxName], "\x00"))
}

// BlobName returns the digest in the name of a blob's member.
func BlobName(member []byte) (contracts.Digest, bool) {
	hex, ok := bytes.CutPrefix(member, []byte(BlobPrefix))
	d, err := crypto.ParseDigest(hex)
	return d, ok && err == nil
}

func prefixOf(d contracts.Digest) uint64 {
	return uint64(d[0])<<56 | uint64(d[1])<<48 | uint64(d[2])<<40
}

// Find returns the number of a blob and its place, or NotFound. It reads headers through w.
func (a *Archive) Find(d contracts.Digest, w *Window) (int, Extent, error) {
	prefix := prefixOf(d)
	low := sort.Search(len(a.Blobs), func(i int) bool { return a.Blobs[i] >= prefix })
	high := low + sort.Search(len(a.Blobs)-low, func(i int) bool {
		return a.Blobs[low+i]>>blockBits > prefix>>blockBits
	})
	var member [len(BlobPrefix) + 2*len(d) + 1]byte // its name in a header, and the NUL after it
	hex.Encode(member[copy(member[:], BlobPrefix):], d[:])
	const known = len(BlobPrefix) + prefixBits/4 // of its name, whatever the header says now

	// Nearly always one blob: nobody can find many names that begin alike. A hostile pack may claim
	// them.
	for low < high {
		i := int(uint(low+high) / 2)
		at := a.Place(i)
		h, err := w.Get(at, Block)
		if err != nil {
			return NotFound, Extent{}, err
		}
		if !bytes.Equal(h[:known], member[:known]) {
			return NotFound, Extent{}, ErrChanged
		}
		// Open compared all of the header; the content has its own hash
		switch c := bytes.Compare(member[:], h[:len(member)]); {
		case c == 0:
			size, ok := parseSize(h)
			if !ok {
				return NotFound, Extent{}, ErrChanged
			}
			return i, Extent{at + Block, size}, nil
		case c < 0:
			high = i
		default:
			low = i + 1
		}
	}
	return NotFound, Extent{}, nil
}
