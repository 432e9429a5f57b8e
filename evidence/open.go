package evidence

import (
	"cmp"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// An opener checks entries by themselves: the checks that need nothing of the log but a trust
// state. It has the memory for one entry.
type opener struct {
	reader    contracts.Reader
	pae       []byte // of the entry at hand
	canonical canonicaliser
}

// An early is a line that passed all checks of an opener: an entry, or the stub of one. The zero
// early is nothing.
type early struct {
	statement *contracts.Statement // nil: it is a stub
	stub      *contracts.Stub      // nil: it is an entry
	hash      contracts.Digest     // leaf hash of the entry
	signer    contracts.Digest     // of an entry: the digest of the key under which its signature verifies
	line      half                 // of a stub: what its bytes are known by
}

// open opens an entry ahead of its turn. The entry will have that index, and the trust state may be
// an earlier one. If a check fails, open returns nothing.
func (o *opener) open(b []byte, state *registry.State, index uint64) early {
	if contracts.IsStub(b) {
		x, _ := o.stub(b, index)
		return x
	}
	s, f := o.sealed(b, index)
	if f != nil {
		return early{}
	}
	signer := s.KeyID
	f = o.signed(s, state, index)
	if f != nil {
		return early{}
	}
	st, f := o.record(s, index)
	if f != nil {
		return early{}
	}
	return early{statement: st, hash: crypto.LeafHash(b), signer: signer}
}

// stub does the checks ENCODING and RECORD of a stub: there are no others of it alone.
func (o *opener) stub(b []byte, index uint64) (early, *Error) {
	s, err := o.reader.Stub(b)
	if err != nil {
		bad := formatError(err)
		return early{}, errorAt(index, checkOf(bad.Class), cmp.Or(bad.Field, "stub"), bad.What)
	}
	if what := o.canonical.check(b); what != "" {
		return early{}, errorAt(index, ErrEncoding, "stub", what)
	}
	return early{stub: s, hash: s.Entry, line: halfOf(crypto.LeafHash(b))}, nil
}

// sealed does the checks ENCODING and ENVELOPE.
func (o *opener) sealed(b []byte, index uint64) (*contracts.Sealed, *Error) {
	s, err := o.reader.Open(b)
	if err != nil {
		bad := formatError(err)
		return nil, errorAt(index, checkOf(bad.Class), cmp.Or(bad.Field, "envelope"), bad.What)
	}
	if field, what := o.canonical.checkSealed(b, s); what != "" {
		return nil, errorAt(index, ErrEncoding, field, what)
	}
	o.pae = crypto.AppendPAE(o.pae[:0], contracts.PayloadType, s.Payload)
	return s, nil
}

// signed does the checks KEY and SIGNATURE. Nothing else of an entry is used before.
func (o *opener) signed(s *contracts.Sealed, state *registry.State, index uint64) *Error {
	public, ok := state.Key(s.KeyID, registry.Kernel, index)
	if !ok {
		what := "no kernel key that is valid here"
		if index == 0 {
			what = "no kernel key of the initial trust state: see that the one that was given is this log's"
		}
		return errorAt(index, ErrKey, "signatures.keyid", what)
	}
	return o.signedBy(s, public, index)
}

// signedBy does the rest of KEY, and SIGNATURE, with the key of the id that the envelope has.
func (o *opener) signedBy(s *contracts.Sealed, public crypto.PublicKey, index uint64) *Error {
	if k, ok := s.Key(); !ok || k != s.KeyID {
		return errorAt(index, ErrKey, "predicate.key", "not the signer")
	}
	if !crypto.Verify(public, o.pae, s.Sig) {
		return errorAt(index, ErrSignature, "signatures.sig", "does not verify")
	}
	return nil
}

// record does the check RECORD.
func (o *opener) record(s *contracts.Sealed, index uint64) (*contracts.Statement, *Error) {
	st, err := s.Statement()
	if err != nil {
		bad := formatError(err)
		return nil, errorAt(index, ErrRecord, bad.Field, bad.What)
	}
	return st, nil
}
