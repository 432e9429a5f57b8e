package auth

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
)

// A keeper is a kernel's sessions, and a clock.
type keeper struct {
	*Auth
	now   time.Time
	fails bool

	mu    sync.Mutex
	ended []string
}

func newKeeper(t *testing.T, o Options) *keeper {
	t.Helper()
	k := &keeper{now: time.Unix(1_700_000_000, 0)}
	o.Now = func() time.Time { return k.now }
	o.EndSession = func(session string) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.fails {
			return errors.New("calls run")
		}
		k.ended = append(k.ended, session)
		return nil
	}
	var err error
	k.Auth, err = New(o)
	require.NoError(t, err)
	return k
}

// told returns the sessions that were ended since it was called last.
func (k *keeper) told() []string {
	list := k.ended
	k.ended = nil
	return list
}

// TestIdle: a session that nobody used for long is ended before the next call in it, or before any
// call; one in which a call runs is not.
func TestIdle(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Options{})
	month := 30 * 24 * time.Hour
	k.Use(ann, "a")()
	k.Use(bob, "b")()
	running := k.Use(ann, "runs")
	k.now = k.now.Add(month - 1)
	k.Use(ann, "a")()
	assert.Empty(t, k.told())
	k.now = k.now.Add(1)
	k.Use(ann, "c")()
	assert.Equal(t, []string{"b"}, k.told(), "whose ever it is")
	k.now = k.now.Add(2 * month)
	done := k.Use(ann, "a")
	assert.Equal(t, []string{"a", "c"}, k.told(), "the call's own session first")
	running()
	running() // which counts once
	done()
	k.now = k.now.Add(month - 1)
	k.Use(ann, "runs")()
	assert.Empty(t, k.told(), "the time counts from the end of its last call")
	k.now = k.now.Add(1)
	k.Use(ann, "runs")()
	assert.Equal(t, []string{"a"}, k.told())
	k.now = k.now.Add(-10 * month)
	k.Use(ann, "runs")()
	assert.Empty(t, k.told(), "a clock that goes back ends nothing")
}

// TestIdleMany: a call ends a few of the idle ones, so that it does not wait for all.
func TestIdleMany(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Options{SessionIdle: time.Minute})
	for i := range 100 {
		k.Use(ann, fmt.Sprint(i))()
	}
	k.now = k.now.Add(time.Minute)
	for _, want := range []int{16, 16, 16, 16, 16, 16, 4, 0} {
		k.Use(bob, "b")()
		assert.Len(t, k.told(), want)
	}
	assert.Len(t, k.uses.known, 1)
	assert.Len(t, k.uses.callers, 1)
	assert.Equal(t, 1, k.uses.resting.Len())
}

// TestSessionsOfACaller: beyond the limit the one that its caller used longest ago is ended, and
// nobody else's.
func TestSessionsOfACaller(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Options{Sessions: 2})
	k.Use(bob, "b")()
	k.Use(ann, "1")()
	k.Use(ann, "2")()
	k.Use(ann, "1")()
	assert.Empty(t, k.told())
	k.Use(ann, "3")()
	assert.Equal(t, []string{"2"}, k.told())
	one, three := k.Use(ann, "1"), k.Use(ann, "3")
	four := k.Use(ann, "4")
	assert.Empty(t, k.told(), "calls run in all of hers")
	for _, done := range []func(){one, three, four} {
		done()
	}
	k.Use(ann, "5")()
	assert.Equal(t, []string{"1", "3"}, k.told(), "as many as are too many")
	k.fails = true
	k.Use(ann, "6")()
	assert.Empty(t, k.told())
	k.fails = false
	k.Use(ann, "7")()
	assert.Equal(t, []string{"5", "4"}, k.told(), "one that could not be ended is as if it had been used")
}

// TestUseAtOnce: calls of many callers, at once.
func TestUseAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Options{Sessions: 3})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				c := helm.Caller{ID: fmt.Sprint(i % 3)}
				k.Use(c, fmt.Sprint(c.ID, "/", j%7))()
			}
		})
	}
	all.Wait()
	assert.Len(t, k.uses.known, k.uses.resting.Len())
	assert.Len(t, k.uses.callers, 3)
	for _, c := range k.uses.callers {
		assert.True(t, c.open == c.resting.Len() && c.open <= 3+8, "%d, %d", c.open, c.resting.Len())
	}
}

// TestUseWithout: nothing is counted if nothing is ended.
func TestUseWithout(t *testing.T) {
	t.Parallel()
	a, err := New(Options{})
	require.NoError(t, err)
	a.Use(ann, "a")()
	assert.Empty(t, a.uses.known)
}
