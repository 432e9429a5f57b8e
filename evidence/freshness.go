package evidence

import (
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/proofgraph"
)

// reached compares the log with the last checkpoint, once it has its size.
func (v *fold) reached() *Error {
	if v.last == nil || v.history != None || v.last.Size > v.size() {
		return nil
	}
	root := v.tree.Root()
	if v.last.Size == 0 { // the log has its genesis by now
		root = new(proofgraph.Tree).Root()
	}
	same, err := lastseen.Compare(v.last.Checkpoint, v.last.lines, root, v.state)
	if err != nil {
		return newError(ErrInput, "Last", err.Error())
	}
	v.history = Diverged
	if same {
		v.history = Fresh
	}
	return nil
}
