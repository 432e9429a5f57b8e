package compile

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A list is named scalars of one type. Of one that was refused plain is nil.
type list struct {
	kind    crypto.Kind
	members []string // canonical text
	plain   *value.Set
	folded  *value.Set // made when a predicate folds
}

func (x *list) set(fold bool) *value.Set {
	if !fold {
		return x.plain
	}
	if x.folded == nil {
		x.folded = value.NewSet(x.members, true)
	}
	return x.folded
}

// readLists reads the lists of a document, by name.
func (r *reader) readLists(p docValue) map[string]*list {
	lists := map[string]*list{}
	if !p.exists() {
		return lists
	}
	r.members(p, func(name string, p docValue) {
		x := &list{}
		lists[name] = x // also if it is refused: a predicate that names it is not to blame
		if !contracts.IsID(name) {
			r.refuse(p.at, quote(name)+" is no name of a list", "use "+formID)
		}
		elements, ok := r.list(p, 1, maxListed)
		if !ok {
			return
		}
		if kind, members, ok := r.scalars(elements); ok {
			x.kind, x.members, x.plain = kind, members, value.NewSet(members, false)
		}
	})
	return lists
}
