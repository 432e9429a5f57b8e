//go:build !race

package proofgraph

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
)

// Three allocations an entry are the slot, the signature and the entry itself.
func TestAllocations(t *testing.T) {
	w := opened(t)
	c, st, blob := w.log.Chain("a"), message(), []byte("blob")
	parents := []contracts.Digest{w.log.genesis}
	n := testing.AllocsPerRun(2000, func() {
		s, err := w.log.Place(c, 1000, parents, nil)
		if err == nil {
			err = s.Sign(st, blob)
		}
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 {
		t.Errorf("%v allocations an entry, want 3", n)
	}
}
