package main

import "sync"

// A group gives a store what many callers put while an earlier put was under way as one put. Of
// those who wait one writes for all, as in a HELM log: there is no timer and no goroutine behind
// it. It is what a careful user of that store would build.
type group struct {
	store
	mu      sync.Mutex // protects what follows
	waiting []*waiter
	led     bool // somebody is writing, or was told to
}

type waiter struct {
	items []item
	bell  chan error // nothing else to do: the answer; errLead: write for those who wait
}

type lead struct{}

func (lead) Error() string { return "write for those who wait" }

func (g *group) put(items ...item) error {
	w := &waiter{items, make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if g.led {
		g.mu.Unlock()
		if err := <-w.bell; err != (lead{}) {
			return err
		}
		g.mu.Lock()
	}
	g.led = true
	all := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	var together []item
	for _, w := range all {
		together = append(together, w.items...)
	}
	err := g.store.put(together...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.led = len(g.waiting) > 0; g.led {
		g.waiting[0].bell <- lead{}
	}
	for _, other := range all {
		if other != w {
			other.bell <- err
		}
	}
	return err
}
