package evidence

import (
	"bytes"
	"context"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
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
	ranges view       // for lines; nil: none were read again
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

// line reads an earlier line. If its bytes are not those that were verified, that is a fault.
func (x *rereader) line(index uint64) ([]byte, *Error) {
	err := x.ctx.Err() // a session may be long
	var b []byte
	if err == nil {
		b, err = x.memory().line(x.marks[index/stride], int(index%stride))
	}
	if err == nil {
		err = x.log.same(index, b)
	}
	if err != nil {
		return nil, x.from.unreadable(nil, err)
	}
	return b, nil
}

// statement reads an earlier entry, which is no stub.
func (x *rereader) statement(index uint64) (*contracts.Statement, *Error) {
	b, f := x.line(index)
	if f != nil {
		return nil, f
	}
	st, err := entry.Open(&x.memory().entry, b)
	if err != nil {
		return nil, x.from.unreadable(nil, err)
	}
	return st, nil
}

// stub reads an earlier stub.
func (x *rereader) stub(index uint64) (*contracts.Stub, *Error) {
	b, f := x.line(index)
	if f != nil {
		return nil, f
	}
	s, err := x.memory().entry.Stub(b)
	if err != nil {
		return nil, x.from.unreadable(nil, err)
	}
	return s, nil
}

// lines reads the lines from to to-1 again, with memory of its own. A fault is the last pair.
func (x *rereader) lines(from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		if from == to {
			return
		}
		if x.ranges == nil {
			x.ranges = x.from.view()
		}
		at := from
		for b, err := range x.ranges.run(x.marks[from/stride], int(from%stride), int(to-from)) {
			if err == nil {
				err = x.ctx.Err()
			}
			if err == nil {
				err = x.log.same(at, b)
			}
			if err != nil {
				yield(nil, x.from.unreadable(nil, err))
				return
			}
			if !yield(b, nil) {
				return
			}
			at++
		}
		if at < to {
			yield(nil, x.from.unreadable(nil, errChanged))
		}
	}
}

// inputsOf reads the inputs of an earlier judgement of that index. It returns nil if they are not
// there, or are not as they should be, which was noted with that entry.
func (x *rereader) inputsOf(index uint64, d contracts.Digest) (*contracts.Inputs, *Error) {
	if x.absent.has(index) {
		return nil, nil
	}
	m := x.memory()
	b, i, f := x.blobs.content(d, m)
	err := errChanged
	switch {
	case f != nil && f.Check != ErrBlob:
		return nil, f
	case f == nil && i == noBlob:
		err = errLetGo
	case f == nil:
		if in, err := m.inputs.Inputs(b); err == nil {
			return in, nil
		}
	}
	if x.blobs.bad == nil {
		return nil, x.from.unreadable(&d, err)
	}
	return nil, nil
}

// said reads the text of a message or a facts document that an earlier entry names. It returns nil
// if it was not there, or not as it should be, which was noted with that entry. Facts may be faded,
// which a stub names: these are there only if another entry names them too.
func (x *rereader) said(d contracts.Digest, faded bool) ([]byte, *Error) {
	if _, ok := x.blobs.unsaid[halfOf(d)]; ok {
		return nil, nil
	}
	b, i, f := x.blobs.content(d, x.memory())
	switch {
	case f == nil && i != noBlob:
		return bytes.Clone(b), nil
	case f != nil && f.Check != ErrBlob:
		return nil, f
	case x.blobs.bad == nil && !faded && f == nil:
		return nil, x.from.unreadable(&d, errLetGo)
	case x.blobs.bad == nil && !faded:
		return nil, x.from.unreadable(&d, errChanged)
	}
	return nil, nil
}
