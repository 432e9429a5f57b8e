package otel

import (
	"sync"
	"sync/atomic"
)

// live are the runs that have a span by Driver, until Observe has heard of them.
type live struct {
	mu    sync.Mutex
	known map[string]*run // by decision
	order []string        // as they came; those that are not known any more are dropped at times
}

// A run is one whose span Driver began.
type run struct {
	decision string
	observed atomic.Bool // the call is over
}

// mostLive is how many runs are remembered. If no Observe hears of them the oldest are forgotten.
const mostLive = 1 << 14

func (l *live) begin(decision string) *run {
	r := &run{decision: decision}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*run{}
	}
	if len(l.order) >= mostLive {
		l.shed()
	}
	l.known[decision] = r
	l.order = append(l.order, decision)
	return r
}

// shed drops from the order what is not known any more and, if much is left, forgets the older
// half.
func (l *live) shed() {
	kept := l.order[:0]
	for _, d := range l.order {
		if l.known[d] != nil {
			kept = append(kept, d)
		}
	}
	if half := len(kept) / 2; len(kept) > mostLive/2 {
		for _, d := range kept[:half] {
			delete(l.known, d)
		}
		kept = append(kept[:0], kept[half:]...)
	}
	l.order = kept
}

// observe reports whether the run of a decision has a span, and forgets it.
func (l *live) observe(decision string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.known[decision]
	delete(l.known, decision)
	if r != nil {
		r.observed.Store(true)
	}
	return r != nil
}
