package helm

import (
	"testing"

	"github.com/helmkernel/helm/guardian"
)

// Stacks that are put in place one after the other count together, when the epoch moves: not before.
func TestStacksMoveTogether(t *testing.T) {
	before, after := new(guardian.Policy), new(guardian.Policy)
	root := &Kernel{common: new(common)}
	kernels := []*Kernel{root, {common: root.common, parent: root}}
	for _, k := range kernels {
		k.stack.Store(&stack{policy: before})
	}
	for _, k := range kernels {
		k.stack.Store(&stack{after, 1, before})
		for i, k := range kernels {
			if k.current() != before {
				t.Errorf("kernel %d is ahead of the epoch", i)
			}
		}
	}
	root.epoch.Add(1)
	for i, k := range kernels {
		if k.current() != after {
			t.Errorf("kernel %d did not follow", i)
		}
	}
}
