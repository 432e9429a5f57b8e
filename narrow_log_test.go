package helm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// What Narrow refuses leaves no entry, and the kernel as it was.
func TestNarrowRefused(t *testing.T) {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	fails := false
	w := newWorld(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			if fails {
				panic("the clock")
			}
			return now
		}
	})
	task := w.narrow(w.k, few(t, "task", 7, 5))
	text := func(s string) contracts.Document { return document(t, s) }
	before := w.size()
	for name, c := range map[string]struct {
		k       *helm.Kernel
		overlay contracts.Document
		says    string
	}{
		"a floor":               {w.k, text("helm: policy/v1\nlayer: P0\nname: f\nversion: 1\n"), "layer P0 over a stack"},
		"a bundle":              {w.k, text(strings.Replace(policyText, "test", "more", 1)), "layer P1 over a stack"},
		"the stack's bundle":    {w.k, text(policyText), "layer P1 over a stack"},
		"nothing":               {w.k, contracts.Document{}, ""},
		"no document":           {w.k, contracts.Document{Canonical: []byte(`[]`)}, ""},
		"an allow":              {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: all, allow: closed}]\n"), "allow"},
		"another tool":          {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nonly: [nobody]\n"), "nobody"},
		"a later feature":       {w.k, text("helm: policy/v1\nlayer: P2\nname: x\nrules: [{id: d, deny: closed, when: {session: tainted, eq: true}}]\n"), "not supported"},
		"expired":               {w.k, few(t, "x", 1, 5, `expires: "2026-11-20T17:00:00Z"`), "expired at 2026-11-20T17:00:00.000Z"},
		"its own name again":    {task, few(t, "task", 8, 4), "a second P2 document"},
		"a version before":      {w.k, few(t, "task", 6, 5), "policy P2 task: version 6 goes back: the log has had version 7"},
		"a version left out":    {w.k, text("helm: policy/v1\nlayer: P2\nname: task\nonly: [echo]\n"), "version 1 goes back"},
		"of a narrowed kernel":  {task, few(t, "x", 1, 5, `expires: "2001-01-01T00:00:00Z"`), "expired"},
		"another name's casing": {task, few(t, "Task", 1, 5, `expires: "2001-01-01T00:00:00Z"`), "expired"},
		"of no kernel":          {nil, few(t, "x", 1, 5), "no kernel"},
		"of the zero kernel":    {new(helm.Kernel), few(t, "x", 1, 5), "no kernel"},
	} {
		n, err := c.k.Narrow(c.overlay)
		if n != nil || err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "helm: ") {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	var load *guardian.LoadError
	if _, err := w.k.Narrow(text(policyText)); !errors.As(err, &load) || load.Pointer != "/layer" || load.Remedy == "" {
		t.Errorf("not where the fault is: %v", err)
	}
	fails = true
	if _, err := w.k.Narrow(few(t, "x", 1, 5)); err == nil || strings.Contains(err.Error(), "the clock") {
		t.Errorf("without a clock: %v", err)
	}
	fails = false
	if n := w.size() - before; n != 0 {
		t.Errorf("%d entries of what was refused", n)
	}
	w.mustAllow(task, 5)
	w.mustAllow(w.narrow(w.k, few(t, "x", 1, 5, `expires: "2026-11-20T17:00:01Z"`)), 5)

	// A stack whose time is over is judged by, and denies; but it is put into force no more.
	short := w.narrow(w.k, few(t, "short", 1, 5, `expires: "2026-11-20T18:00:00Z"`))
	now = now.Add(time.Hour)
	w.mustDeny(short, 1, "P2:short:expires")
	if _, err := short.Narrow(few(t, "late", 1, 5)); err == nil || !strings.Contains(err.Error(), "P2:short expired") {
		t.Errorf("over an expired overlay: %v", err)
	}
	w.mustVerify()
}

// An overlay that is changed after it was handed in is what it was.
func TestNarrowCopies(t *testing.T) {
	w := newWorld(t)
	overlay := few(t, "task", 1, 5)
	task := w.narrow(w.k, overlay)
	for i := range overlay.Canonical {
		overlay.Canonical[i] = 'x'
	}
	clear(overlay.Lines)
	if err := w.k.Swap(context.Background(), compile(t, strings.Replace(policyText, "version: 1", "version: 2", 1))); err != nil {
		t.Fatal(err) // which compiles the overlay anew
	}
	w.mustDeny(task, 6, "P2:task:few")
	w.mustVerify()
}

// A PolicyHash has one entry, ever: narrowed twice, at once by many, and by the next process.
func TestNarrowWritesOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.narrow(w.k, few(t, "task", 1, 5)), w.narrow(w.k, few(t, "task", 1, 5))
	w.mustDeny(a, 6, "P2:task:few")
	w.mustDeny(b, 6, "P2:task:few")
	if a == b {
		t.Error("one kernel for two tasks: to close one would close both")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.mustBeClosed(a)
	w.mustAllow(b, 5)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			n, err := w.k.Narrow(few(t, fmt.Sprint("raced-", i%4), 1, 5))
			if err != nil {
				t.Error(err)
				return
			}
			d, r := w.of(n, i%5)
			if d.Err() != nil || len(r.Entry) == 0 {
				t.Error(d.Err())
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, time.Minute, "64 narrow", wg.Wait)
	if n := w.policies(); n != 6 {
		t.Errorf("%d policy entries, want the root's, task's and four that were raced for", n)
	}
	w.mustVerify()
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	size := w.size()
	again := w.narrow(w.k, few(t, "task", 1, 5))
	if w.size() != size {
		t.Error("the next process wrote the policy again")
	}
	w.mustDeny(again, 6, "P2:task:few")
	if _, err := w.k.Narrow(few(t, "task", 2, 5)); err != nil {
		t.Error(err)
	}
	if _, err := w.k.Narrow(few(t, "task", 1, 4)); err == nil {
		t.Error("version 1 came after version 2")
	}
	w.open() // and the process after it
	if _, err := w.k.Narrow(few(t, "task", 1, 5)); err == nil {
		t.Error("version 1 came after version 2 and a restart, though the log has had that very policy")
	}
	w.narrow(w.k, few(t, "raced-1", 1, 5)) // versions are those of the name
	w.narrow(w.k, few(t, "task", 2, 3))    // and may stay
	w.mustVerify()
}

// When the policy cannot be stored or signed nobody gets a kernel, and all are sealed.
func TestNarrowFails(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"the store": func(w *world) { w.store.in(1) },
		"the store panics": func(w *world) {
			w.store.how = func(error) error { panic("disk") }
			w.store.in(1)
		},
		"the key": func(w *world) { w.key.in(1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task := w.narrow(w.k, few(t, "task", 1, 5))
			fail(w)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if n, err := w.k.Narrow(few(t, "next", 1, 5)); n != nil || err == nil {
						t.Error("narrowed over a log that has no entry of it")
					}
				})
			}
			within(t, 10*time.Second, "narrowing", wg.Wait)
			w.mustBeSealed()
			w.mustBeClosed(task)
			w.aftermath(nil)
		})
	}
}

// counting is a store that counts how often it was given each blob.
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

// A bundle of which each task's stack consists is stored once.
func TestNarrowStoresDocumentsOnce(t *testing.T) {
	store := &counting{times: map[contracts.Digest]int{}}
	w := newWorld(t, func(o *helm.Options) { store.Store = o.Store; o.Store = store })
	task := w.narrow(w.k, few(t, "task", 1, 5))
	w.narrow(task, few(t, "step", 1, 5))
	w.open()
	w.narrow(w.k, few(t, "other", 1, 5))
	w.swap(version(t, 2))
	documents := 0
	for _, st := range w.statements() {
		if st.Policy == nil {
			continue
		}
		for _, d := range st.Policy.Documents {
			if documents++; store.times[d.Digest] != 1 {
				t.Errorf("%s %s was stored %d times", d.Layer, d.Name, store.times[d.Digest])
			}
		}
	}
	if documents != 1+2+3+2+2+1 {
		t.Errorf("%d documents in policy entries", documents)
	}
	w.mustVerify()
}
