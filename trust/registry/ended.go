package registry

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// maxLate is how many delegations end before they are taken into the sorted list, which is copied
// then.
const maxLate = 256

// ended are the delegations that were revoked. States share them: those of most events in one list,
// so that an event does not copy them all. The zero ended is empty.
type ended struct {
	sorted []contracts.Digest
	late   []contracts.Digest // the latest, as they came
}

func (e ended) len() int { return len(e.sorted) + len(e.late) }

func (e ended) has(d contracts.Digest) bool {
	_, ok := slices.BinarySearchFunc(e.sorted, d, compareDigests)
	return ok || slices.Contains(e.late, d)
}

// with returns e and d, and leaves e as it is.
func (e ended) with(d contracts.Digest) ended {
	e.late = append(slices.Clip(e.late), d)
	if len(e.late) > maxLate {
		return ended{sorted: e.all()}
	}
	return e
}

// all returns the delegations in order. The caller does not change them.
func (e ended) all() []contracts.Digest {
	if len(e.late) == 0 {
		return e.sorted
	}
	late := slices.SortedFunc(slices.Values(e.late), compareDigests)
	out := make([]contracts.Digest, 0, e.len())
	for _, d := range e.sorted {
		for len(late) > 0 && compareDigests(late[0], d) < 0 {
			out, late = append(out, late[0]), late[1:]
		}
		out = append(out, d)
	}
	return append(out, late...)
}
