package helm

import (
	"errors"
	"sync"
	"time"
)

// life is what Close needs to know of the calls inside a kernel. Those inside a narrowed one are inside the root, too.
type life struct {
	mu      sync.Mutex // protects all below
	calls   int
	longest time.Duration // time limit of any call that ever came in
	idle    chan struct{} // while Close waits: closed when the last call has left
	over    chan struct{} // from Close on: closed when it is done
}

var (
	errStillRunning  = errors.New("helm: close: calls were still running; the next New over the store settles them")
	errStillRecorded = errors.New("helm: close: calls were still running; they are recorded when they end")
)

// enter counts a call in, which runs no longer than limit; leave counts it out. A kernel that is sealed or closed lets none in, and the
// error says which.
func (k *Kernel) enter(limit time.Duration) error {
	if err := k.log.Err(); err != nil {
		return err
	}
	if !k.root.life.enter(limit) {
		return errClosed
	}
	if k.parent != nil && !k.life.enter(limit) {
		k.root.life.leave()
		return errClosed
	}
	return nil
}

func (k *Kernel) leave() {
	if k.parent != nil && k.life.leave() {
		k.forget()
	}
	k.root.life.leave()
}

// expect says of a call inside that its limit is another one.
func (k *Kernel) expect(limit time.Duration) {
	k.root.life.expect(limit)
	if k.parent != nil {
		k.life.expect(limit)
	}
}

// enter is false where the kernel is closed.
func (l *life) enter(limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return false
	}
	l.calls++
	l.longest = max(l.longest, limit)
	return true
}

func (l *life) expect(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, limit)
}

// leave tells whether that was the last call that there will be.
func (l *life) leave() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	return l.calls == 0 && l.over != nil
}

// Close lets no new call in and waits for those inside, at most as long as the longest time limit of a tool that was ever called. After it
// nothing is written any more. The store is closed by whoever opened it. Closing again waits for the first Close and does nothing else.
//
// To close the kernel that [New] made is to close all that were narrowed from it, whose calls are waited for likewise. A narrowed kernel
// closes itself alone: not its parent, nor what was narrowed from it. Calls that it did not wait for are recorded when they end.
func (k *Kernel) Close() error {
	if k.none() {
		return errNoKernel
	}
	l := &k.life
	l.mu.Lock()
	if over := l.over; over != nil {
		l.mu.Unlock()
		<-over
		return nil
	}
	over, idle, limit := make(chan struct{}), make(chan struct{}), l.longest
	defer close(over)
	l.over = over
	if l.calls > 0 {
		l.idle = idle
	} else {
		close(idle)
	}
	last := l.calls == 0
	l.mu.Unlock()
	if k.parent != nil && last {
		k.forget()
	}
	patience := time.NewTimer(limit + time.Second) // receipts have to be written too
	defer patience.Stop()
	var err error
	select {
	case <-idle:
	case <-patience.C:
		err = errStillRunning
		if k.parent != nil {
			err = errStillRecorded
		}
	}
	if k.parent == nil {
		k.log.Seal(errClosed)
	}
	return err
}
