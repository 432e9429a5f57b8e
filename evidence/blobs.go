package evidence

import (
	"bytes"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/trust/registry"
)

// maxBlob is the largest size of a blob, which is read into memory: outputs have at most 16 MiB,
// trust states 64.
const maxBlob = 64 << 20

var (
	errChanged = ustar.ErrChanged
	errLong    = errors.New("longer than any blob may be")
)

// blobs are those that entries name, as the source has them: the check BLOB.
type blobs struct {
	at        func() uint64 // the index of the entry at hand
	from      source
	far       view
	canonical canonicaliser
	trust     []byte             // the state that the verifier was given, which needs no second look
	json      crypto.Tree        // of a blob
	lacking   []contracts.Digest // named, and not there
	bad       *Error             // the first fault

	// Texts and facts documents that were not there with their entry, so they are there for no
	// later use: half their digests.
	unsaid map[half]struct{}

	// Policy documents, as they say what they are, and modules that were looked for. They are large
	// and named again and again, so they are read once, as long as there are no more of them than
	// maxRead.
	documents map[contracts.Digest]contracts.PolicyDocument
	modules   map[contracts.Digest]struct{}
}

// maxRead bounds what is held of documents and of modules to a few hundred KB.
const maxRead = 1024

// fault returns an error of a blob that the entry at hand names.
func (x *blobs) fault(d contracts.Digest, what string) *Error {
	return errorAt(x.at(), ErrBlob, ustar.BlobPrefix+d.String(), what)
}

// note keeps the first fault of BLOB, which is found with an entry and comes after the checks that
// follow the entries. It returns a fault of any other check, which counts at once.
func (x *blobs) note(f *Error) *Error {
	if f == nil || f.Check != ErrBlob {
		return f
	}
	if x.bad == nil {
		x.bad = f
	}
	return nil
}

// content reads a blob and compares it with its name. The bytes are valid until the view reads
// again. If the blob is not there they are nil, and the number is noBlob.
func (x *blobs) content(d contracts.Digest, from view) ([]byte, int, *Error) {
	b, i, err := from.blob(d)
	switch {
	case err == errLong:
		return nil, i, x.fault(d, err.Error())
	case err != nil:
		return nil, noBlob, x.from.unreadable(&d, err)
	case i == noBlob:
		return nil, noBlob, nil
	case crypto.Sum(b) != d:
		return nil, i, x.fault(d, "its content does not hash to its name")
	}
	if b == nil {
		b = []byte{} // there, and empty
	}
	return b, i, nil
}

// keep notes that the entry at hand names a blob, and checks that it has the form of its role. It
// returns the bytes, or nil if they are not there or not as they should be.
func (x *blobs) keep(d contracts.Digest, as entry.Role) ([]byte, *Error) {
	b, i, f := x.content(d, x.far)
	switch {
	case f != nil:
		return nil, x.note(f)
	case i == noBlob && as.Required():
		return nil, x.note(x.fault(d, "the "+as.String()+" is missing"))
	case i == noBlob:
		x.lacking = append(x.lacking, d)
		if as == entry.Text || as == entry.Facts {
			if x.unsaid == nil {
				x.unsaid = map[half]struct{}{}
			}
			x.unsaid[halfOf(d)] = struct{}{}
		}
		return nil, nil
	}
	x.from.names(i, as)
	if what := x.form(b, as); what != "" {
		return nil, x.note(x.fault(d, "as "+as.String()+": "+what))
	}
	return b, nil
}

// keepAll keeps all blobs that an entry names. The documents of a policy are mostly those of the
// policy before and an overlay, so those are not read again.
func (x *blobs) keepAll(st *contracts.Statement) (f *Error) {
	if st.Policy != nil {
		return x.keepDocuments(st.Policy)
	}
	entry.Blobs(st, func(d contracts.Digest, as entry.Role) {
		if f == nil {
			_, f = x.keep(d, as)
		}
	})
	return f
}

// keepDocuments keeps the documents of a policy entry, and compares each with what the entry says
// of it, whether or not anything was judged under the policy.
func (x *blobs) keepDocuments(p *contracts.PolicyRecord) *Error {
	for _, d := range p.Documents {
		is, ok := x.documents[d.Digest]
		if !ok {
			b, f := x.keep(d.Digest, entry.Document)
			if f != nil {
				return f
			}
			if b == nil {
				continue // that was noted
			}
			is = documentOf(d.Digest, x.json.Root())
			if x.documents == nil || len(x.documents) == maxRead {
				x.documents = map[contracts.Digest]contracts.PolicyDocument{}
			}
			x.documents[d.Digest] = is
		}
		if is != d && x.bad == nil {
			x.bad = x.fault(d.Digest, "as policy document: of another layer, name or version than its entry says")
		}
	}
	return nil
}

// documentOf returns what a policy document says of itself. What it does not say, or not in a legal
// form, is zero.
func documentOf(digest contracts.Digest, doc crypto.Value) contracts.PolicyDocument {
	layer := doc.Get("layer").Text()
	named := doc
	if layer == "P1" {
		named = doc.Get("bundle")
	}
	is := contracts.PolicyDocument{Digest: digest, Layer: layer}
	if name := named.Get("name").Text(); contracts.IsID(name) {
		is.Name = name
	}
	is.Version, _ = named.Get("version").Uint()
	if layer == "P2" && named.Get("version").Kind() == crypto.Missing {
		is.Version = 1
	}
	return is
}

// maxModule is the largest size of a module.
const maxModule = 32 << 20

// keepModule keeps a module. Only its size is looked at.
func (x *blobs) keepModule(d contracts.Digest) *Error {
	if _, ok := x.modules[d]; ok {
		return nil
	}
	if x.modules == nil || len(x.modules) == maxRead {
		x.modules = map[contracts.Digest]struct{}{}
	}
	x.modules[d] = struct{}{}
	_, f := x.keep(d, entry.Module)
	return f
}

// form returns in what a blob departs from the form of its role, or "". The form of inputs is
// checked when they are read.
func (x *blobs) form(b []byte, as entry.Role) string {
	switch as {
	case entry.Trust:
		if x.trust != nil && bytes.Equal(b, x.trust) {
			return x.canonical.check(b)
		}
		if _, err := registry.ParseState(b); err != nil {
			return "not a canonical trust state"
		}
		return x.canonical.check(b)
	case entry.Facts:
		if _, err := contracts.ParseFacts(b); err != nil {
			return formatError(err).What
		}
		return x.canonical.check(b)
	case entry.Text:
		if !contracts.IsMessage(string(b)) {
			return "not 1 to 262,144 bytes of UTF-8"
		}
	case entry.Module:
		if len(b) > maxModule {
			return "longer than 32 MiB"
		}
	case entry.Document, entry.Output:
		limits := crypto.Limits{Bytes: maxBlob, Depth: contracts.MaxRecordDepth, Object: as == entry.Document}
		if err := x.json.Parse(b, limits); err != nil {
			return err.Error()
		}
		if !x.json.Canonical() {
			return "not canonical"
		}
		return x.canonical.check(b)
	}
	return ""
}

// A half is half a digest, which is enough to know it by.
type half [16]byte

func halfOf(d contracts.Digest) half { return half(d[:16]) }
