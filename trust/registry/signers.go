package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// checkSigners returns an error unless the keys that must sign the event, in the state before it,
// have signed it. Every signature must be of a key that counts for the event, and must verify: one
// that does not refuses the event even if the others are enough.
func (s *State) checkSigners(t *contracts.TrustRecord, index uint64) error {
	message := t.Event.Message()
	var roots, fresh uint64
	alone := false
	for i, x := range t.Signatures {
		if i > 0 && bytes.Compare(t.Signatures[i-1].KeyID[:], x.KeyID[:]) >= 0 {
			return fmt.Errorf("signatures.%d: not sorted by key id and unique", i)
		}
		v := s.voter(&t.Event, x.KeyID, index)
		switch {
		case v.public == nil:
			return fmt.Errorf("signatures.%d: of a key that has no say on this event, or none any more", i)
		case !crypto.Verify(v.public, message, x.Sig):
			return fmt.Errorf("signatures.%d: does not verify", i)
		}
		if v.root {
			roots++
		}
		if v.fresh {
			fresh++
		}
		alone = alone || v.alone
	}
	switch {
	case alone:
		return nil
	case t.Event.Type == "freeze":
		return errors.New("signatures: want that of a root or a freezer")
	case roots < s.threshold:
		return fmt.Errorf("signatures: %d of root keys, want %d: ask %s", roots, s.threshold, s.missingRoots(t, index))
	case t.Event.Type == "root" && fresh < t.Event.Threshold:
		return fmt.Errorf("signatures: %d of the new root keys, want %d", fresh, t.Event.Threshold)
	}
	return nil
}

// A voter says how a key counts for an event.
type voter struct {
	public crypto.PublicKey // nil if it does not count
	root   bool             // counts for the threshold
	fresh  bool             // counts for the threshold that a root event sets
	alone  bool             // its signature is enough
}

// voter returns how a key counts for an event at the index. The keys in a root event were checked
// before.
func (s *State) voter(e *contracts.TrustEvent, id contracts.Digest, index uint64) (v voter) {
	if at, known := s.find(id); known && s.keys[at].valid(index) {
		k := s.keys[at]
		v.root = k.role == Root
		switch e.Type {
		case "freeze":
			v.alone = k.role == Root || k.role == Freezer
		case "undelegate":
			v.alone = k.role == Delegator && k.name == e.Delegator
		}
		if v.root || v.alone {
			v.public = k.public
		}
	}
	if e.Type == "root" {
		i := slices.IndexFunc(e.Keys, func(k contracts.RootKey) bool { return k.ID == id })
		if i >= 0 {
			v.public, v.fresh = e.Keys[i].Public, true
		}
	}
	return v
}

// missingRoots returns the names of the root keys that have not signed.
func (s *State) missingRoots(t *contracts.TrustRecord, index uint64) string {
	var names []string
	for _, k := range s.keys {
		signed := func(x contracts.Signature) bool { return x.KeyID == k.id }
		if k.role == Root && k.valid(index) && !slices.ContainsFunc(t.Signatures, signed) {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
