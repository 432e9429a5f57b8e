package registry

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// fromNowOn is later than any index: only keys that are not revoked are valid then.
const fromNowOn = ^uint64(0)

// OpenApproval verifies the answer of an approver: its bytes, its form, and that it is signed with
// an approver's key that is not revoked. It also returns the key: Name is the holder, and Roles are
// the roles for which they can answer. It does not check that the answer is an approval, or for
// which request; the guardian does.
func OpenApproval(s *State, e contracts.Envelope) (contracts.Approval, Key, error) {
	sealed, holder, err := s.open(e, Approver)
	if err != nil {
		return contracts.Approval{}, Key{}, fmt.Errorf("registry: approval: %w", err)
	}
	a, err := sealed.Approval()
	if err != nil {
		return contracts.Approval{}, Key{}, fmt.Errorf("registry: approval: %w", err)
	}
	return *a, holder, nil
}

// OpenAttestation verifies an attestation in the same way. The key's Name is the attestor.
func OpenAttestation(s *State, e contracts.Envelope) (contracts.Attestation, Key, error) {
	sealed, holder, err := s.open(e, Attestor)
	if err != nil {
		return contracts.Attestation{}, Key{}, fmt.Errorf("registry: attestation: %w", err)
	}
	a, err := sealed.Attestation()
	if err != nil {
		return contracts.Attestation{}, Key{}, fmt.Errorf("registry: attestation: %w", err)
	}
	return *a, holder, nil
}

// OpenDelegation verifies a chain of grants, the leaf first, each followed by its parent. Every
// grant is verified in the same way as by OpenApproval and must be signed by its delegator. It must
// name the grant after it by the digest of its bytes, and be made by that grant's delegate. The
// last must name none, and none may be revoked. With the grants comes the key of the last, the root
// delegator: its name and roles are the most that the chain can grant. The guardian checks who
// presents the chain, when, for which call, and how deep it may be.
func OpenDelegation(s *State, chain []contracts.Envelope) ([]contracts.Delegation, Key, error) {
	if len(chain) == 0 || len(chain) > contracts.MaxListed {
		return nil, Key{}, fmt.Errorf("registry: delegation: %d grants, want 1 to %d", len(chain), contracts.MaxListed)
	}
	var grants []contracts.Delegation
	var root Key
	for i, e := range chain {
		g, holder, err := s.grant(e)
		if err == nil && i > 0 {
			err = checkLink(&grants[i-1], g, e)
		}
		if err != nil {
			return nil, Key{}, fmt.Errorf("registry: delegation: grant %d: %w", i, err)
		}
		grants, root = append(grants, *g), holder
	}
	if grants[len(grants)-1].Parent != nil {
		err := errors.New("registry: delegation: the chain ends in a grant that has a parent: present that too")
		return nil, Key{}, err
	}
	return grants, root, nil
}

// grant verifies one grant of a chain.
func (s *State) grant(e contracts.Envelope) (*contracts.Delegation, Key, error) {
	sealed, holder, err := s.open(e, Delegator)
	if err != nil {
		return nil, Key{}, err
	}
	g, err := sealed.Delegation()
	switch {
	case err != nil:
		return nil, Key{}, err
	case g.Delegator != holder.Name:
		return nil, Key{}, errors.New("KEY: it is not the delegator who signed it")
	case s.Revoked(e.Digest()):
		return nil, Key{}, errors.New("it was revoked")
	}
	return g, holder, nil
}

// checkLink returns an error if g does not follow from its parent, whose envelope is e.
func checkLink(g, parent *contracts.Delegation, e contracts.Envelope) error {
	switch {
	case g.Parent == nil:
		return errors.New("the grant before it has no parent")
	case *g.Parent != e.Digest():
		return errors.New("not the parent of the grant before it")
	case g.Delegator != parent.Delegate:
		return errors.New("not for the delegator of the grant before it")
	}
	return nil
}

// open verifies an envelope except for its predicate: ENCODING, ENVELOPE, KEY, SIGNATURE.
func (s *State) open(e contracts.Envelope, role Role) (*contracts.Sealed, Key, error) {
	var r contracts.Reader
	sealed, err := r.Open(e)
	if err != nil {
		return nil, Key{}, err
	}
	if id, ok := sealed.Key(); !ok || id != sealed.KeyID {
		return nil, Key{}, errors.New("KEY: the envelope and the predicate name different keys")
	}
	holder, ok := s.Holder(sealed.KeyID, role, fromNowOn)
	if !ok {
		return nil, Key{}, fmt.Errorf("KEY: not of the role %s in the trust state, or revoked", role)
	}
	if !crypto.Verify(holder.Public, crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload), sealed.Sig) {
		return nil, Key{}, errors.New("SIGNATURE: does not verify")
	}
	return sealed, holder, nil
}
