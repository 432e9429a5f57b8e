package helmtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// tryShared tests one promise of a shared store.
func tryShared(test func(t *sharedTrial), open func() proofgraph.Shared, patience time.Duration) *recorder {
	return record(func(r reporter) {
		t := beginShared(r, open, true)
		t.patience = patience
		test(t)
	})
}

func TestShared(t *testing.T) {
	t.Parallel()
	places := 0
	Shared(t, func(*testing.T) func() proofgraph.Shared {
		places++
		s := sharedmem.New()
		return func() proofgraph.Shared { return s }
	})
	assert.Equal(t, len(sharedPromises)+len(promises), places)
	assert.Greater(t, len(sharedPromises), 20)
}

// The suite requires no more than is promised.
func TestHonestShared(t *testing.T) {
	t.Parallel()
	for name, place := range honestShared {
		for _, p := range sharedPromises {
			r := tryShared(p.test, place(), time.Minute)
			if r.panicked != nil || len(r.complaints) > 0 {
				t.Errorf("%s: a store %s: %q (panic: %v)", p.name, name, r.complaints, r.panicked)
			}
		}
		for _, p := range promises {
			r := record(func(r reporter) { p.test(begin(r, appenders(r, place()), true)) })
			if r.panicked != nil || len(r.complaints) > 0 {
				t.Errorf("as a store, %s: a store %s: %q (panic: %v)", p.name, name, r.complaints, r.panicked)
			}
		}
	}
}

// A shared store that breaks a promise of a store is caught by that, whatever its writers do.
func TestBrokenSharedAsStores(t *testing.T) {
	t.Parallel()
	for promise, place := range brokenSharedAsStores {
		found := false
		for _, p := range promises {
			if p.name != promise {
				continue
			}
			found = true
			r := record(func(r reporter) { p.test(begin(r, appenders(r, place()), true)) })
			assert.Nil(t, r.panicked, promise)
			assert.NotEmpty(t, r.complaints, promise)
		}
		assert.True(t, found, "there is no promise %q", promise)
	}
}

// Every broken store is caught by the promise that it breaks, every promise catches one, and every
// complaint is made at least once.
func TestBrokenShared(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*sharedTrial){}
	for _, p := range sharedPromises {
		assert.Nil(t, tests[p.name], "two promises are called %q", p.name)
		tests[p.name] = p.test
	}
	c := catches{t, map[string]int{}, map[string]bool{}}
	for _, group := range brokenShared {
		test := tests[group.promise]
		require.NotNil(t, test, "there is no promise %q", group.promise)
		for _, b := range group.stores {
			r := tryShared(test, b.place(), 50*time.Millisecond)
			c.add(group.promise, b.name, r)
		}
	}
	for promise := range tests {
		assert.NotZero(t, c.caught[promise], "no store breaks the promise %q: nobody knows whether it is tested",
			promise)
	}
	c.mustHaveMade("shared*.go")
}
