package evidence

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/inorder"
)

// TestRerunShapes: however many goroutines run calls again, the answer is the same: of a good pack,
// of one with two differing runs, and of one that another check refuses while calls are run.
func TestRerunShapes(t *testing.T) {
	log := forge.SandboxLog(t)
	good := log.Pack(Write)
	change := func(cut func(m *forge.Model)) []byte {
		m := forge.TakeApart(t, good)
		cut(m)
		return m.Build()
	}
	gas := func(m *forge.Model, name string) { log.Receipt(m, name).P()["sandbox"].(forge.Object)["gas"] = 100_000 }
	bad := change(func(m *forge.Model) { gas(m, "text"); gas(m, "grow") })
	both := change(func(m *forge.Model) { gas(m, "text"); m.Nodes[len(m.Nodes)-1].P()["tool"] = "calc" })
	o := Options{Trust: log.Trust, Rerun: forge.Machine}
	for name, x := range map[string]struct {
		pack   []byte
		check  error
		same   uint64
		differ uint64
	}{"good": {good, nil, uint64(len(forge.Ran)), 0}, "bad": {bad, ErrRerun, 0, 2}, "bad before": {both, ErrReference, 0, 0}} {
		for workers := range 6 {
			r, err := verifyWith(t.Context(), bytes.NewReader(x.pack), int64(len(x.pack)), o, workers+1, 1)
			if x.check != nil {
				mustRefuse(t, r, err, x.check)
			}
			assert.True(t, errors.Is(err, x.check) && r.Rerun.Same == x.same && r.Rerun.Differing == x.differ,
				"%s, %d goroutines: %+v, %v", name, workers+1, r.Rerun, err)
			mustHaveEnded(t, name)
		}
	}
}

// TestRerunTogether: calls run at the same time on several goroutines, one after the other on one,
// and those that are under way have no more memory granted than the bound.
func TestRerunTogether(t *testing.T) {
	log := forge.SandboxLog(t)
	pack := log.Pack(Write)
	for _, x := range []struct{ workers, pages, most int }{{1, heldPages, 1}, {2, heldPages, 2}, {4, heldPages, 4},
		{4, 2 * 1024, 2}, {4, 1, 1}} {
		var mu sync.Mutex
		running, most := 0, 0
		o := Options{Trust: log.Trust, Rerun: func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			for range 200 { // until as many run as may
				mu.Lock()
				full := most == x.most
				mu.Unlock()
				if full {
					break
				}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * time.Millisecond) // in which more would begin, if they might
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			return forge.Machine(ctx, r)
		}}
		v := newVerifier(inorder.With(t.Context(), inorder.Shape{Workers: x.workers, Batch: 1}), o)
		v.replay.runs.most.pages = x.pages
		r, err := v.answer(v.inPack(bytes.NewReader(pack), int64(len(pack))))
		require.NoError(t, err)
		assert.Equal(t, uint64(len(forge.Ran)), r.Rerun.Same)
		assert.Equal(t, x.most, most, "ran together, of %d goroutines with %d pages", x.workers, x.pages)
	}
}

// TestRerunModules: a module is read once as long as it is held, and no more bytes of modules are
// held than the bound.
func TestRerunModules(t *testing.T) {
	t.Parallel()
	var modules [][]byte
	for i := range 6 {
		modules = append(modules, bytes.Repeat([]byte{byte(i % 3)}, 1000))
	}
	log := forge.ModulesLog(t, append(modules, forge.Module, forge.Module)...)
	pack := log.Pack(Write)
	for limit, reads := range map[int]int{10_000: 4, 2000: 7, 1: 7} {
		var mu sync.Mutex
		seen := map[*byte]bool{}
		o := Options{Trust: log.Trust, Rerun: func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
			mu.Lock()
			seen[&r.Bytes[0]] = true
			mu.Unlock()
			return forge.Machine(ctx, r)
		}}
		v := newVerifier(inorder.With(t.Context(), inorder.Shape{Workers: 3, Batch: 1}), o)
		v.replay.runs.most.modules = limit
		r, err := v.answer(v.inPack(bytes.NewReader(pack), int64(len(pack))))
		require.NoError(t, err)
		assert.EqualValues(t, 8, r.Rerun.Same)
		assert.LessOrEqual(t, v.replay.runs.bytes, max(limit, len(forge.Module)), "bytes are held")
		assert.Len(t, seen, reads, "modules were read, with %d bytes held", limit)
	}
}
