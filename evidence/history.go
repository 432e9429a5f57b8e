package evidence

import (
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// reached compares the root with that of the last checkpoint, where the log has its size.
func (v *verifier) reached() *Error {
	if v.last == nil || v.report.History != None || v.last.Size > v.size() {
		return nil
	}
	keys := v.state.Keys(registry.Log, v.last.Size)
	for _, l := range v.last.lines {
		if claimed, valid := v.last.by(l, keys); claimed && !valid {
			return &Error{ErrInput, -1, "Last", "a line of a log key does not verify: it was changed since it was kept, or is not of this log", nil}
		}
	}
	var none proofgraph.Tree
	root := v.tree.Root()
	if v.last.Size == 0 {
		root = none.Root()
	}
	v.report.History = Fresh
	if v.last.Root != root {
		v.report.History = Diverged
	}
	return nil
}
