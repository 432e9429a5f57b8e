package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/guardian"
)

// Stacks that are put in place one after the other count together, when the epoch moves: not
// before.
func TestStacksMoveTogether(t *testing.T) {
	t.Parallel()
	before, after := new(guardian.Policy), new(guardian.Policy)
	root := &Kernel{shared: new(shared)}
	kernels := []*Kernel{root, {shared: root.shared, parent: root}}
	for _, k := range kernels {
		k.stack.Store(&stack{policy: before})
	}
	for _, k := range kernels {
		k.stack.Store(&stack{after, 1, before})
		for i, k := range kernels {
			assert.Same(t, before, k.current(), "kernel %d is ahead of the epoch", i)
		}
	}
	root.shared.epoch.Add(1)
	for i, k := range kernels {
		assert.Same(t, after, k.current(), "kernel %d did not follow", i)
	}
}
