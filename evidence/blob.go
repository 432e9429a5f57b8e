package evidence

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/trust/registry"
)

// maxBlob is how long a blob may be, which is read into memory: outputs are of at most 16 MiB, trust states of 64.
const maxBlob = 64 << 20

var (
	errChanged = ustar.ErrChanged
	errLong    = errors.New("longer than any blob may be")
)

// late notes a fault of BLOB or REPLAY, which are found with the entry at hand and come after the checks that follow the entries. It gives
// any other one, which is a fault at once.
func (v *verifier) late(f *Error) *Error {
	switch {
	case f == nil:
	case f.Check == ErrBlob && v.badBlob == nil:
		v.badBlob = f
	case f.Check == ErrReplay:
		v.report.Replay.Differing++
		if v.badReplay == nil {
			v.badReplay = f
		}
	case f.Check != ErrBlob:
		return f
	}
	return nil
}

// content reads a blob, and checks it against its name. The bytes are valid until the reader reads again; they are nil, and the number is
// noBlob, where it is not there.
func (v *verifier) content(d contracts.Digest, r view) ([]byte, int, *Error) {
	b, i, err := r.blob(d)
	switch {
	case err == errLong:
		return nil, i, v.fault(ErrBlob, ustar.BlobPrefix+d.String(), err.Error())
	case err != nil:
		return nil, noBlob, v.from.unreadable(&d, err)
	case i == noBlob:
		return nil, noBlob, nil
	case crypto.Sum(b) != d:
		return nil, i, v.fault(ErrBlob, ustar.BlobPrefix+d.String(), "its content does not hash to its name")
	}
	if b == nil {
		b = []byte{} // there, and empty
	}
	return b, i, nil
}

// keep notes that the entry at hand names a blob, and holds it to the form of what it is named as. It gives the bytes, or nil where
// they are not there, or not as they should be.
func (v *verifier) keep(d contracts.Digest, as entry.Role) ([]byte, *Error) {
	b, i, f := v.content(d, v.far)
	switch {
	case f != nil:
		return nil, v.late(f)
	case i == noBlob && as.Required():
		return nil, v.late(v.fault(ErrBlob, ustar.BlobPrefix+d.String(), "the "+as.String()+" is missing"))
	case i == noBlob:
		v.report.Erased = append(v.report.Erased, d)
		return nil, nil
	}
	first := v.from.names(i, as)
	if what := v.form(b, as); first && what != "" {
		return nil, v.late(v.fault(ErrBlob, ustar.BlobPrefix+d.String(), "as "+as.String()+": "+what))
	}
	return b, nil
}

// form says in what a blob departs from the form of what it is named as. Inputs are held to theirs where they are read.
func (v *verifier) form(b []byte, as entry.Role) string {
	switch as {
	case entry.Trust:
		if _, err := registry.ParseState(b); err != nil {
			return "not a canonical trust state"
		}
		return v.crossed(b)
	case entry.Document, entry.Facts, entry.Output:
		if err := v.json.Parse(b, crypto.Limits{Bytes: maxBlob, Depth: contracts.MaxRecordDepth, Object: as != entry.Output}); err != nil {
			return err.Error()
		}
		if !v.json.Canonical() {
			return "not canonical"
		}
		return v.crossed(b)
	}
	return ""
}
