package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// governs is the check TRUST. The trust state of the entries that follow is what an event makes of
// the one here.
func (v *fold) governs(st *contracts.Statement) *Error {
	d := st.Judgement()
	switch {
	case st.Trust != nil:
		next, err := v.state.Apply(st.Trust, v.origin, v.size())
		if err != nil {
			return v.fault(ErrTrust, "predicate.event", err.Error())
		}
		v.state = next
	case st.Genesis != nil:
		return v.beginsWith(st.Genesis)
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

// beginsWith compares the trust state with the one that the genesis names.
func (v *fold) beginsWith(g *contracts.Genesis) *Error {
	pinned := func(k crypto.PublicKey) bool { return bytes.Equal(k, v.o.Kernel) }
	switch {
	case v.state.Version() != 1:
		return v.fault(ErrTrust, "predicate.trust",
			"the trust state is no initial one, whose version is 1: give the one that the log began with")
	case g.Trust != v.state.Digest():
		return v.fault(ErrTrust, "predicate.trust", "not the digest of the trust state")
	case v.o.Kernel != nil && !slices.ContainsFunc(v.state.Keys(registry.Kernel, 0), pinned):
		return v.fault(ErrTrust, "predicate.trust", "the pinned key is no kernel key of the trust state")
	}
	return nil
}
