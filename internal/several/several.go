// Package several joins errors, so that all that is wrong with a policy is said at once.
package several

import (
	"strconv"
	"strings"
)

// Most is how many errors are listed. What is refused may be made to have many.
const Most = 20

type faults []error

// Join returns an error that wraps errs as errors.Join does, in their order, up to [Most] of them.
// Its text has a line for each, and one that says how many more there are. Join returns nil if
// there is no error, and the error itself if there is one. Errors that it joined before are joined
// one by one.
func Join(errs ...error) error {
	var all faults
	for _, err := range errs {
		all = append(all, All(err)...)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// All returns the errors that Join joined to err, those over Most included. It returns err alone if
// Join did not make it, and nothing if it is nil.
func All(err error) []error {
	if all, ok := err.(faults); ok {
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (all faults) Unwrap() []error { return all[:min(len(all), Most):min(len(all), Most)] }

func (all faults) Error() string {
	var b strings.Builder
	for i, err := range all.Unwrap() {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(err.Error())
	}
	if n := len(all) - Most; n > 0 {
		b.WriteString("\nand " + strconv.Itoa(n) + " more")
	}
	return b.String()
}
