package evidence

import (
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// reached compares the root with that of the last checkpoint, once the log has its size.
func (v *fold) reached() *Error {
	if v.last == nil || v.history != None || v.last.Size > v.size() {
		return nil
	}
	keys := v.state.Keys(registry.Log, v.last.Size)
	for _, l := range v.last.lines {
		if claimed, valid := v.last.by(l, keys); claimed && !valid {
			return newError(ErrInput, "Last",
				"a line of a log key does not verify: it was changed since it was kept, or is not of this log")
		}
	}
	var none proofgraph.Tree
	root := v.tree.Root()
	if v.last.Size == 0 {
		root = none.Root()
	}
	v.history = Fresh
	if v.last.Root != root {
		v.history = Diverged
	}
	return nil
}
