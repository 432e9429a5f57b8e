// Package stub says which line may take the place of an entry in a store.
package stub

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
)

// Replaces reports whether a line is to take the place of an entry: the line is a stub of it, and
// the entry is not a stub already. A line that is no stub, or that of another entry, is an error.
func Replaces(r *contracts.Reader, entry contracts.Entry, line []byte) (bool, error) {
	if !contracts.IsStub(line) {
		return false, errors.New("not a stub")
	}
	of, err := r.Leaf(line)
	if err != nil {
		return false, err
	}
	is, err := r.Leaf(entry)
	switch {
	case err != nil:
		return false, err
	case of != is:
		return false, errors.New("the stub of another entry")
	}
	return !contracts.IsStub(entry), nil
}
