package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// A load has agents pay a euro again and again, each in a session of its own and with keys. It ends
// when a call fails, or has another reason than those that are expected.
type load struct {
	client client
	expect []contracts.ReasonCode
	stop   context.CancelFunc
	ended  chan struct{} // closed when all agents have ended

	mu       sync.Mutex // protects the fields below
	payments int
	wanted   map[string]bool // replicas of which an answer is waited for
	came     chan struct{}   // closed when they have answered
	err      error
}

const (
	loadAgents = 4
	loadPause  = 10 * time.Millisecond // after each call, so that some of the budget is left
)

// newLoad returns when the agents have looked up whom they pay, and begin to.
func newLoad(ctx context.Context, c client, name string, expect ...contracts.ReasonCode) (*load, error) {
	session := func(i int) string { return fmt.Sprintf("%s-%d", name, i) }
	if err := together(loadAgents, func(i int) error {
		a, err := c.call(ctx, look(session(i), "ada"), "")
		return errors.Join(err, a.must(contracts.ReasonAllow))
	}); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	l := &load{client: c, expect: expect, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.err = together(loadAgents, func(i int) error {
			defer stop()
			return l.agent(ctx, session(i))
		})
	}()
	return l, nil
}

func (l *load) agent(ctx context.Context, session string) (err error) {
	for n := 1; err == nil && ctx.Err() == nil; n++ {
		err = l.pay(context.WithoutCancel(ctx), session, fmt.Sprintf("pay-%d", n)) // what was begun is waited for
		select {
		case <-ctx.Done():
		case <-time.After(loadPause):
		}
	}
	return err
}

func (l *load) pay(ctx context.Context, session, key string) error {
	a, err := l.client.call(ctx, pay(session, "ada", 1), key)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payments++
	if delete(l.wanted, a.Replica); l.came != nil && len(l.wanted) == 0 {
		close(l.came)
		l.came = nil
	}
	if slices.Contains(l.expect, a.Reason) {
		return nil
	}
	return a.must(l.expect[0])
}

// until returns when each of the replicas has answered a call, or the load has ended.
func (l *load) until(names ...string) {
	came := make(chan struct{})
	l.mu.Lock()
	l.wanted, l.came = map[string]bool{}, came
	for _, name := range names {
		l.wanted[name] = true
	}
	l.mu.Unlock()
	select {
	case <-came:
	case <-l.ended:
	}
}

// end ends the load, and returns how many payments there were.
func (l *load) end() (payments int, err error) {
	l.stop()
	<-l.ended
	return l.payments, l.err
}

// together calls f for 0 to n-1 side by side.
func together(n int, f func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
