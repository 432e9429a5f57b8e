package state

import (
	"context"
	"errors"
	"sync"
	"time"
)

// every is how many entries after the last state make the next one due, if they are also an eighth
// of those before: so all states of a log together are made in the time of a few readings of it.
const every = 1 << 16

// patience is how long Close waits.
const patience = 10 * time.Second

var (
	errGone = errors.New("the store or the signer ended the goroutine")
	errLate = errors.New("it was not made in time")
)

// Due reports whether a state of that many entries is due, if the last one is of that many.
func Due(size, last uint64) bool { return size >= last && size-last >= max(every, last/8) }

// A Keeper has states made when they are due, on a goroutine that ends with each. It is safe for
// concurrent use. A nil Keeper makes none.
type Keeper struct {
	// make makes a state, the last one if so, and returns of how many entries the state in the
	// store is then.
	make   func(ctx context.Context, last bool) (size uint64, err error)
	failed func(error) // is called with its errors

	patience time.Duration // how long Close waits

	mu     sync.Mutex    // protects all below
	size   uint64        // entries of the state in the store; 0 if there is none
	tried  uint64        // entries of the log when the last state was begun: so many more make the next one due
	busy   chan struct{} // closed when the goroutine that makes one ends; nil if there is none
	cancel context.CancelFunc
	closed bool
}

// NewKeeper returns a keeper that has states made by that function. One runs at a time.
func NewKeeper(make func(ctx context.Context, last bool) (uint64, error), failed func(error)) *Keeper {
	return &Keeper{make: make, failed: failed, patience: patience}
}

// Kept notes that the state in the store is of that many entries.
func (k *Keeper) Kept(size uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.size = size
}

// Tried notes that no state could be saved when the log had that many entries.
func (k *Keeper) Tried(size uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = size
}

// Size returns of how many entries the state in the store is, as far as the keeper knows.
func (k *Keeper) Size() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.size
}

// Marked is told of a checkpoint of that many entries. It never waits.
func (k *Keeper) Marked(size uint64) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed && k.busy == nil && Due(size, max(k.size, k.tried)) {
		k.tried = size
		k.start(false)
	}
}

// start makes a state. The caller holds mu.
func (k *Keeper) start(last bool) {
	ctx, cancel := context.WithCancel(context.Background())
	busy := make(chan struct{})
	k.busy, k.cancel = busy, cancel
	go func() {
		size, err := uint64(0), errGone
		defer func() {
			ended := ctx.Err() != nil
			cancel()
			k.mu.Lock()
			k.busy, k.size = nil, max(k.size, size)
			k.mu.Unlock()
			if err != nil && !ended { // else Close has said so
				k.failed(err)
			}
			close(busy)
		}()
		size, err = k.make(ctx, last)
	}()
}

// Close waits for the state that is made and, unless the log was sealed, makes the last one. It
// waits 10 seconds at most. Then the context of make ends, and nothing waits for it any more.
func (k *Keeper) Close(sealed bool) {
	if k == nil {
		return
	}
	timer := time.NewTimer(k.patience)
	defer timer.Stop()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	if !k.wait(timer.C) || sealed {
		return
	}
	k.mu.Lock()
	k.start(true)
	k.mu.Unlock()
	k.wait(timer.C)
}

// wait waits until no state is made. It reports false if the time was over first.
func (k *Keeper) wait(over <-chan time.Time) bool {
	k.mu.Lock()
	busy, cancel := k.busy, k.cancel
	k.mu.Unlock()
	if busy == nil {
		return true
	}
	select {
	case <-busy:
		return true
	case <-over:
		cancel()
		k.failed(errLate)
		return false
	}
}
