package evidence

import (
	"bytes"
	"cmp"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/trust/registry"
)

// An opener judges entries by themselves: the checks that ask nothing of the log but a trust state. It has the memory for one entry.
type opener struct {
	reader    contracts.Reader
	pae       []byte                       // of the entry at hand
	canonical func([]byte) ([]byte, error) // the second canonicaliser; nil: none is asked
}

// An early is what an opener has of an entry that passed all of its checks. The zero one is nothing.
type early struct {
	statement *contracts.Statement
	hash      contracts.Digest
	signer    contracts.Digest // the digest of the key under which its signature verifies
}

// open does what can be done before its turn with an entry that will have that index, under a trust state that may be an earlier one. What of it
// fails is none.
func (o *opener) open(b []byte, state *registry.State, index uint64) early {
	s, f := o.sealed(b, index)
	if f != nil {
		return early{}
	}
	if f = o.signed(s, state, index); f != nil {
		return early{}
	}
	x := early{signer: s.KeyID}
	if x.statement, f = o.record(s, index); f != nil {
		return early{}
	}
	x.hash = crypto.LeafHash(b)
	return x
}

// sealed is ENCODING and ENVELOPE.
func (o *opener) sealed(b []byte, index uint64) (*contracts.Sealed, *Error) {
	if bytes.HasPrefix(b, []byte(`{"gap"`)) {
		return nil, &Error{ErrGap, int64(index), "gap", "a gap" + entry.Unsupported, nil}
	}
	s, err := o.reader.Open(b)
	if err != nil {
		bad := formatError(err)
		return nil, &Error{checkOf(bad.Class), int64(index), cmp.Or(bad.Field, "envelope"), bad.What, nil}
	}
	if field, what := o.crossedSealed(b, s); what != "" {
		return nil, &Error{ErrEncoding, int64(index), field, what, nil}
	}
	o.pae = crypto.AppendPAE(o.pae[:0], contracts.PayloadType, s.Payload)
	return s, nil
}

// signed is KEY and SIGNATURE. Nothing else of an entry is used before.
func (o *opener) signed(s *contracts.Sealed, state *registry.State, index uint64) *Error {
	public, ok := state.Key(s.KeyID, registry.Kernel, index)
	if !ok {
		what := "no kernel key that is valid here"
		if index == 0 {
			what = "no kernel key of the initial trust state: see that the one that was given is this log's"
		}
		return &Error{ErrKey, int64(index), "signatures.keyid", what, nil}
	}
	if k, ok := s.Key(); !ok || k != s.KeyID {
		return &Error{ErrKey, int64(index), "predicate.key", "not the signer", nil}
	}
	if !crypto.Verify(public, o.pae, s.Sig) {
		return &Error{ErrSignature, int64(index), "signatures.sig", "does not verify", nil}
	}
	return nil
}

// record is RECORD.
func (o *opener) record(s *contracts.Sealed, index uint64) (*contracts.Statement, *Error) {
	st, err := s.Statement()
	if err != nil {
		bad := formatError(err)
		return nil, &Error{ErrRecord, int64(index), bad.Field, bad.What, nil}
	}
	if what := entry.Later(st); what != "" {
		return nil, &Error{ErrRecord, int64(index), "predicateType", what, nil}
	}
	return st, nil
}
