package executor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// maxPanic is how many bytes of a panic's text an error shows.
const maxPanic = 256

var errGoexit = errors.New("executor: the driver ended its goroutine (runtime.Goexit)")

// recordPanic notes that the driver did not return. x is nil after runtime.Goexit, which recover
// does not see.
func (r *run) recordPanic(x any) {
	r.reason, r.err = contracts.ReasonToolPanic, errGoexit
	if x != nil {
		r.err = errors.New("executor: the driver panicked")
		r.err = fmt.Errorf("executor: the driver panicked: %s", textOf(x)) // textOf may not return
	}
}

// textOf returns a short text of the value that a driver panicked with. If the value has no text of
// its own, textOf shows its type alone, because the value may hold anything.
func textOf(x any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T whose text cannot be had", x)
		}
	}()
	switch x := x.(type) {
	case error:
		text = x.Error()
	case fmt.Stringer:
		text = x.String()
	case string:
		text = x
	default:
		text = fmt.Sprintf("a %T", x)
	}
	if len(text) > maxPanic {
		text = text[:maxPanic] + " …"
	}
	return strings.ToValidUTF8(text, "")
}
