package replicas

import (
	"context"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// A hashed is a store that notes from which entry on it is read, and may have wrong hashes.
type hashed struct {
	*sharedmem.Store
	first uint64
	wrong bool
}

func (h *hashed) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	h.first = min(h.first, from)
	return h.Store.Entries(ctx, from, to)
}

func (h *hashed) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list, err := h.Store.ReadHashes(indexes)
	if h.wrong && err == nil {
		list[len(list)-1][0]++
	}
	return list, err
}

// TestFirstCheckpoint: the first checkpoint of a process reads the entries after the last one that
// the log's key has signed. Hashes that are wrong, and a checkpoint by another key, do not count:
// all entries are read. A root that the key has not signed is noticed.
func TestFirstCheckpoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for what, x := range map[string]struct {
		wrong bool
		note  func(f *fleet, c proofgraph.Checkpoint) []byte // what the store is made to have
		all   bool                                           // entries are read
		err   string
	}{
		"signed":       {},
		"wrong hashes": {wrong: true, all: true},
		"another key": {all: true, note: func(f *fleet, c proofgraph.Checkpoint) []byte {
			other, err := proofgraph.SignCheckpoint(kerneltest.SeedKey(f, 7), c)
			require.NoError(f, err)
			return other.Note
		}},
		"another root": {note: func(f *fleet, c proofgraph.Checkpoint) []byte {
			root := c.Root
			c.Root[0]++
			changed, err := proofgraph.SignCheckpoint(kerneltest.SeedKey(f, 7), c)
			require.NoError(f, err)
			c.Root = root
			_, lines, _ := strings.Cut(string(c.Note), "\n\n")
			body, _, _ := strings.Cut(string(changed.Note), "\n\n")
			return []byte(body + "\n\n" + lines)
		}, err: "other entries"},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleet(t, 1, kerneltest.Policy)
			for range 20 {
				d, _ := f.call(f.kernels[0], "s")
				require.NoError(t, d.Err())
			}
			c, err := f.kernels[0].Checkpoint(ctx)
			require.NoError(t, err)
			if x.note != nil {
				w, err := f.store.Join(ctx, kerneltest.Origin)
				require.NoError(t, err)
				_, err = w.Turn(ctx, proofgraph.Ask{})
				require.NoError(t, err)
				change := proofgraph.Change{Batch: proofgraph.Batch{Checkpoint: x.note(f, c)}}
				require.NoError(t, w.End(ctx, change))
			}
			h := &hashed{Store: f.store, wrong: x.wrong}
			f.options.Store = h
			k, err := helm.New(f.options)
			require.NoError(t, err)
			defer k.Close()
			for range 3 {
				d, _ := f.call(k, "another")
				require.NoError(t, d.Err())
			}
			h.first = math.MaxUint64
			after, err := k.Checkpoint(ctx)
			if x.err != "" {
				require.ErrorContains(t, err, x.err)
				return
			}
			require.NoError(t, err)
			assert.Greater(t, after.Size, c.Size)
			want := c.Size
			if x.all {
				want = 0
			}
			assert.Equal(t, want, h.first)
			f.agreed(k)
		})
	}
}
