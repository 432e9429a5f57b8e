package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Role is what a key may sign. A key has exactly one role.
type Role string

// The roles.
const (
	Root      Role = "root"      // trust events, by threshold
	Kernel    Role = "kernel"    // entries and manifests
	Log       Role = "log"       // checkpoints
	Publisher Role = "publisher" // bundles
	Approver  Role = "approver"  // approvals
	Delegator Role = "delegator" // grants
	Attestor  Role = "attestor"  // attestations
	Freezer   Role = "freezer"   // freezes
	Witness   Role = "witness"   // cosignatures; verifiers take witnesses from their callers instead
)

var roles = []Role{Root, Kernel, Log, Publisher, Approver, Delegator, Attestor, Freezer, Witness}

// Key is a key of an initial state.
type Key struct {
	Name   string // of the holder; a quorum counts distinct holders; of a delegator, the caller id
	Public crypto.PublicKey
	Role   Role
	// Roles that an approver or a delegator can answer for. Without any they have no say.
	Roles []string
}

// State is the trust state at one index of a log. It is immutable and safe for concurrent use by
// multiple goroutines. A nil *State has no keys and is frozen.
type State struct {
	frozen    bool
	keys      []*held // sorted by id; states share them, so no key changes
	ended     ended   // delegations
	threshold uint64
	version   uint64

	once      sync.Once // sets the next two when they are asked for, since most states of a log are not
	canonical []byte
	digest    contracts.Digest
}

// The most that a state may have of each, those that were revoked included.
const (
	maxKeys  = 4096
	maxEnded = 65_536 // delegations
)

// maxState bounds the canonical form of a state. None that has no more than it may is so large.
const maxState = 64 << 20

// Digest returns the SHA-256 of the canonical form.
func (s *State) Digest() contracts.Digest {
	if s == nil {
		return contracts.Digest{}
	}
	s.once.Do(s.encode)
	return s.digest
}

// Canonical returns the canonical form, for auditors.
func (s *State) Canonical() []byte {
	if s == nil {
		return nil
	}
	s.once.Do(s.encode)
	return bytes.Clone(s.canonical)
}

// MarshalJSON returns the canonical form.
func (s *State) MarshalJSON() ([]byte, error) {
	if s == nil {
		return nil, errors.New("registry: no state")
	}
	return s.Canonical(), nil
}

// Frozen reports whether every call is denied.
func (s *State) Frozen() bool { return s == nil || s.frozen }

// Revoked reports whether the delegation with that digest is revoked.
func (s *State) Revoked(delegation contracts.Digest) bool {
	if s == nil {
		return true
	}
	return s.ended.has(delegation)
}

// Version returns 1 for the initial state and one more after each event, or 0 if s is nil. The next
// event must have the version after it.
func (s *State) Version() uint64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Key returns the public key with that id if it has the role and may sign at the index. For a
// checkpoint or manifest of size n the index is n.
func (s *State) Key(id contracts.Digest, role Role, index uint64) (crypto.PublicKey, bool) {
	k := s.valid(id, role, index)
	if k == nil {
		return nil, false
	}
	return slices.Clone(k.public), true
}

// Holder is like Key, but also returns the holder's name and roles.
func (s *State) Holder(id contracts.Digest, role Role, index uint64) (Key, bool) {
	k := s.valid(id, role, index)
	if k == nil {
		return Key{}, false
	}
	return Key{k.name, slices.Clone(k.public), k.role, slices.Clone(k.roles)}, true
}

// Keys returns the public keys of a role that may sign at the index, in order of their ids.
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

// find returns the position of the key with that id, or the one to insert it at.
func (s *State) find(id contracts.Digest) (int, bool) {
	byID := func(k *held, id contracts.Digest) int { return compareDigests(k.id, id) }
	return slices.BinarySearchFunc(s.keys, id, byID)
}

// valid returns the key with that id if it has the role and may sign at the index, or nil.
func (s *State) valid(id contracts.Digest, role Role, index uint64) *held {
	if s == nil {
		return nil
	}
	i, ok := s.find(id)
	if !ok || s.keys[i].role != role || !s.keys[i].valid(index) {
		return nil
	}
	return s.keys[i]
}

// ParseState reads the canonical form of a state. It refuses any other spelling.
func ParseState(b []byte) (*State, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxState, Depth: contracts.MaxRecordDepth, Object: true}); err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	s, err := read(tree.Root())
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("registry: trust state: %w", err)
	}
	s.once.Do(s.encode)
	if !bytes.Equal(s.canonical, b) {
		return nil, errors.New("registry: trust state: not canonical: hand on the bytes as they were given")
	}
	return s, nil
}

// encode sets the canonical form and its digest.
func (s *State) encode() {
	s.canonical = s.append(nil)
	s.digest = crypto.Sum(s.canonical)
}

// errKeys is a var for read, which does not look at more keys than there may be.
var errKeys = fmt.Errorf("keys: more than %d, those that were revoked included", maxKeys)

// check tests what holds for every state. Its keys and their order were checked before.
func (s *State) check() error {
	if s.version < 1 || s.version > crypto.MaxInt {
		return errors.New("version: not from 1 to 2^53-1")
	}
	switch {
	case len(s.keys) > maxKeys:
		return errKeys
	case s.ended.len() > maxEnded:
		return fmt.Errorf("revoked: more than %d delegations", maxEnded)
	}
	roots, kernels, _ := s.unrevoked()
	if kernels == 0 {
		return errors.New("keys: no kernel key")
	}
	if s.threshold > roots || (s.threshold == 0) != (roots == 0) {
		return errors.New("threshold: must be from 1 to the number of root keys, and 0 iff there are none")
	}
	return nil
}

// unrevoked counts the keys of these roles that are not revoked.
func (s *State) unrevoked() (roots, kernels, logs uint64) {
	for _, k := range s.keys {
		switch {
		case k.wasRevoked:
		case k.role == Root:
			roots++
		case k.role == Kernel:
			kernels++
		case k.role == Log:
			logs++
		}
	}
	return roots, kernels, logs
}
