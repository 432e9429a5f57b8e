// Package notary makes the checkpoints of a log when they are due: so many durable entries after
// the last one, or so long after the first of them. Each is made on a goroutine that ends with it,
// and nothing waits for it. While there is no entry after the last checkpoint there is no goroutine
// and no timer.
package notary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

// Options say when checkpoints are made, how, and who is told.
type Options struct {
	Every uint64        // durable entries since the last one; 0: no number makes one due
	After time.Duration // since the first durable entry after the last one; 0: no time makes one due

	// Sign makes a checkpoint and, before it returns, has Grown called.
	Sign func(context.Context) (proofgraph.Checkpoint, error)

	// Failed is called with the error of a checkpoint that was due.
	Failed func(error)

	// Done, if it is not nil, is called with each checkpoint that Made was told of, in order of
	// size and one at a time: with the latest alone of those that were made while it ran.
	Done func(context.Context, proofgraph.Checkpoint)
}

// A Notary makes checkpoints when they are due. It is safe for concurrent use.
type Notary struct {
	o      Options
	ctx    context.Context // of Done
	cancel context.CancelFunc

	mu      sync.Mutex // protects all below; held briefly
	open    bool
	size    uint64 // durable entries
	marked  uint64 // of which the latest checkpoint is
	tried   uint64 // size at the last attempt
	timer   *time.Timer
	making  chan struct{} // closed when the goroutine that makes one ends; nil if there is none
	latest  *proofgraph.Checkpoint
	handed  uint64        // size of the last one that Done was called with
	handing chan struct{} // closed when the goroutine that calls Done ends; nil if there is none
}

// doneTime is how long Close waits for Done, and for its own checkpoint.
const doneTime = 10 * time.Second

var errEnded = errors.New("checkpoint: the signer or the store ended the goroutine")

// New returns a notary that makes no checkpoint before Begin.
func New(o Options) *Notary {
	n := &Notary{o: o}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Begin lets checkpoints be made.
func (n *Notary) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = true
	n.plan()
}

// Grown is told how far the log is durable, and of how many entries its latest checkpoint is. It
// never waits, so the log's lock may be held.
func (n *Notary) Grown(size, marked uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size, n.marked = size, marked
	n.plan()
}

// plan makes a checkpoint if one is due, and sees to it that one will be. The caller holds mu.
func (n *Notary) plan() {
	switch from := max(n.marked, n.tried); {
	case !n.open || n.making != nil:
	case n.size == n.marked:
		n.disarm()
	case n.o.Every > 0 && n.size-from >= n.o.Every:
		n.start()
	case n.o.After > 0 && n.timer == nil:
		n.timer = time.AfterFunc(n.o.After, n.elapsed)
	}
}

func (n *Notary) disarm() {
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// elapsed is called by the timer.
func (n *Notary) elapsed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timer = nil
	if n.open && n.making == nil && n.size > n.marked {
		n.start()
	}
}

// start makes a checkpoint. The caller holds mu.
func (n *Notary) start() {
	n.disarm()
	n.tried, n.making = n.size, make(chan struct{})
	go func() {
		err := errEnded // a signer may end the goroutine
		defer func() {
			n.mu.Lock()
			close(n.making)
			n.making = nil
			n.open = n.open && !errors.Is(err, proofgraph.ErrSealed)
			n.plan()
			n.mu.Unlock()
			if err != nil {
				n.o.Failed(err)
			}
		}()
		_, err = n.o.Sign(context.Background())
	}()
}

// Made is told of each checkpoint that was made, and hands it to Done.
func (n *Notary) Made(c proofgraph.Checkpoint) {
	if n.o.Done == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.Size < n.handed || n.latest != nil && c.Size < n.latest.Size {
		return
	}
	n.latest = &c
	if n.handing == nil {
		n.handing = make(chan struct{})
		go n.hand()
	}
}

// hand calls Done with the latest checkpoint until there is no later one.
func (n *Notary) hand() {
	over := false
	defer func() {
		if !over { // Done ended the goroutine
			go n.hand()
		}
	}()
	for c := n.next(); c != nil; c = n.next() {
		func() {
			defer contain.Drop()
			n.o.Done(n.ctx, *c)
		}()
	}
	over = true
}

// next returns the checkpoint to hand on; nil if there is none, and then the goroutine ends.
func (n *Notary) next() *proofgraph.Checkpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.latest
	n.latest = nil
	if c == nil {
		close(n.handing)
		n.handing = nil
		return nil
	}
	n.handed = c.Size
	return c
}

// Close makes the last checkpoint, if there are entries after the one before and the log is not
// sealed, and waits for Done. If Done does not return in time its context ends.
func (n *Notary) Close(sealed bool) error {
	n.mu.Lock()
	n.open = false
	n.disarm()
	making := n.making
	n.mu.Unlock()
	if making != nil {
		<-making
	}
	n.mu.Lock()
	due := !sealed && (n.o.Every > 0 || n.o.After > 0) && n.size > n.marked
	n.mu.Unlock()
	var err error
	if due {
		ctx, cancel := context.WithTimeout(context.Background(), doneTime)
		if _, err = n.o.Sign(ctx); err != nil {
			err = fmt.Errorf("the last checkpoint: %w", err)
		}
		cancel()
	}
	n.mu.Lock()
	handing := n.handing
	n.mu.Unlock()
	if handing != nil {
		patience := time.NewTimer(doneTime)
		defer patience.Stop()
		select {
		case <-handing:
		case <-patience.C:
		}
	}
	n.cancel()
	return err
}
