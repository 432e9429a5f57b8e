package registry

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// fromNowOn is later than any index: the keys that are valid then are those that were not revoked.
const fromNowOn = ^uint64(0)

// OpenApproval verifies an approver's answer, yes or no: its bytes, its form, and that a key of an approver signed it which was not revoked.
// With it comes the key: Name is the holder, Roles are those that he can answer for. Whether the answer is to the question, is for the guardian.
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

// OpenAttestation verifies an attestation in the same way; Name of the key is whose word it is.
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

// OpenDelegation verifies a chain of grants, the leaf first, each followed by its parent: every grant in the same way as OpenApproval, that
// its delegator signed it, that it names the one behind it by the digest of its bytes and was made by whom that one is for, that the last
// names none, and that none was revoked. With the grants comes the key of the last, the root delegator: his name and roles are what the
// chain can grant at most. Who presents it, when, for what and how deep the chain may be, is for the guardian.
func OpenDelegation(s *State, chain []contracts.Envelope) ([]contracts.Delegation, Key, error) {
	if len(chain) == 0 || len(chain) > contracts.MaxListed {
		return nil, Key{}, fmt.Errorf("registry: delegation: %d grants, want 1 to %d", len(chain), contracts.MaxListed)
	}
	var grants []contracts.Delegation
	var root Key
	for i, e := range chain {
		g, holder, err := s.grant(e)
		if err == nil && i > 0 {
			err = linked(&grants[i-1], g, e)
		}
		if err != nil {
			return nil, Key{}, fmt.Errorf("registry: delegation: grant %d: %w", i, err)
		}
		grants, root = append(grants, *g), holder
	}
	if grants[len(grants)-1].Parent != nil {
		return nil, Key{}, errors.New("registry: delegation: the chain ends in a grant that has a parent: present that too")
	}
	return grants, root, nil
}

// grant verifies one link.
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

// linked tells whether a grant follows from its parent.
func linked(g, parent *contracts.Delegation, e contracts.Envelope) error {
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

// open verifies all of an envelope but what its predicate says: ENCODING, ENVELOPE, KEY, SIGNATURE.
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
