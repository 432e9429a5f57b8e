package proofgraph

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// One goroutine of a log over a [Shared] store leads: it writes for all that wait. Who waits leads
// if nobody does.

// place has the leader write an entry, and waits until it is durable. While it waits it may be the
// leader itself.
func (sh *sharing) place(d Draft) (*Slot, error) {
	if err := sh.log.placeable(d.Chain, d.Time); err != nil {
		return nil, err
	}
	if d.Forget != nil {
		return nil, errNotShared
	}
	s := &Slot{chain: d.Chain, waiter: waiter{log: sh.log}, joining: &joining{draft: &d, done: make(chan struct{})}}
	s.blobs = s.blob[:0]
	if err := s.resolve(d.Parents); err != nil {
		return nil, err
	}
	if err := sh.enqueue(s); err != nil {
		return nil, err
	}
	for {
		select {
		case <-s.done:
			if err := s.joining.err; err != nil {
				return nil, err
			}
			return s, nil
		default:
		}
		select {
		case <-s.done:
		case sh.lead <- struct{}{}:
			sh.write()
		case <-sh.log.done:
			if sh.withdraw(s) {
				return nil, sh.log.Err()
			}
			select { // a leader has it, or has put it back meanwhile
			case <-s.done:
			case sh.lead <- struct{}{}:
				sh.write()
			}
		}
	}
}

// resolve finds the parents. Their order is final, but for the one that may be the entry before.
func (s *Slot) resolve(parents []contracts.Digest) error {
	list := slices.Clone(parents)
	slices.SortFunc(list, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
	list = slices.Compact(list)
	s.log.indexMu.RLock()
	defer s.log.indexMu.RUnlock()
	for _, p := range list {
		_, lamport, ok := s.log.lookup(p)
		if !ok {
			return ErrUnknownParent
		}
		s.lamport = max(s.lamport, lamport)
	}
	s.parents = list
	return nil
}

func (sh *sharing) enqueue(s *Slot) error {
	l := sh.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.notSealed(); err != nil {
		return err
	}
	s.seq = s.chain.next
	sh.waiting = append(sh.waiting, s)
	return nil
}

// withdraw takes a slot back that no leader has taken.
func (sh *sharing) withdraw(s *Slot) bool {
	sh.log.mu.Lock()
	defer sh.log.mu.Unlock()
	i := slices.Index(sh.waiting, s)
	if i >= 0 {
		sh.waiting = slices.Delete(sh.waiting, i, i+1)
	}
	return i >= 0
}

// write writes what is waiting, as much as fits in a batch, and ends the lead, which the caller
// has. If anything fails of which it is not known that nothing was written, the log is sealed.
func (sh *sharing) write() {
	l, b := sh.log, &joint{sharing: sh}
	sh.gather()
	l.mu.Lock()
	slots := slices.Clone(sh.waiting[:min(len(sh.waiting), maxBatchEntries)])
	sh.waiting = sh.waiting[len(slots):]
	l.mu.Unlock()
	err := errGone
	defer func() { // on every way out: a store may panic, or end the goroutine
		if x := recover(); x != nil {
			err = contain.Describe("proofgraph: writing the record, or the store", x)
		}
		if err != nil {
			l.Seal(err)
			b.fail(slots)
		}
		<-sh.lead
	}()
	if sealed := l.Err(); sealed != nil {
		err = sealed
		return
	}
	err = b.write(slots)
}

// gather lets callers come back whose entries have just become durable, so that their next ones go
// with this batch.
func (sh *sharing) gather() {
	for before := 0; ; {
		sh.log.mu.Lock()
		n := len(sh.waiting)
		sh.log.mu.Unlock()
		if n <= before || n >= maxBatchEntries {
			return
		}
		before = n
		runtime.Gosched()
	}
}

func (s *Slot) giveBack(err error) {
	s.joining.err = err
	close(s.done)
}

// alone does what the leader alone may do, unless the log is sealed: it does not go on with what an
// append that failed may have written.
func (sh *sharing) alone(ctx context.Context, what string, do func() error) error {
	return sh.led(ctx, what, func() error {
		if err := sh.log.Err(); err != nil {
			return err
		}
		return do()
	})
}

// led does something as the leader. If the writer is fenced the log is sealed.
func (sh *sharing) led(ctx context.Context, what string, do func() error) (err error) {
	defer contain.Error(&err, "proofgraph: "+what+": the store")
	select {
	case sh.lead <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-sh.lead }()
	gone := true
	defer func() { // a panic, or the end of the goroutine: what the writer has done is unknown
		if gone {
			sh.log.Seal(errGone)
		}
	}()
	err = do()
	if gone = false; errors.Is(err, ErrFenced) {
		sh.log.Seal(err)
	}
	return err
}
