package helmtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// perBatch is how many entries a batch has that is written while others read. Each entry has a
// blob, each batch a checkpoint.
const perBatch = 3

func numbered(from int) (b proofgraph.Batch) {
	b.At = uint64(from)
	for i := from; i < from+perBatch; i++ {
		b.Entries = append(b.Entries, fmt.Appendf(nil, "entry %d", i))
		b.Blobs = append(b.Blobs, fmt.Appendf(nil, "blob of entry %d", i))
	}
	b.Checkpoint = strconv.AppendInt(nil, int64(from+perBatch), 10)
	return b
}

// Four goroutines read while one writes, until they have looked often enough.
func wholeBatches(t *trial) {
	var (
		all     sync.WaitGroup
		written atomic.Bool
		looks   atomic.Int64
		torn    atomic.Bool // a reader has seen a fault
	)
	defer all.Wait()
	defer written.Store(true)
	const readers = 4
	for range readers {
		all.Go(func() {
			r := reader{trial: t}
			for last := false; !last; {
				last = written.Load()
				if !r.look(t.store) {
					torn.Store(true)
					return
				}
				looks.Add(1)
			}
		})
	}
	for i := range 4000 {
		if torn.Load() || i >= t.some(200) && looks.Load() >= 50*readers {
			break
		}
		t.append(numbered(i * perBatch))
	}
	written.Store(true)
	all.Wait()
	t.same()
}

// A reader looks at a store that numbered batches are written to.
type reader struct {
	*trial
	size uint64 // seen last
}

func (r *reader) look(s proofgraph.Store) bool {
	size, err := s.Size(r.ctx)
	if err != nil || size < r.size || size%perBatch != 0 {
		r.Errorf("while others append, Size gives %d (%v) after %d, in batches of %d", size, err, r.size, perBatch)
		return false
	}
	r.size = size
	marked := uint64(0) // the size that the checkpoint names
	c, err := s.Checkpoint(r.ctx)
	if c != nil && err == nil {
		marked, err = strconv.ParseUint(string(c), 10, 64)
	}
	if err != nil || marked < size {
		r.Errorf("while others append, a reader sees %d entries and then the checkpoint of %d (%v), which came "+
			"with fewer", size, marked, err)
		return false
	}
	if later, err := s.Size(r.ctx); err != nil || later < marked {
		r.Errorf("while others append, a reader sees the checkpoint of %d entries and then only %d of them (%v)",
			marked, later, err)
		return false
	}
	i := size - min(size, 30)
	for e, err := range s.Entries(r.ctx, i, size) {
		if err != nil || string(e) != fmt.Sprintf("entry %d", i) {
			r.Errorf("while others append, entry %d of %d is %s (%v)", i, size, brief(e), err)
			return false
		}
		blob := fmt.Sprintf("blob of entry %d", i)
		if b, err := s.Blob(r.ctx, crypto.Sum([]byte(blob))); err != nil || string(b) != blob {
			r.Errorf("while others append, a reader sees entry %d and not its blob (%v)", i, err)
			return false
		}
		i++
	}
	if i != size {
		r.Errorf("while others append, the entries to %d end at %d", size, i)
		return false
	}
	return true
}
