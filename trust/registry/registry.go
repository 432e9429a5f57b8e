package registry

import (
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Registry is the initial trust state of a log, without the keys that the kernel adds because it
// signs with them. It is immutable.
type Registry struct {
	threshold uint64
	keys      []*held
}

// New returns the initial state of a log with these keys. threshold is the number of root keys that
// must sign a change. It is 0 iff there are no root keys, and then nothing can ever change.
func New(threshold int, keys ...Key) (*Registry, error) {
	r := &Registry{threshold: uint64(max(threshold, 0))}
	listed := make(map[contracts.Digest]bool, len(keys))
	roots := 0
	for _, k := range keys {
		h, err := newHeld(k)
		if err != nil {
			return nil, fmt.Errorf("registry: key %q: %w", k.Name, err)
		}
		if listed[h.id] {
			return nil, fmt.Errorf("registry: key %q: it is listed twice; a key has one role", k.Name)
		}
		if k.Role == Root {
			roots++
		}
		listed[h.id] = true
		r.keys = append(r.keys, h)
	}
	if threshold < 0 || threshold > roots || (threshold == 0) != (roots == 0) {
		return nil, fmt.Errorf("registry: threshold %d with %d root keys: want 1 to the number of root keys, "+
			"and 0 iff there are none", threshold, roots)
	}
	return r, nil
}

func newHeld(k Key) (*held, error) {
	rs := slices.Clone(k.Roles)
	slices.Sort(rs)
	h := &held{
		id: crypto.KeyID(k.Public), name: k.Name, public: slices.Clone(k.Public),
		role: k.Role, roles: slices.Compact(rs),
	}
	return h, h.check()
}

// Initial returns the state in which a log starts: the keys of r, and the kernel and log keys if r
// does not have them. r may be nil.
func (r *Registry) Initial(kernel, log crypto.PublicKey) (*State, error) {
	var all []*held
	s := &State{version: 1}
	if r != nil {
		all, s.threshold = slices.Clone(r.keys), r.threshold
	}
	for _, k := range []Key{{Name: "kernel", Public: kernel, Role: Kernel}, {Name: "log", Public: log, Role: Log}} {
		h, err := newHeld(k)
		if err != nil {
			return nil, fmt.Errorf("registry: %s key: %w", k.Name, err)
		}
		if i := slices.IndexFunc(all, func(x *held) bool { return x.id == h.id }); i < 0 {
			all = append(all, h)
		} else if all[i].role != h.role {
			return nil, fmt.Errorf("registry: the %s key is listed with the role %s; a key has one role",
				k.Name, all[i].role)
		}
	}
	slices.SortFunc(all, func(a, b *held) int { return compareDigests(a.id, b.id) })
	s.keys = all
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return s, nil
}
