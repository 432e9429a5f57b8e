package registry

import (
	"fmt"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// Registry is the initial trust state of a log, before the kernel adds the keys that it signs with. It never changes.
type Registry struct {
	threshold uint64
	keys      []entry
}

// New makes the initial state of a log from its keys. threshold is how many of the root keys must sign a change; it is 0 iff there are no
// root keys, and then nothing can ever change.
func New(threshold int, keys ...Key) (*Registry, error) {
	r := &Registry{threshold: uint64(max(threshold, 0))}
	roots := 0
	for _, k := range keys {
		e, err := newEntry(k)
		if err != nil {
			return nil, fmt.Errorf("registry: key %q: %w", k.Name, err)
		}
		if slices.ContainsFunc(r.keys, func(x entry) bool { return x.id == e.id }) {
			return nil, fmt.Errorf("registry: key %q: it is listed twice; a key has one role", k.Name)
		}
		if k.Role == Root {
			roots++
		}
		r.keys = append(r.keys, e)
	}
	if threshold < 0 || threshold > roots || (threshold == 0) != (roots == 0) {
		return nil, fmt.Errorf("registry: threshold %d with %d root keys: want 1 to the number of root keys, and 0 iff there are none", threshold, roots)
	}
	return r, nil
}

func newEntry(k Key) (entry, error) {
	if err := crypto.CheckPublicKey(k.Public); err != nil {
		return entry{}, err
	}
	rs := slices.Clone(k.Roles)
	slices.Sort(rs)
	e := entry{held{id: crypto.KeyID(k.Public), public: slices.Clone(k.Public), name: k.Name, role: k.Role}, slices.Compact(rs)}
	return e, e.check()
}

// Initial is the state in which a log starts: the keys of r, and those named kernel and log where r lacks them. r may be nil.
func (r *Registry) Initial(kernel, log crypto.PublicKey) (*State, error) {
	all, threshold := []entry(nil), uint64(0)
	if r != nil {
		all, threshold = slices.Clone(r.keys), r.threshold
	}
	for _, k := range []Key{{Name: "kernel", Public: kernel, Role: Kernel}, {Name: "log", Public: log, Role: Log}} {
		e, err := newEntry(k)
		if err != nil {
			return nil, fmt.Errorf("registry: %s key: %w", k.Name, err)
		}
		if i := slices.IndexFunc(all, func(x entry) bool { return x.id == e.id }); i < 0 {
			all = append(all, e)
		} else if all[i].role != e.role {
			return nil, fmt.Errorf("registry: the %s key is listed with the role %s; a key has one role", k.Name, all[i].role)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return compareHeld(a.held, b.held) })
	s := &State{threshold: threshold, version: 1, canonical: write(false, all, nil, threshold, 1)}
	for _, e := range all {
		s.keys = append(s.keys, e.held)
	}
	s.digest = crypto.Sum(s.canonical)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return s, nil
}
