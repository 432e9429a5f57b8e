package drivers

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
)

// Patience is how long a driver has to declare what it is.
const Patience = 10 * time.Second

var (
	// ErrEnded is returned by Ask if the caller waits no longer.
	ErrEnded = errors.New("the caller waits no longer")

	errSilent = errors.New("the driver has not declared itself for 10 s")
	errGoexit = errors.New("the driver's declaration ended its goroutine")
)

// A Declaration is what a driver says of itself.
type Declaration struct {
	Definition contracts.Digest // that it serves; zero: none
	Cell       *cell.Cell       // its claim to a sandbox, as it was; nil: none
	Wraps      bool             // its cell is another driver's, or runs nothing
}

// A question asks a driver for its declaration. A driver may never answer, so each question has a
// goroutine of its own.
type question struct {
	Declaration
	err      error
	answered chan struct{} // closed when the above is written
	phase    atomic.Uint32
	end      func() // counts the goroutine out; nil unless it was abandoned
}

const (
	asked = iota
	answered
	forsaken
)

// Ask asks a driver that declares a definition or a sandbox, or both; each may be nil. It waits
// until done is closed, and not for ever. Then the goroutine is abandoned, of which a tool may not
// have too many.
func (a *Abandoned) Ask(
	tool string, d executor.Defined, s executor.Sandboxed, done <-chan struct{},
) (Declaration, error) {
	if d == nil && s == nil {
		return Declaration{}, nil
	}
	if err := a.Check(tool); err != nil {
		return Declaration{}, err
	}
	q := &question{err: errGoexit, answered: make(chan struct{})}
	go q.put(d, s)
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	var err error
	select {
	case <-q.answered:
		return q.Declaration, q.err
	case <-limit.C:
		err = errSilent
	case <-done:
		err = ErrEnded
	}
	q.end = a.Add(tool)
	if !q.phase.CompareAndSwap(asked, forsaken) { // it answered just now
		q.end()
	}
	return Declaration{}, err
}

// put is the goroutine of a question.
func (q *question) put(d executor.Defined, s executor.Sandboxed) {
	defer q.leave()
	defer contain.Error(&q.err, "the driver's declaration")
	if d != nil {
		q.Definition = d.Definition()
	}
	if s != nil {
		q.Cell = cell.Take(s.Cell(), s)
		q.Wraps = q.Cell == nil
	}
	q.err = nil
}

// leave is called on every way out of the goroutine.
func (q *question) leave() {
	if q.phase.CompareAndSwap(asked, answered) {
		close(q.answered)
	} else {
		q.end()
	}
}
