package executor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// maxPanic is how many bytes of what a driver panicked with an error shows.
const maxPanic = 256

var errGoexit = errors.New("executor: the driver ended its goroutine (runtime.Goexit)")

// panicked notes that the driver did not return. x is nil where it called runtime.Goexit, which no recover sees.
func (r *run) panicked(x any) {
	r.reason, r.err = contracts.ReasonToolPanic, errGoexit
	if x != nil {
		r.err = errors.New("executor: the driver panicked")
		r.err = fmt.Errorf("executor: the driver panicked: %s", textOf(x)) // which may not come back
	}
}

// textOf is what a driver panicked with, in few words. Of a value that has none it shows the type: the value may hold anything.
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
