package evidence

import "github.com/helmkernel/helm/contracts"

// A latest knows the latest time of the entries below any index, but for up to stride of them.
type latest struct {
	at  []contracts.Time // below every stride-th index
	now contracts.Time
}

func (x *latest) add(index uint64, t contracts.Time) {
	if index%stride == 0 {
		x.at = append(x.at, x.now)
	}
	x.now = max(x.now, t)
}

// before returns the latest time of the entries below an index that is from or less, and this
// index.
func (x *latest) before(from uint64) (index uint64, t contracts.Time) {
	return from - from%stride, x.at[from/stride]
}
