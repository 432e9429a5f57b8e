package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// entry verifies the next entry, and adds it to the fold. It was opened before, or it is now.
func (v *verifier) entry(l line, x early) *Error {
	if !v.stands(x) {
		var f *Error
		if x, f = v.now(l.bytes); f != nil {
			return f
		}
	}
	st := x.statement
	c := v.chain(st.Session)
	f := v.follows(st, c)
	if f == nil {
		f = v.causes(st, c)
	}
	var call *pending
	if f == nil {
		call, f = v.refers(st, c)
	}
	if f == nil {
		f = v.charged(st, call)
	}
	if f == nil {
		f = v.governs(st)
	}
	if f == nil {
		f = v.replay(st, c, call) // faults of BLOB and REPLAY wait
	}
	if f == nil {
		v.mark(l.place)
		if err := v.add(x.hash, st, c); err != nil {
			return v.fault(ErrGraph, "", err.Error())
		}
		v.told(st, c, call)
		f = v.reached()
	}
	return f
}

// stands tells whether an entry that was opened before its turn would be now: whoever did it may not have known the trust state of here.
func (v *verifier) stands(x early) bool {
	if x.statement == nil {
		return false
	}
	_, ok := v.state.Key(x.signer, registry.Kernel, v.size())
	return ok
}

// now opens the entry whose turn it is.
func (v *verifier) now(b []byte) (x early, f *Error) {
	s, f := v.sealed(b, v.size())
	if f == nil && v.size() == 0 {
		f = v.begins(s)
	}
	if f == nil {
		f = v.signed(s, v.state, v.size())
	}
	if f == nil {
		x.statement, f = v.record(s, v.size())
	}
	if f == nil {
		x.hash = crypto.LeafHash(b)
	}
	return x, f
}

// begins judges entry 0 by the pinned key, and takes the trust state from the pack where the caller gave none: who signs the genesis
// vouches for it.
func (v *verifier) begins(s *contracts.Sealed) *Error {
	if k := v.o.Kernel; k != nil {
		if s.KeyID != crypto.KeyID(k) {
			return v.fault(ErrKey, "signatures.keyid", "the genesis is not signed by the pinned key")
		}
		if !crypto.Verify(k, v.pae, s.Sig) {
			return v.fault(ErrSignature, "signatures.sig", "does not verify")
		}
	}
	if s.Kind != contracts.KindGenesis {
		return v.fault(ErrChain, "predicateType", "entry 0 is no genesis")
	}
	if v.state != nil {
		return nil
	}
	var t crypto.Tree
	if err := t.Parse(s.Payload, crypto.Limits{Bytes: contracts.MaxPayload, Depth: contracts.MaxRecordDepth}); err != nil {
		return v.fault(ErrEncoding, "payload", "not JSON") // cannot be: it was opened
	}
	d, err := crypto.ParseDigest(t.Root().Get("predicate").Get("trust").Bytes())
	if err == nil {
		b, _, f := v.content(d, v.far)
		if f != nil && f.Check != ErrBlob {
			return f
		}
		v.state, err = registry.ParseState(b) // of no bytes, where there are none
	}
	if err != nil {
		return v.fault(ErrTrust, "predicate.trust", "the initial trust state is not there, or malformed")
	}
	return nil
}

// follows is CHAIN.
func (v *verifier) follows(st *contracts.Statement, c *chain) *Error {
	first := v.size() == 0
	switch {
	case first != (st.Genesis != nil):
		return v.fault(ErrChain, "predicateType", "entry 0, and only it, is the genesis")
	case c.closed:
		return v.fault(ErrChain, "predicate.session", "it is closed")
	case st.Seq != c.count:
		return v.fault(ErrChain, "predicate.seq", "not the next of its session")
	case st.Prev != v.latest(c):
		return v.fault(ErrChain, "predicate.prev", "not the hash of the session's previous entry, or of the genesis")
	case st.Time < c.time:
		return v.fault(ErrChain, "predicate.time", "before that of the session's previous entry")
	case first && v.o.Origin != "" && st.Genesis.Origin != v.o.Origin:
		return v.fault(ErrChain, "predicate.origin", otherOrigin(st.Genesis.Origin, v.o.Origin))
	case first && v.last != nil && st.Genesis.Origin != v.last.Origin:
		return &Error{ErrInput, -1, "Last", otherOrigin(v.last.Origin, st.Genesis.Origin), nil}
	}
	return nil
}

// causes is GRAPH.
func (v *verifier) causes(st *contracts.Statement, c *chain) *Error {
	want := uint64(0)
	if v.size() > 0 {
		want = c.lamport + 1 // of genesis it is 0
	}
	for _, p := range st.Parents {
		_, lamport, ok := v.index.Lookup(p)
		if !ok {
			return v.fault(ErrGraph, "predicate.parents", "one is no earlier entry")
		}
		want = max(want, lamport+1)
	}
	if st.Lamport != want {
		return v.fault(ErrGraph, "predicate.lamport", "not one more than the highest that it names")
	}
	return nil
}

// charged is BUDGET: each charge is made on the balance that the log gives, and each receipt of an ALLOW says of every charge whether it stays.
func (v *verifier) charged(st *contracts.Statement, call *pending) *Error {
	switch {
	case st.Decision != nil:
		if err := v.ledger.Charge(st.Decision.Charges); err != nil {
			return v.fault(ErrBudget, "predicate.decision.charges", err.Error())
		}
	case call != nil:
		if err := v.ledger.Settle(call.charges, st.Receipt.Settled, st.Receipt.Reason); err != nil {
			return v.fault(ErrBudget, "predicate.settled", err.Error())
		}
	}
	return nil
}

// governs is TRUST. The trust state of the entries that follow is what an event makes of the one here.
func (v *verifier) governs(st *contracts.Statement) *Error {
	d := st.Judgement()
	switch {
	case st.Trust != nil:
		next, err := v.state.Apply(st.Trust, v.origin, v.size())
		if err != nil {
			return v.fault(ErrTrust, "predicate.event", err.Error())
		}
		v.state = next
	case st.Genesis != nil && v.state.Version() != 1:
		return v.fault(ErrTrust, "predicate.trust", "the trust state is no initial one, whose version is 1: give the one that the log began with")
	case st.Genesis != nil && st.Genesis.Trust != v.state.Digest():
		return v.fault(ErrTrust, "predicate.trust", "not the digest of the trust state")
	case st.Genesis != nil && v.o.Kernel != nil && !slices.ContainsFunc(v.state.Keys(registry.Kernel, 0), func(k crypto.PublicKey) bool { return bytes.Equal(k, v.o.Kernel) }):
		return v.fault(ErrTrust, "predicate.trust", "the pinned key is no kernel key of the trust state")
	case d == nil:
	case d.Verdict == contracts.Allow && v.state.Frozen():
		return v.fault(ErrTrust, "predicate.decision.verdict", "an ALLOW while the system is frozen")
	case d.Reason == contracts.ReasonSystemFrozen && !v.state.Frozen():
		return v.fault(ErrTrust, "predicate.decision.reason", "the system is not frozen")
	case d.Verdict == contracts.Allow && d.Delegation != nil && v.state.Revoked(*d.Delegation):
		return v.fault(ErrTrust, "predicate.decision.delegation", "an ALLOW on a delegation that was revoked")
	}
	return nil
}
