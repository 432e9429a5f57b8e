package policytest

import (
	"context"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Cover counts what the calls of a log evaluated in the documents of the policy that judged them.
// trust is the state that the log began with. Units have no Cases. A call that another policy
// judged is an error, and so is one whose inputs were erased. Cover verifies nothing: package
// evidence does.
func Cover(
	ctx context.Context, log proofgraph.Store, trust *registry.State, policy *guardian.Policy,
) (Coverage, error) {
	var m marks
	if err := explained.Calls(ctx, log, trust, []*guardian.Policy{policy}, false, m.add); err != nil {
		return Coverage{}, err
	}
	counts := newCounter(&Suite{policy: policy})
	counts.add(0, m)
	c := counts.coverage()
	for i := range c.Units {
		c.Units[i].Cases = nil
	}
	return c, nil
}
