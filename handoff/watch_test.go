package handoff

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// TestWatch counts what is handed over, and what becomes of it. What is not handed over is not
// told.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var mu sync.Mutex
	var told []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, what)
	}
	w.Watch(Watch{
		Opened:  func() { note("opened"); panic("a watcher") },
		Settled: func(o contracts.Outcome) { note(string(o)); panic("a watcher") },
	})
	next := func() []string {
		mu.Lock()
		defer mu.Unlock()
		now := slices.Clone(told)
		told = nil
		return now
	}
	mail := w.must("mail")
	assert.Equal(t, []string{"opened"}, next(), "before the ticket is there")
	_, _, recorded := mail.Settle(Outcome{Output: []byte(`1`)})
	assert.True(t, recorded)
	assert.Equal(t, []string{"EXECUTED"}, next())
	_, _, recorded = mail.Settle(Outcome{Output: []byte(`2`)})
	assert.False(t, recorded)
	assert.Empty(t, next(), "the second report")

	w.must("mail").Settle(Outcome{Err: errors.New("no")})
	assert.Equal(t, []string{"opened", "FAILED"}, next())
	w.must("typed").Settle(Outcome{Output: []byte(`{}`)})
	assert.Equal(t, []string{"opened", "WITHHELD"}, next())
	w.must("mail").Drop()
	assert.Equal(t, []string{"opened", "INDETERMINATE"}, next())
	for _, tool := range []string{"never", "here", "boxed"} {
		_, _, ticket := w.Begin(context.Background(), w.intent(tool), definition)
		require.Nil(t, ticket, tool)
	}
	assert.Empty(t, next(), "denied")

	dead := w.must("mail")
	w.gate.dead.Store(true)
	dead.Settle(Outcome{Output: []byte(`1`)})
	assert.Equal(t, []string{"opened", ""}, next(), "no outcome could be recorded")
}

func TestWatchOfNothing(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() { (*Desk)(nil).Watch(Watch{}) })
	w := newWorld(t, 0)
	w.Watch(Watch{})
	w.must("mail").Drop()
	w.ends()
}
