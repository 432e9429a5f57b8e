package archivist

import (
	"context"
	"time"

	"github.com/helmkernel/helm/proofgraph"
)

const piece = 1 << 10 // lines from one rest to the next

// A pace leaves calls most of the time while a log is read for long.
type pace struct {
	store  proofgraph.Store
	lines  int
	size   uint64
	worked time.Time // since then
}

// line is called after each line. If the log grew during a piece of work, appends have six
// sevenths of the time.
func (p *pace) line(ctx context.Context) {
	if p.lines++; p.lines%piece != 0 {
		return
	}
	if size, err := p.store.Size(ctx); err == nil && size != p.size { // the reading finds the error
		if p.size != 0 {
			time.Sleep(min(6*time.Since(p.worked), time.Second))
		}
		p.size = size
	}
	p.worked = time.Now()
}
