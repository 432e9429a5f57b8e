package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// entry verifies the next entry, or the stub of one, and adds it to the fold. x is the entry as it
// was opened ahead, or nothing.
func (v *verifier) entry(l line, x early) *Error {
	if !v.fold.stillValid(x) {
		var f *Error
		x, f = v.openNow(l.bytes)
		if f != nil {
			return f
		}
	}
	if x.stub != nil {
		return v.stub(l, x)
	}
	st := x.statement
	c := v.fold.chain(st.Session)
	call, f := v.fold.check(st, x.hash, c)
	if f == nil && st.Condense != nil {
		f = v.ranges.add(st, x.hash)
	}
	if f != nil {
		return f
	}
	call = v.fold.enter(st, c, call)
	if f := v.replay.entry(st, c, call); f != nil { // faults of BLOB and REPLAY wait
		return f
	}
	v.reread.mark(l.place)
	if err := v.fold.add(x.hash, st, c); err != nil {
		return v.fold.fault(ErrGraph, "", err.Error())
	}
	v.replay.sessions.follow(st, c, v.fold.latest(c), call)
	return v.fold.reached()
}

// stub verifies a stub, and adds it to the fold.
func (v *verifier) stub(l line, x early) *Error {
	s := x.stub
	c := v.fold.chain(s.Session)
	call, f := v.fold.checkStub(s, c)
	if f == nil {
		f = v.held.compare(s, l.bytes, &v.opener)
	}
	if f == nil {
		f = v.replay.stub(s, c, call)
	}
	if f != nil {
		return f
	}
	v.reread.mark(l.place)
	if err := v.fold.addStub(s, x.line, c); err != nil {
		return v.fold.fault(ErrGraph, "", err.Error())
	}
	v.replay.sessions.followStub(s, c, call)
	return v.fold.reached()
}

// openNow opens the entry whose turn it is.
func (v *verifier) openNow(b []byte) (x early, f *Error) {
	index := v.fold.size()
	if contracts.IsStub(b) {
		return v.opener.stub(b, index)
	}
	s, f := v.sealed(b, index)
	if f == nil && index == 0 {
		f = v.begins(s)
	}
	if f == nil {
		f = v.signed(s, v.fold.state, index)
	}
	if f == nil {
		x.statement, f = v.record(s, index)
	}
	if f == nil {
		x.hash = crypto.LeafHash(b)
	}
	return x, f
}

// begins checks entry 0 with the pinned key. If the caller gave no trust state, it takes the one
// from the pack: the signer of the genesis vouches for it.
func (v *verifier) begins(s *contracts.Sealed) *Error {
	if k := v.o.Kernel; k != nil {
		if s.KeyID != crypto.KeyID(k) {
			return v.fold.fault(ErrKey, "signatures.keyid", "the genesis is not signed by the pinned key")
		}
		if !crypto.Verify(k, v.pae, s.Sig) {
			return v.fold.fault(ErrSignature, "signatures.sig", "does not verify")
		}
	}
	if s.Kind != contracts.KindGenesis {
		return v.fold.fault(ErrChain, "predicateType", "entry 0 is no genesis")
	}
	if v.fold.state != nil {
		return nil
	}
	var t crypto.Tree
	limits := crypto.Limits{Bytes: contracts.MaxPayload, Depth: contracts.MaxRecordDepth}
	if err := t.Parse(s.Payload, limits); err != nil {
		return v.fold.fault(ErrEncoding, "payload", "not JSON") // cannot be: it was opened
	}
	d, err := crypto.ParseDigest(t.Root().Get("predicate").Get("trust").Bytes())
	if err == nil {
		b, _, f := v.blobs.content(d, v.blobs.far)
		if f != nil && f.Check != ErrBlob {
			return f
		}
		v.fold.state, err = registry.ParseState(b) // of no bytes, if the blob is not there
	}
	if err != nil {
		return v.fold.fault(ErrTrust, "predicate.trust", "the initial trust state is not there, or malformed")
	}
	return nil
}
