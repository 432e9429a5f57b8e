package helm

import (
	"errors"
	"sync"
	"time"
)

// life is what Close needs to know of the calls inside a kernel.
type life struct {
	mu      sync.Mutex // protects all below
	calls   int
	longest time.Duration // time limit of any call that ever came in
	idle    chan struct{} // while Close waits: closed when the last call has left
	over    chan struct{} // from Close on: closed when it is done
}

// enter counts a call in, which runs no longer than limit; leave counts it out. A kernel that is sealed or closed lets none in, and the
// error says which.
func (k *Kernel) enter(limit time.Duration) error {
	if err := k.log.Err(); err != nil {
		return err
	}
	l := &k.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return errClosed
	}
	l.calls++
	l.longest = max(l.longest, limit)
	return nil
}

func (k *Kernel) leave() {
	l := &k.life
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Close lets no new call in and waits for those inside, at most as long as the longest time limit of a tool that was ever called. After it
// nothing is written any more. The store is closed by whoever opened it. Closing again waits for the first Close and does nothing else.
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
	l.mu.Unlock()
	patience := time.NewTimer(limit + time.Second) // receipts have to be written too
	defer patience.Stop()
	var err error
	select {
	case <-idle:
	case <-patience.C:
		err = errors.New("helm: close: calls were still running; the next New over the store settles them")
	}
	k.log.Seal(errClosed)
	return err
}
