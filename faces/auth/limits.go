package auth

import (
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
)

// denials counts the denied calls of a caller, so that a model does not fill the log.
type denials struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	minute time.Time
	counts map[crypto.Digest]int
}

func newDenials(most int, now func() time.Time) *denials {
	return &denials{most: most, now: now, counts: map[crypto.Digest]int{}}
}

// callers is how many callers are counted; of more than that all are over the limit.
const callers = 1 << 16

func (d *denials) turn() {
	now := d.now()
	if since := now.Sub(d.minute); since >= time.Minute || since < 0 {
		d.minute = now
		clear(d.counts)
	}
}

// MayAsk reports whether a call of the caller is judged. If it is not, the caller has been denied
// too often in this minute, and the call is to be refused unjudged, without a receipt.
func (a *Auth) MayAsk(c helm.Caller) bool {
	d := a.denials
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn()
	id := identify(c)
	n, known := d.counts[id]
	return n < d.most && (known || len(d.counts) < callers)
}

// Denied counts a call that was denied.
func (a *Auth) Denied(c helm.Caller) {
	d := a.denials
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn()
	if id := identify(c); d.counts[id] > 0 || len(d.counts) < callers {
		d.counts[id]++
	}
}
