package forge

import (
	"bytes"
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A quitter is a store that lets go once, when it has been read from so often. Each entry is what
// it is when it is read.
type quitter struct {
	*proofgraph.Memory
	mu   sync.Mutex // protects left
	left int        // reads until then
	drop func(*proofgraph.Memory)
}

func (q *quitter) read() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left--; q.left == 0 {
		q.drop(q.Memory)
	}
}

func (q *quitter) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for i := from; i < to; i++ {
			q.read()
			for e, err := range q.Memory.Entries(ctx, i, i+1) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func (q *quitter) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	q.read()
	return q.Memory.Blob(ctx, d)
}

// TestLetGoMeanwhile: a log whose store lets go of all that may go, at any moment while it is
// verified or packed, is verified, and the report is of what was read; and it is packed, or the
// error says what to do.
func TestLetGoMeanwhile(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	moments, stubs, refused := 0, 0, 0
	for seed := range uint64(2) {
		made := RandomLog(t, 500+seed, 100)
		m := made.Model()
		whole := Shelve(t, m.Build())
		for _, n := range m.sets() {
			n.gone = true
		}
		m.forget()
		m.Build()
		o := evidence.Options{Trust: made.Trust, Origin: Origin}
		for left, over := 1, false; !over; left += 7 * Sample(4) {
			quits := func() *quitter {
				return &quitter{Memory: whole.Fill(t, proofgraph.NewMemory()).(*proofgraph.Memory), left: left,
					drop: func(s *proofgraph.Memory) { m.dropIn(s) }}
			}
			q := quits()
			r, err := evidence.VerifyStore(t.Context(), q, o)
			require.True(t, err == nil && r.Success(0), "log %d, after %d reads: %+v, %v", seed, left, r, err)
			moments++
			over = q.left > 0
			seen := uint64(0)
			for _, x := range r.Condensed {
				seen += x.Stubs
			}
			if seen > 0 {
				stubs++
			}
			q = quits()
			var b bytes.Buffer
			if err := evidence.Write(t.Context(), &b, q, Key(t, made.By)); err != nil {
				require.ErrorContains(t, err, "in the meantime", "log %d, after %d reads", seed, left)
				refused++
				b.Reset()
				require.NoError(t, evidence.Write(t.Context(), &b, q, Key(t, made.By)))
			}
			r, err = verifyBytes(t, b.Bytes(), o)
			require.True(t, err == nil && r.Success(0), "log %d, the pack after %d reads: %+v, %v", seed, left, r, err)
		}
	}
	t.Logf("%d moments; verified with stubs at %d, not packed at %d", moments, stubs, refused)
	assert.True(t, moments >= 40/Sample(4) && stubs >= 10/Sample(4) && refused >= 5/Sample(4) && moments > stubs,
		"too few of something")
}
