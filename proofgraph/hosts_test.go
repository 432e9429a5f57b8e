package proofgraph

import (
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
)

// hosts are sessions as the kernel has them: a chain and a lock, held from the time stamp to the
// signature and not while waiting.
type hosts struct {
	w        *world
	sessions []session
}

type session struct {
	lock  chan struct{} // not a mutex: the bubbles of package synctest do not know those, and a test may sleep under it
	chain *Chain
}

func newHosts(w *world, n int) *hosts {
	h := &hosts{w: w}
	for i := range n {
		h.sessions = append(h.sessions, session{make(chan struct{}, 1), w.log.Chain(fmt.Sprint("session-", i))})
	}
	return h
}

// run has callers write each messages, every other one naming the caller's last. It calls after
// with each outcome.
func (h *hosts) run(callers, each int, after func(s *Slot, err error)) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			write := says(message())
			var parents []contracts.Digest
			for n := range each {
				s, err := h.one(i, write, parents)
				if err == nil {
					err = s.Wait()
				}
				if after != nil {
					after(s, err)
				} else if err != nil {
					h.w.Error(err)
				}
				if err != nil {
					return
				}
				if parents = nil; n%2 == 0 {
					parents = []contracts.Digest{s.Hash()}
				}
			}
		})
	}
	all.Wait()
}

func (h *hosts) one(
	i int, write func(Place) (*contracts.Statement, error), parents []contracts.Digest,
) (*Slot, error) {
	session := &h.sessions[i%len(h.sessions)]
	session.lock <- struct{}{}
	defer func() { <-session.lock }()
	return h.w.log.Place(Draft{Chain: session.chain, Time: max(session.chain.Time(), h.w.options.Now), Parents: parents,
		Write: write})
}
