package evidence

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Entries are gone over once. What is needed of an earlier one later is read again: the offset of every eighth is kept, the others follow.

const stride = 8

// mark notes where the next entry lies.
func (v *verifier) mark(at int64) {
	if v.size()%stride == 0 {
		v.marks = append(v.marks, at)
	}
}

// A far reads here and there in a pack. What it gives is valid until it reads again.
type far struct {
	*window
	buf []byte
}

func (f *far) bytes(x extent) ([]byte, error) {
	if x.size <= int64(cap(f.window.buf)) {
		return f.get(x.at, int(x.size))
	}
	if int64(cap(f.buf)) < x.size {
		f.buf = make([]byte, x.size)
	}
	b := f.buf[:x.size]
	return b, readAt(f.r, b, x.at)
}

// A rereader has memory of its own, so that what the entry at hand refers to stays as it is.
type rereader struct {
	lines, blobs far
	entry        contracts.Reader
	inputs       contracts.Reader
}

func (v *verifier) rereader() *rereader {
	if v.second == nil {
		size := v.far.size
		v.second = &rereader{lines: far{window: newWindow(v.r, size, 36<<10)}, blobs: far{window: newWindow(v.r, size, 4<<10)}}
	}
	return v.second
}

// line gives bytes from a line's first on, and where the line ends in them. Most lines are short.
func (r *rereader) line(at, end int64) (b []byte, n int, err error) {
	for _, most := range [...]int64{4 << 10, contracts.MaxEntry + 1} {
		if b, err = r.lines.get(at, int(min(end-at, most))); err != nil {
			return nil, 0, err
		}
		if n = bytes.IndexByte(b, '\n'); n >= 0 {
			return b, n, nil
		}
	}
	return nil, 0, errChanged
}

// again reads an earlier entry. The bytes are those that were verified, or it is a fault.
func (v *verifier) again(index uint64) (*contracts.Statement, *Error) {
	r := v.rereader()
	bad := func(err error) (*contracts.Statement, *Error) {
		return nil, &Error{ErrArchive, -1, members[entriesMember], "it cannot be read", err}
	}
	if err := v.ctx.Err(); err != nil { // a session may be long
		return bad(err)
	}
	x := v.pack.members[entriesMember]
	at, end := v.marks[index/stride], x.at+x.size
	for n := index % stride; ; n-- {
		b, i, err := r.line(at, end)
		if err != nil {
			return bad(err)
		}
		if at += int64(i) + 1; n > 0 {
			continue
		}
		if crypto.LeafHash(b[:i]) != v.index.Hash(index) {
			return bad(errChanged)
		}
		sealed, ferr := r.entry.Open(b[:i])
		if ferr != nil {
			return bad(ferr) // cannot be: it was opened
		}
		st, ferr := sealed.Statement()
		if ferr != nil {
			return bad(ferr)
		}
		return st, nil
	}
}

// inputsOf reads the inputs of an earlier judgement, or gives nil where they are not there, or are not as they should be, which was noted with
// that entry.
func (v *verifier) inputsOf(d *contracts.DecisionRecord) (*contracts.Inputs, *Error) {
	r := v.rereader()
	b, i, f := v.content(d.InputsHash, &r.blobs)
	if f == nil && i == noBlob {
		return nil, nil
	}
	if f == nil {
		if in, err := r.inputs.Inputs(b); err == nil {
			return in, nil
		}
	} else if f.Check != ErrBlob {
		return nil, f
	}
	if v.badBlob == nil {
		return nil, &Error{ErrArchive, -1, blobPrefix + d.InputsHash.String(), "it cannot be read", errChanged}
	}
	return nil, nil
}
