package evidence

import (
	"bytes"
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
)

// Entries are read once, in order. An earlier entry that is needed later is read again: the place
// of every eighth is kept, the others follow it.
const stride = 8

// A rereader reads earlier entries and their inputs again.
type rereader struct {
	ctx    context.Context
	from   source
	log    *log
	blobs  *blobs
	marks  []int64    // places of entries
	absent bits       // judgements whose inputs were not there with their entry, so they are there for no later use
	second *rereading // nil: nothing was read again
}

// A rereading has memory of its own, so that what the entry at hand refers to stays as it is.
type rereading struct {
	view
	entry  contracts.Reader
	inputs contracts.Reader
}

// mark notes where the next entry lies.
func (x *rereader) mark(place int64) {
	if x.log.size()%stride == 0 {
		x.marks = append(x.marks, place)
	}
}

func (x *rereader) memory() *rereading {
	if x.second == nil {
		x.second = &rereading{view: x.from.view()}
	}
	return x.second
}

// statement reads an earlier entry. If its bytes are not those that were verified, that is a fault.
func (x *rereader) statement(index uint64) (*contracts.Statement, *Error) {
	m := x.memory()
	err := x.ctx.Err() // a session may be long
	var b []byte
	if err == nil {
		b, err = m.line(x.marks[index/stride], int(index%stride))
	}
	if err == nil && crypto.LeafHash(b) != x.log.index.Hash(index) {
		err = errChanged
	}
	var st *contracts.Statement
	if err == nil {
		st, err = entry.Open(&m.entry, b)
	}
	if err != nil {
		return nil, x.from.unreadable(nil, err)
	}
	return st, nil
}

// inputsOf reads the inputs of an earlier judgement of that index. It returns nil if they are not
// there, or are not as they should be, which was noted with that entry.
func (x *rereader) inputsOf(index uint64, d contracts.Digest) (*contracts.Inputs, *Error) {
	if x.absent.has(index) {
		return nil, nil
	}
	m := x.memory()
	b, i, f := x.blobs.content(d, m)
	if f == nil && i != noBlob {
		if in, err := m.inputs.Inputs(b); err == nil {
			return in, nil
		}
	} else if f != nil && f.Check != ErrBlob {
		return nil, f
	}
	if x.blobs.bad == nil {
		return nil, x.from.unreadable(&d, errChanged)
	}
	return nil, nil
}

// said reads the text of a message or a facts document that an earlier entry names. It returns nil
// if it was not there, or not as it should be, which was noted with that entry.
func (x *rereader) said(d contracts.Digest) ([]byte, *Error) {
	if _, ok := x.blobs.unsaid[halfOf(d)]; ok {
		return nil, nil
	}
	b, i, f := x.blobs.content(d, x.memory())
	switch {
	case f == nil && i != noBlob:
		return bytes.Clone(b), nil
	case f != nil && f.Check != ErrBlob:
		return nil, f
	case x.blobs.bad == nil:
		return nil, x.from.unreadable(&d, errChanged)
	}
	return nil, nil
}
