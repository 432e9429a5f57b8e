package executor

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

var errGoexit = errors.New("executor: the driver ended its goroutine (runtime.Goexit)")

// recordPanic notes that the driver did not return. x is nil after runtime.Goexit, which recover
// does not see. The error names the type of the value, not its text: the tool wrote that, and
// errors are logged.
func (r *run) recordPanic(x any) {
	r.reason, r.err = contracts.ReasonToolPanic, errGoexit
	switch x := x.(type) {
	case nil:
	case contain.Fault:
		r.err = errors.New("executor: " + string(x))
	default:
		r.err = contain.Describe("executor: the driver", x)
	}
}
