package sharedmem

import (
	"testing"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
)

func TestContract(t *testing.T) {
	t.Parallel()
	helmtest.Shared(t, func(*testing.T) func() proofgraph.Shared {
		s := New()
		return func() proofgraph.Shared { return s }
	})
}
