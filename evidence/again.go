package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Entries are gone over once. What is needed of an earlier one later is read again: the place of every eighth is kept, the others follow.

const stride = 8

// mark notes where the next entry lies.
func (v *verifier) mark(place int64) {
	if v.size()%stride == 0 {
		v.marks = append(v.marks, place)
	}
}

// A rereader has memory of its own, so that what the entry at hand refers to stays as it is.
type rereader struct {
	view
	entry  contracts.Reader
	inputs contracts.Reader
}

func (v *verifier) rereader() *rereader {
	if v.second == nil {
		v.second = &rereader{view: v.from.view()}
	}
	return v.second
}

// again reads an earlier entry. The bytes are those that were verified, or it is a fault.
func (v *verifier) again(index uint64) (*contracts.Statement, *Error) {
	r := v.rereader()
	bad := func(err error) (*contracts.Statement, *Error) { return nil, v.from.unreadable(nil, err) }
	if err := v.ctx.Err(); err != nil { // a session may be long
		return bad(err)
	}
	b, err := r.line(v.marks[index/stride], int(index%stride))
	if err != nil {
		return bad(err)
	}
	if crypto.LeafHash(b) != v.index.Hash(index) {
		return bad(errChanged)
	}
	sealed, err := r.entry.Open(b)
	if err != nil {
		return bad(err) // cannot be: it was opened
	}
	st, err := sealed.Statement()
	if err != nil {
		return bad(err)
	}
	return st, nil
}

// inputsOf reads the inputs of an earlier judgement, of that index, or gives nil where they are not there, or are not as they should be, which
// was noted with that entry.
func (v *verifier) inputsOf(index uint64, d *contracts.DecisionRecord) (*contracts.Inputs, *Error) {
	if v.absent.has(index) {
		return nil, nil
	}
	r := v.rereader()
	b, i, f := v.content(d.InputsHash, r)
	if f == nil && i != noBlob {
		if in, err := r.inputs.Inputs(b); err == nil {
			return in, nil
		}
	} else if f != nil && f.Check != ErrBlob {
		return nil, f
	}
	if v.badBlob == nil {
		return nil, v.from.unreadable(&d.InputsHash, errChanged)
	}
	return nil, nil
}
