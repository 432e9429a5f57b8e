package narrow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A refused Narrow leaves no entry, and the kernel as it was.
func TestNarrowRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	fails := false
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			if fails {
				panic("the clock")
			}
			return now
		}
	})
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 7, 5))
	text := func(s string) contracts.Document { return kerneltest.Document(t, s) }
	before := w.Size()
	for name, c := range map[string]struct {
		k       *helm.Kernel
		overlay contracts.Document
		says    string
	}{
		"a floor": {w.Kernel, text("helm: policy/v1\nlayer: P0\nname: f\nversion: 1\n"),
			"layer P0 over a stack"},
		"a bundle": {w.Kernel, text(strings.Replace(kerneltest.Policy, "test", "more", 1)),
			"layer P1 over a stack"},
		"the stack's bundle": {w.Kernel, text(kerneltest.Policy), "layer P1 over a stack"},
		"nothing":            {w.Kernel, contracts.Document{}, ""},
		"no document":        {w.Kernel, contracts.Document{Canonical: []byte(`[]`)}, ""},
		"an allow": {w.Kernel,
			text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: all, allow: closed}]\n"), "allow"},
		"another tool": {w.Kernel, text("helm: policy/v1\nlayer: P2\nname: x\nonly: [nobody]\n"), "nobody"},
		"a label": {w.Kernel,
			text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: d, deny: closed, when: {session: labels, has: " +
				"x}}]\n"), "no document of the stack declares the label"},
		"expired": {w.Kernel, kerneltest.Overlay(t, "x", 1, 5, `expires: "2026-11-20T17:00:00Z"`),
			"expired at 2026-11-20T17:00:00.000Z"},
		"its own name again": {task, kerneltest.Overlay(t, "task", 8, 4), "a second P2 document"},
		"a version before": {w.Kernel, kerneltest.Overlay(t, "task", 6, 5),
			"policy P2 task: version 6 goes back: the log has had version 7"},
		"a version left out": {w.Kernel, text("helm: policy/v1\nlayer: P2\nname: task\nonly: [echo]\n"),
			"version 1 goes back"},
		"of a narrowed kernel": {task, kerneltest.Overlay(t, "x", 1, 5, `expires: "2001-01-01T00:00:00Z"`), "expired"},
		"another name's casing": {task, kerneltest.Overlay(t, "Task", 1, 5, `expires: "2001-01-01T00:00:00Z"`),
			"expired"},
		"of no kernel":       {nil, kerneltest.Overlay(t, "x", 1, 5), "no kernel"},
		"of the zero kernel": {new(helm.Kernel), kerneltest.Overlay(t, "x", 1, 5), "no kernel"},
	} {
		n, err := c.k.Narrow(c.overlay)
		assert.Nil(t, n, name)
		require.Error(t, err, name)
		require.ErrorContains(t, err, c.says, name)
		assert.True(t, strings.HasPrefix(err.Error(), "helm: "), name)
	}
	var load *guardian.LoadError
	_, err := w.Kernel.Narrow(text(kerneltest.Policy))
	require.ErrorAs(t, err, &load, "not where the fault is")
	assert.Equal(t, "/layer", load.Pointer)
	assert.NotEmpty(t, load.Remedy)
	fails = true
	_, err = w.Kernel.Narrow(kerneltest.Overlay(t, "x", 1, 5))
	require.Error(t, err, "without a clock")
	assert.NotContains(t, err.Error(), "the clock")
	fails = false
	n := w.Size() - before
	assert.Zero(t, n, "entries of what was refused")
	w.MustAllow(task, 5)
	w.MustAllow(w.Narrow(w.Kernel, kerneltest.Overlay(t, "x", 1, 5, `expires: "2026-11-20T17:00:01Z"`)), 5)

	// A stack that has expired judges, and denies; but it is not put into force again.
	short := w.Narrow(w.Kernel, kerneltest.Overlay(t, "short", 1, 5, `expires: "2026-11-20T18:00:00Z"`))
	now = now.Add(time.Hour)
	w.MustDeny(short, 1, "P2:short:expires")
	_, err = short.Narrow(kerneltest.Overlay(t, "late", 1, 5))
	assert.ErrorContains(t, err, "P2:short expired", "over an expired overlay")
	w.MustVerify()
}

// An overlay that the caller changes after Narrow has not changed.
func TestNarrowCopies(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	overlay := kerneltest.Overlay(t, "task", 1, 5)
	task := w.Narrow(w.Kernel, overlay)
	for i := range overlay.Canonical {
		overlay.Canonical[i] = 'x'
	}
	clear(overlay.Lines)
	w.Swap(kerneltest.Version(t, 2)) // which compiles the overlay again
	w.MustDeny(task, 6, "P2:task:few")
	w.MustVerify()
}

// A PolicyHash has one entry, ever: narrowed twice, by many at once, and by the next process.
func TestNarrowWritesOnce(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	a, b := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5)),
		w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	w.MustDeny(a, 6, "P2:task:few")
	w.MustDeny(b, 6, "P2:task:few")
	assert.NotSame(t, b, a, "one kernel for two tasks: to close one would close both")
	require.NoError(t, a.Close())
	w.MustBeClosed(a)
	w.MustAllow(b, 5)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			n, err := w.Kernel.Narrow(kerneltest.Overlay(t, fmt.Sprint("raced-", i%4), 1, 5))
			if err != nil {
				t.Error(err)
				return
			}
			d, r := w.Echo(n, i%5)
			assert.NoError(t, d.Err())
			assert.NotEmpty(t, r.Entry)
			assert.NoError(t, n.Close())
		})
	}
	kerneltest.Within(t, time.Minute, "64 narrow", wg.Wait)
	assert.Equal(t, 6, w.PolicyEntries(), "policy entries, want the root's, task's and four that were raced for")
	w.MustVerify()
	w.Reopen()
	size := w.Size()
	again := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	assert.Equal(t, size, w.Size(), "the next process wrote the policy again")
	w.MustDeny(again, 6, "P2:task:few")
	_, err := w.Kernel.Narrow(kerneltest.Overlay(t, "task", 2, 5))
	assert.NoError(t, err)
	_, err = w.Kernel.Narrow(kerneltest.Overlay(t, "task", 1, 4))
	assert.Error(t, err, "version 1 came after version 2")
	w.Open() // and the process after it
	_, err = w.Kernel.Narrow(kerneltest.Overlay(t, "task", 1, 5))
	assert.Error(t, err, "version 1 came after version 2 and a restart, though the log has had that very policy")
	w.Narrow(w.Kernel, kerneltest.Overlay(t, "raced-1", 1, 5)) // versions count by name
	w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 2, 3))    // and the same version may be used again
	w.MustVerify()
}

// If the policy cannot be stored or signed, Narrow returns no kernel, and all kernels are sealed.
func TestNarrowFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *kerneltest.World){
		"the store": func(w *kerneltest.World) { w.Store.FailIn(1) },
		"the store panics": func(w *kerneltest.World) {
			w.Store.OnFail = func(error) error { panic("disk") }
			w.Store.FailIn(1)
		},
		"the key": func(w *kerneltest.World) { w.Key.FailIn(1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t)
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			fail(w)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					n, err := w.Kernel.Narrow(kerneltest.Overlay(t, "next", 1, 5))
					assert.Nil(t, n, "narrowed over a log that has no entry of it")
					assert.Error(t, err)
				})
			}
			kerneltest.Within(t, 10*time.Second, "narrowing", wg.Wait)
			w.MustBeSealed()
			w.MustBeClosed(task)
			w.MustRecover(nil)
		})
	}
}

// counting is a store that counts how often each blob was stored.
type counting struct {
	proofgraph.Store
	mu    sync.Mutex
	times map[contracts.Digest]int
}

func (c *counting) Append(ctx context.Context, b proofgraph.Batch) error {
	c.mu.Lock()
	for _, blob := range b.Blobs {
		c.times[crypto.Sum(blob)]++
	}
	c.mu.Unlock()
	return c.Store.Append(ctx, b)
}

// A bundle that is part of every task's stack is stored once.
func TestNarrowStoresDocumentsOnce(t *testing.T) {
	kerneltest.OneWriter(t, "its store looks at batches")
	t.Parallel()
	store := &counting{times: map[contracts.Digest]int{}}
	w := kerneltest.New(t, func(o *helm.Options) { store.Store = o.Store; o.Store = store })
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	w.Narrow(task, kerneltest.Overlay(t, "step", 1, 5))
	w.Open()
	w.Narrow(w.Kernel, kerneltest.Overlay(t, "other", 1, 5))
	w.Swap(kerneltest.Version(t, 2))
	documents := 0
	for _, st := range w.Statements() {
		if st.Policy == nil {
			continue
		}
		for _, d := range st.Policy.Documents {
			if documents++; store.times[d.Digest] != 1 {
				t.Errorf("%s %s was stored %d times", d.Layer, d.Name, store.times[d.Digest])
			}
		}
	}
	assert.Equal(t, 1+2+3+2+2+1, documents, "%d documents in policy entries", documents)
	w.MustVerify()
}
