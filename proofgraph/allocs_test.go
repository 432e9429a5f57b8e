//go:build !race

package proofgraph

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/stretchr/testify/assert"
)

// Two allocations an entry are the slot and the entry itself.
func TestAllocations(t *testing.T) {
	w := opened(t)
	c, st, blob := w.log.Chain("a"), message(), []byte("blob")
	parents := []contracts.Digest{w.log.genesis}
	write := says(st, blob)
	n := testing.AllocsPerRun(2000, func() {
		s, err := w.log.Place(Draft{Chain: c, Time: 1000, Parents: parents, Write: write})
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	assert.True(t, n <= 2, "%v allocations an entry, want 2", n)
}
