package peers

import "sync"

// A Group makes one put to a store of the items that many callers put while an earlier put was
// under way. One of the waiting callers writes for all, as in a HELM log: there is no timer and no
// goroutine for it. A careful user of that store would build the same.
type Group struct {
	Store
	mu      sync.Mutex // protects the fields below
	waiting []*waiter
	led     bool // a caller is writing, or was told to
}

type waiter struct {
	items []Item
	bell  chan error // the result, if there is nothing else to do; errLead: write for those who wait
}

type lead struct{}

func (lead) Error() string { return "write for those who wait" }

// Put waits until the items are stored.
func (g *Group) Put(items ...Item) error {
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
	var together []Item
	for _, w := range all {
		together = append(together, w.items...)
	}
	err := g.Store.Put(together...)
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
