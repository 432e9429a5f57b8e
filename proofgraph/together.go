package proofgraph

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/internal/contain"
)

var errEnded = errors.New("proofgraph: signing: the goroutine was ended")

// together calls do for each of n numbers from 0 on, on so many goroutines, and returns the error
// of the first number that has one. A panic in do is an error. One goroutine is the caller's.
func together(n, goroutines int, do func(i int) error) error {
	contained := func(i int) (err error) {
		defer contain.Error(&err, "proofgraph: signing")
		return do(i)
	}
	if goroutines == 1 {
		for i := range n {
			if err := contained(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := slices.Repeat([]error{errEnded}, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = contained(i)
			}
		})
	}
	all.Wait()
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}
