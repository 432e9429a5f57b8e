package helmtest

import (
	"context"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// sharedOrigin is the origin of the logs that the suite keeps in shared stores.
const sharedOrigin = "helm.test/shared"

// An appender is a shared store whose Append is a turn, so that the promises of a store are tested
// of it. All entries are of one session.
type appender struct {
	proofgraph.Shared
	mu     sync.Mutex // held across an append; protects writer
	writer proofgraph.Writer
}

func (a *appender) Append(ctx context.Context, b proofgraph.Batch) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writer == nil {
		if a.writer, err = a.Join(ctx, sharedOrigin); err != nil {
			a.writer = nil
			return err
		}
	}
	defer func() {
		if err != nil {
			a.writer.Leave(context.WithoutCancel(ctx)) // after an error it is of no more use
			a.writer = nil
		}
	}()
	state, err := a.writer.Turn(ctx, proofgraph.Ask{})
	if err != nil {
		return err
	}
	if b.At != state.Size {
		if err := a.writer.End(ctx, proofgraph.Change{}); err != nil {
			return err
		}
		return proofgraph.ErrConflict
	}
	return a.writer.End(ctx, oneSession(b))
}

// oneSession returns the change that writes a batch to the log of an appender.
func oneSession(b proofgraph.Batch) proofgraph.Change {
	c := proofgraph.Change{Batch: b}
	if n := len(b.Entries); n > 0 {
		c.Of = make([]string, n)
		for i := range c.Of {
			c.Of[i] = "all"
		}
		c.Sessions = map[string]proofgraph.End{
			"all": {Next: b.At + uint64(n), Last: contracts.Entry(b.Entries[n-1]).Hash()},
		}
	}
	return c
}
