// Package registry knows which key may sign what, and when.
//
// A [State] is a value: canonical JSON with a digest, which the genesis of a log names and auditors hold. A key is valid for the entry at
// an index iff (since = 0 or since < index) and (it is not revoked or index <= revoked), so that what was signed before a revocation
// stays verifiable. A key has one role. Keys are Ed25519 points of the prime-order subgroup, canonically encoded.
//
//	state, err := registry.ParseState(trustJSON)          // what an auditor was given
//	key, ok := state.Key(keyID, registry.Kernel, index)   // may it sign entry index?
//
// A State never changes and is safe for concurrent use. Format: docs/FORMATS.md section 6.
package registry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

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
	Roles  []string // of an approver or a delegator
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

type held struct {
	id             contracts.Digest
	public         crypto.PublicKey
	name           string
	role           Role
	since, revoked uint64
	wasRevoked     bool
}

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
	_, ok := slices.BinarySearchFunc(s.revoked, delegation, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	return ok
}

// Key gives the public key of that id if it has the role and may sign at the index. For a checkpoint or manifest of size n the index is n.
func (s *State) Key(id contracts.Digest, role Role, index uint64) (crypto.PublicKey, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.keys, id, func(k held, id contracts.Digest) int { return bytes.Compare(k.id[:], id[:]) })
	if !ok || s.keys[i].role != role || !s.keys[i].valid(index) {
		return nil, false
	}
	return slices.Clone(s.keys[i].public), true
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

func (k held) valid(index uint64) bool {
	return (k.since == 0 || k.since < index) && (!k.wasRevoked || index <= k.revoked)
}

// ParseState reads the canonical form of a state, and refuses any other spelling.
func ParseState(b []byte) (*State, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: 64 << 20, Depth: contracts.MaxRecordDepth, Object: true}); err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	s, err := read(tree.Root())
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	if !bytes.Equal(s.canonical, b) {
		return nil, errors.New("registry: trust state: not canonical: hand on the bytes as they were given")
	}
	return s, nil
}

// check holds a state to what must be true of every one.
func (s *State) check() error {
	if s.version < 1 {
		return errors.New("version: not from 1 on")
	}
	roots := uint64(0)
	has := map[Role]bool{}
	for i, k := range s.keys {
		at := "keys." + strconv.Itoa(i)
		if i > 0 && bytes.Compare(s.keys[i-1].id[:], k.id[:]) >= 0 {
			return errors.New(at + ": not sorted by id and unique: a key has one role")
		}
		if err := crypto.CheckPublicKey(k.public); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if crypto.KeyID(k.public) != k.id {
			return errors.New(at + ": id is not that of the public key")
		}
		if !k.wasRevoked {
			has[k.role] = true
			if k.role == Root {
				roots++
			}
		}
	}
	if !has[Kernel] {
		return errors.New("keys: no kernel key")
	}
	if s.threshold > roots || (s.threshold == 0) != (roots == 0) {
		return errors.New("threshold: must be from 1 to the number of root keys, and 0 iff there are none")
	}
	return nil
}

func compareHeld(a, b held) int {
	return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.role, b.role))
}
