// Package registry knows which key may sign what, and when.
//
// A [State] is a value: canonical JSON with a digest, which the genesis of a log names and auditors hold. A key is valid for the entry at
// an index iff (since = 0 or since < index) and (it is not revoked or index <= revoked), so that what was signed before a revocation
// stays verifiable. A key has one role. Keys are Ed25519 points of the prime-order subgroup, canonically encoded.
//
//	state, err := registry.ParseState(trustJSON)          // what an auditor was given
//	key, ok := state.Key(keyID, registry.Kernel, index)   // may it sign entry index?
//
// A State never changes. The trust entries of a log are events that give the next one, [State.Apply]: the state at an index is the fold of
// the initial state and the events before it, in order. An event is for one log (its origin) and one state (its version is the next), so
// it can neither be replayed nor be put in another place. Who must sign it follows from its type:
//
//	key                adds a key that is no root; it proves that it is held                  root threshold
//	revoke             ends a key that is no root; it never comes back                        root threshold
//	root               replaces the roots and their threshold; each proves that it is held    old threshold and new threshold
//	undelegate         ends a grant                                                           root threshold, or the delegator
//	freeze, unfreeze   every call is denied, or no longer                                     one root or freezer; root threshold
//
// A threshold of 0 means that nothing can ever change. What callers present is opened by [OpenApproval], [OpenAttestation],
// [OpenDelegation] and [OpenBundle], against the keys that are not revoked.
//
// A State is safe for concurrent use. Format: docs/FORMATS.md section 6.
package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Role is the one thing that a key may sign.
type Role string

const (
	Root      Role = "root"      // trust events, by threshold
	Kernel    Role = "kernel"    // entries and manifests
	Log       Role = "log"       // checkpoints
	Publisher Role = "publisher" // bundles
	Approver  Role = "approver"  // approvals
	Delegator Role = "delegator" // grants
	Attestor  Role = "attestor"  // attestations
	Freezer   Role = "freezer"   // freezes
	Witness   Role = "witness"   // cosignatures
)

var roles = []Role{Root, Kernel, Log, Publisher, Approver, Delegator, Attestor, Freezer, Witness}

// Key is a key of an initial state.
type Key struct {
	Name   string // the holder: quorum counts distinct ones; of a delegator the caller id
	Public crypto.PublicKey
	Role   Role
	Roles  []string // of an approver or a delegator, who has no say without any
}

// State is the trust state at one index of a log.
type State struct {
	canonical []byte
	digest    contracts.Digest
	frozen    bool
	keys      []held             // sorted by id
	revoked   []contracts.Digest // delegations, sorted
	threshold uint64
	version   uint64
}

// maxState is the size of a state's canonical form.
const maxState = 64 << 20

// Digest is the SHA-256 of the canonical form.
func (s *State) Digest() contracts.Digest {
	if s == nil {
		return contracts.Digest{}
	}
	return s.digest
}

// Canonical is the canonical form: what to hand to auditors.
func (s *State) Canonical() []byte {
	if s == nil {
		return nil
	}
	return bytes.Clone(s.canonical)
}

// MarshalJSON writes the canonical form.
func (s *State) MarshalJSON() ([]byte, error) {
	if s == nil {
		return nil, errors.New("registry: no state")
	}
	return s.Canonical(), nil
}

// Frozen tells whether every call is denied.
func (s *State) Frozen() bool { return s == nil || s.frozen }

// Revoked tells whether the delegation with that digest was revoked.
func (s *State) Revoked(delegation contracts.Digest) bool {
	if s == nil {
		return true
	}
	_, ok := slices.BinarySearchFunc(s.revoked, delegation, compareDigests)
	return ok
}

// Version counts the events that made the state: an event to come has one more. The initial state has 1, no state 0.
func (s *State) Version() uint64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Key gives the public key of that id if it has the role and may sign at the index. For a checkpoint or manifest of size n the index is n.
func (s *State) Key(id contracts.Digest, role Role, index uint64) (crypto.PublicKey, bool) {
	k := s.valid(id, role, index)
	if k == nil {
		return nil, false
	}
	return slices.Clone(k.public), true
}

// Holder is Key with all that the state says of the key: the name of who holds it, and his roles.
func (s *State) Holder(id contracts.Digest, role Role, index uint64) (Key, bool) {
	k := s.valid(id, role, index)
	if k == nil {
		return Key{}, false
	}
	return Key{k.name, slices.Clone(k.public), k.role, slices.Clone(k.roles)}, true
}

// Keys gives the public keys of a role that may sign at the index, in order of their ids.
func (s *State) Keys(role Role, index uint64) []crypto.PublicKey {
	var out []crypto.PublicKey
	if s != nil {
		for _, k := range s.keys {
			if k.role == role && k.valid(index) {
				out = append(out, slices.Clone(k.public))
			}
		}
	}
	return out
}

// find tells where among the keys the one of that id is, or where it would be.
func (s *State) find(id contracts.Digest) (int, bool) {
	return slices.BinarySearchFunc(s.keys, id, func(k held, id contracts.Digest) int { return bytes.Compare(k.id[:], id[:]) })
}

// valid gives the key of that id if it has the role and may sign at the index, or nil.
func (s *State) valid(id contracts.Digest, role Role, index uint64) *held {
	if s == nil {
		return nil
	}
	i, ok := s.find(id)
	if !ok || s.keys[i].role != role || !s.keys[i].valid(index) {
		return nil
	}
	return &s.keys[i]
}

// ParseState reads the canonical form of a state, and refuses any other spelling.
func ParseState(b []byte) (*State, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxState, Depth: contracts.MaxRecordDepth, Object: true}); err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	s, err := read(tree.Root())
	if err == nil {
		err = s.settle()
	}
	if err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	if !bytes.Equal(s.canonical, b) {
		return nil, errors.New("registry: trust state: not canonical: hand on the bytes as they were given")
	}
	return s, nil
}

// settle writes the canonical form of a state that is otherwise complete, and holds it to what must be true of every one. Each of its keys
// was checked.
func (s *State) settle() error {
	if s.version < 1 || s.version > crypto.MaxInt {
		return errors.New("version: not from 1 to 2^53-1")
	}
	for i := 1; i < len(s.keys); i++ {
		if bytes.Compare(s.keys[i-1].id[:], s.keys[i].id[:]) >= 0 {
			return fmt.Errorf("keys.%d: not sorted by id and unique: a key has one role", i)
		}
	}
	if s.left(Kernel) == 0 {
		return errors.New("keys: no kernel key")
	}
	if roots := s.left(Root); s.threshold > roots || (s.threshold == 0) != (roots == 0) {
		return errors.New("threshold: must be from 1 to the number of root keys, and 0 iff there are none")
	}
	s.canonical = s.append(nil)
	if len(s.canonical) > maxState {
		return errors.New("over 64 MiB")
	}
	s.digest = crypto.Sum(s.canonical)
	return nil
}

// left counts the keys of a role that are not revoked.
func (s *State) left(role Role) (n uint64) {
	for i := range s.keys {
		if s.keys[i].role == role && !s.keys[i].wasRevoked {
			n++
		}
	}
	return n
}
