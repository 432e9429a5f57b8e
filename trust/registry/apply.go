package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Apply returns the state after a trust event, for the entries after index, where the entry with
// the event is in the log of that origin. It does not change s. It refuses an event that is not
// allowed, and the error says why.
func (s *State) Apply(t *contracts.TrustRecord, origin string, index uint64) (*State, error) {
	next, err := s.apply(t, origin, index)
	if err != nil {
		return nil, fmt.Errorf("registry: trust event: %w", err)
	}
	return next, nil
}

func (s *State) apply(t *contracts.TrustRecord, origin string, index uint64) (*State, error) {
	switch {
	case s == nil || s.version == 0:
		return nil, errors.New("there is no state that it could change")
	case t == nil:
		return nil, errors.New("there is none")
	case index == 0 || index > crypto.MaxInt:
		return nil, errors.New("index: not one of an entry that can hold it: 0 is the genesis")
	case s.threshold == 0:
		return nil, errors.New("the threshold is 0: there are no root keys, and nothing can ever change")
	case t.Event.Origin != origin:
		return nil, fmt.Errorf("origin: it is for another log than %s", origin)
	case t.Event.Version != s.version+1:
		return nil, fmt.Errorf("version: %d, want %d: it is for another state than this one, was applied before, "+
			"or one before it is missing", t.Event.Version, s.version+1)
	}
	next, err := s.after(&t.Event, index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Event.Type, err)
	}
	if _, kernels, logs := next.unrevoked(); kernels == 0 || logs == 0 {
		return nil, fmt.Errorf("%s: it leaves no kernel key or no log key: add the one that comes next before",
			t.Event.Type)
	}
	if err := s.checkSigners(t, index); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Event.Type, err)
	}
	next.version++
	return next, next.check()
}

// after returns the state that the event leads to. It does not check the signatures.
func (s *State) after(e *contracts.TrustEvent, index uint64) (*State, error) {
	next := &State{
		frozen: s.frozen, keys: slices.Clone(s.keys), ended: s.ended,
		threshold: s.threshold, version: s.version,
	}
	var err error
	switch e.Type {
	case "key":
		err = next.add(e, index)
	case "revoke":
		err = next.revoke(e, index)
	case "root":
		err = next.replace(e, index)
	case "undelegate":
		err = next.undelegate(e)
	case "freeze", "unfreeze":
		next.frozen = e.Type == "freeze"
		if next.frozen == s.frozen {
			err = errors.New("nothing changes")
		}
	default:
		err = errors.New("not a type of event that this version knows")
	}
	return next, err
}

func (s *State) add(e *contracts.TrustEvent, index uint64) error {
	if e.ID == nil {
		return errors.New("id: missing")
	}
	k := &held{
		id: *e.ID, name: e.Name, public: bytes.Clone(e.Public),
		role: Role(e.Role), roles: slices.Clone(e.Roles), since: index,
	}
	at, known := s.find(k.id)
	switch {
	case k.role == Root:
		return errors.New("role: only an event of type root changes root keys")
	case known:
		return errKnown
	}
	if err := k.check(); err != nil {
		return err
	}
	if !crypto.Verify(k.public, e.ProofMessage(), e.Proof) {
		return errProof
	}
	s.keys = slices.Insert(s.keys, at, k)
	return nil
}

var (
	errKnown = errors.New("id: the key is known already: a key has one role, and one that was revoked or left out " +
		"never returns")
	errProof = errors.New("proof: not the new key's signature over the event without its proofs")
)

func (s *State) revoke(e *contracts.TrustEvent, index uint64) error {
	if e.ID == nil {
		return errors.New("id: missing")
	}
	at, known := s.find(*e.ID)
	switch {
	case !known:
		return errors.New("id: of no key")
	case s.keys[at].role == Root:
		return errors.New("id: only an event of type root changes root keys")
	case s.keys[at].wasRevoked:
		return errors.New("id: the key was revoked before: nothing changes")
	}
	s.end(at, index)
	return nil
}

// end revokes the key at a position. Other states have the key too, and keep it.
func (s *State) end(at int, index uint64) {
	k := *s.keys[at]
	k.revoked, k.wasRevoked = index, true
	s.keys[at] = &k
}

// replace adds the root keys that are new and revokes those that are left out. Root keys that stay
// keep everything, even their names.
func (s *State) replace(e *contracts.TrustEvent, index uint64) error {
	changes := e.Threshold != s.threshold
	given := make(map[contracts.Digest]bool)
	message := e.ProofMessage()
	for i, x := range e.Keys {
		refused := func(err error) error { return fmt.Errorf("keys.%d: %w", i, err) }
		if i > 0 && bytes.Compare(e.Keys[i-1].ID[:], x.ID[:]) >= 0 {
			return refused(errors.New("not sorted by id and unique"))
		}
		k := &held{id: x.ID, name: x.Name, public: bytes.Clone(x.Public), role: Root, since: index}
		if err := k.check(); err != nil {
			return refused(err)
		}
		if !crypto.Verify(k.public, message, x.Proof) {
			return refused(errProof)
		}
		at, known := s.find(k.id)
		switch {
		case !known:
			s.keys = slices.Insert(s.keys, at, k)
			changes = true
		case s.keys[at].role != Root || s.keys[at].wasRevoked:
			return refused(errKnown)
		}
		given[k.id] = true
	}
	if e.Threshold < 1 || e.Threshold > uint64(len(given)) {
		return errors.New("threshold: not from 1 to the number of keys")
	}
	for at, k := range s.keys {
		if k.role == Root && !k.wasRevoked && !given[k.id] {
			s.end(at, index)
			changes = true
		}
	}
	s.threshold = e.Threshold
	if !changes {
		return errors.New("nothing changes")
	}
	return nil
}

func (s *State) undelegate(e *contracts.TrustEvent) error {
	if e.Delegation == nil {
		return errors.New("delegation: missing")
	}
	if s.ended.has(*e.Delegation) {
		return errors.New("delegation: it was revoked before: nothing changes")
	}
	s.ended = s.ended.with(*e.Delegation)
	return nil
}

func compareDigests(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) }
