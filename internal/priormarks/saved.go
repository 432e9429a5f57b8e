package priormarks

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/helmkernel/helm/guardian/past"
)

var errMark = errors.New("a mark that is not one of the log's")

// A change says which mark a session has from an entry on, to the next change.
type change struct {
	index uint64
	mark  past.Mark
}

// MarshalJSON returns [index, mark].
func (c change) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]uint64{c.index, uint64(c.mark)})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (c *change) UnmarshalJSON(b []byte) error {
	var pair [2]uint64
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	*c = change{pair[0], past.Mark(pair[1])}
	return nil
}

// Changes are those of all sessions that have marks, by their names, of the closed ones too.
type Changes map[string][]change

// Changes returns those of the entries that were restored, and of a fold that was loaded.
func (f *Fold) Changes() Changes { return f.changes }

// At returns the mark that a session had just after its entry at an index, or after the last of its
// entries before it.
func (x Changes) At(session string, index uint64) past.Mark {
	list := x[session]
	n, found := slices.BinarySearchFunc(list, index, func(c change, i uint64) int { return cmp.Compare(c.index, i) })
	if found {
		return list[n].mark
	}
	if n == 0 {
		return 0
	}
	return list[n-1].mark
}

// MarshalJSON returns the marks of all sessions that have some, once they were restored. It has the
// form of package past: no text, and of the log's own what [past.Marks] has.
func (f *Fold) MarshalJSON() ([]byte, error) { return json.Marshal(f.changes) }

// Load sets a fold of no entries to one of the first entries, which was saved. Policies that these
// name are to be added again.
func (f *Fold) Load(saved []byte, m *past.Marks, size uint64) error {
	if err := json.Unmarshal(saved, &f.changes); err != nil {
		return err
	}
	if f.changes == nil {
		return errMark
	}
	f.base = size
	for _, list := range f.changes {
		for i, c := range list {
			if !new(past.Session).Resume(m, c.mark) || c.index >= size || i > 0 && c.index <= list[i-1].index {
				return errMark
			}
		}
	}
	return nil
}
