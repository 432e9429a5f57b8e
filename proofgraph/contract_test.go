package proofgraph_test

import (
	"testing"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
)

func TestMemoryContract(t *testing.T) {
	t.Parallel()
	helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store { return m }
	})
}
