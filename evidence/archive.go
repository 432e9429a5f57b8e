package evidence

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// members come first in a pack, in this order; blobs follow.
var members = [...]string{"manifest.json", "checkpoint", "entries.jsonl"}

const (
	manifestMember = iota
	checkpointMember
	entriesMember
)

const blobPrefix = "blobs/"

// An extent is where the bytes of a member lie.
type extent struct{ at, size int64 }

// An archive is a directory of the members of a pack. A blob takes 9 bytes of it; the rest of its name is read from its header again.
type archive struct {
	members [len(members)]extent
	blobs   []uint64     // in order of names: prefixBits of the name, then the block that the header is
	named   []entry.Role // as what entries named them
	bytes   uint64       // of all blobs
	root    contracts.Digest
}

const (
	blockBits  = 40 // 512 TiB
	prefixBits = 64 - blockBits
	noBlob     = -1
)

// open reads all headers and all padding: the check ARCHIVE.
func (a *archive) open(ctx context.Context, w *window) error {
	bad := func(field, what string, err error) error { return &Error{ErrArchive, -1, field, what, err} }
	short := func(field string, end int64, err error) error {
		what, cause := unread(w.size, end, err)
		return bad(field, what, cause)
	}
	var names proofgraph.Tree
	var before []byte
	at, count := int64(0), 0
	for ; ; count++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if at == 0 {
			if b, err := w.get(0, int(min(w.size, block))); err == nil && foreign(b) != "" {
				return bad("", foreign(b), nil)
			}
		}
		b, err := w.get(at, block)
		if err != nil {
			return short(memberField(count, nil), at+block, err)
		}
		h := (*[block]byte)(b)
		if *h == ([block]byte{}) {
			break
		}
		raw, size, ok := parseHeader(h)
		if !ok {
			return bad(memberField(count, nil), fmt.Sprintf("the header at byte %d is not the one that its name and size have: a pack is verified as it was written, not packed anew", at), nil)
		}
		switch {
		case count < len(members) && string(raw) != members[count]:
			return bad(members[count], "it is not the next member", nil)
		case count < len(members):
			a.members[count] = extent{at + block, size}
		default:
			name, ok := blobName(raw)
			if !ok || bytes.Compare(before, name[:]) >= 0 {
				return bad(memberField(count, nil), fmt.Sprintf("the member at byte %d is not the next blob", at), nil)
			}
			if at/block >= 1<<blockBits {
				return bad(memberField(count, name[:]), "beyond 512 TiB", nil)
			}
			before = append(before[:0], name[:]...)
			a.blobs = append(a.blobs, prefixOf(name)|uint64(at/block))
			a.bytes += uint64(size)
			names.Append(crypto.LeafHash(name[:]))
		}
		at += block + size
		pad, err := w.get(at, int(padding(size)))
		if err != nil {
			return short(memberField(count, before), at+padding(size), err)
		}
		if !zero(pad) {
			return bad(memberField(count, before), "padding is not zero", nil)
		}
		at += int64(len(pad))
	}
	if count < len(members) {
		return bad(members[count], "it is missing", nil)
	}
	switch b, err := w.get(at+block, block); {
	case err != nil:
		return short("end", at+2*block, err)
	case !zero(b):
		return bad("end", "it does not end in two zero blocks", nil)
	case at+2*block != w.size:
		return bad("end", fmt.Sprintf("%d bytes follow it", w.size-at-2*block), nil)
	}
	a.blobs = slices.Clip(a.blobs)
	a.named = make([]entry.Role, len(a.blobs))
	a.root = names.Root()
	return nil
}

// memberField is how errors name a member, or the blobs where it is not known which.
func memberField(i int, blob []byte) string {
	switch {
	case i < len(members):
		return members[i]
	case blob == nil:
		return "blobs"
	}
	return blobPrefix + hex.EncodeToString(blob)
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// place is where the header of a blob lies.
func (a *archive) place(i int) int64 { return int64(a.blobs[i]&(1<<blockBits-1)) * block }

func blobName(member []byte) (contracts.Digest, bool) {
	hex, ok := bytes.CutPrefix(member, []byte(blobPrefix))
	d, err := crypto.ParseDigest(hex)
	return d, ok && err == nil
}

func prefixOf(d contracts.Digest) uint64 {
	return uint64(d[0])<<56 | uint64(d[1])<<48 | uint64(d[2])<<40
}

// find gives the number of a blob and where it lies, or noBlob.
func (a *archive) find(d contracts.Digest, read func(at int64, n int) ([]byte, error)) (int, extent, error) {
	prefix := prefixOf(d)
	low := sort.Search(len(a.blobs), func(i int) bool { return a.blobs[i] >= prefix })
	high := low + sort.Search(len(a.blobs)-low, func(i int) bool { return a.blobs[low+i]>>blockBits > prefix>>blockBits })
	var member [len(blobPrefix) + 2*len(d) + 1]byte // its name in a header, and the NUL after it
	hex.Encode(member[copy(member[:], blobPrefix):], d[:])
	const known = len(blobPrefix) + prefixBits/4 // of its name, whatever the header says now
	for low < high {                             // nearly always one: nobody finds many names that begin alike, but a hostile pack may claim them
		i := int(uint(low+high) / 2)
		at := a.place(i)
		h, err := read(at, block)
		if err != nil {
			return noBlob, extent{}, err
		}
		if !bytes.Equal(h[:known], member[:known]) {
			return noBlob, extent{}, errChanged
		}
		switch c := bytes.Compare(member[:], h[:len(member)]); { // open has compared all of the header; the content has its own hash
		case c == 0:
			size, ok := parseSize(h)
			if !ok {
				return noBlob, extent{}, errChanged
			}
			return i, extent{at + block, size}, nil
		case c < 0:
			high = i
		default:
			low = i + 1
		}
	}
	return noBlob, extent{}, nil
}
