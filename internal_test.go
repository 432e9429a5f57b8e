package helm

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/keys"
	"github.com/helmkernel/helm/proofgraph"
)

// States are made while calls run, sessions are closed, and the log is condensed and lets go: each
// is the one that a fold of the whole log comes to.
func TestStatesMeanwhile(t *testing.T) {
	t.Parallel()
	var docs []contracts.Document
	for _, text := range []string{
		`{"condense":{"after":"24h","kept":"high"},"helm":"policy/v1","layer":"P0","name":"floor","version":1}`,
		document(allowAll + `,"budgets":[{"id":"day","tools":"t","limit":1000000,"per":"session","window":"day","cost":1}]`),
	} {
		var tree crypto.Tree
		require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 64}))
		docs = append(docs, contracts.Document{Canonical: tree.Root().Append(nil)})
	}
	p, err := guardian.Compile(docs...)
	require.NoError(t, err)
	var now atomic.Int64
	now.Store(1_790_000_000_000)
	m := proofgraph.NewMemory()
	o := Options{Policy: p, Key: seedKey(t, 7), Store: m, Now: func() time.Time { return time.UnixMilli(now.Load()) },
		Observe: func(_ context.Context, e Event) { assert.NotEqual(t, "state", e.Why, "%v", e.Err) }}
	k, err := New(o)
	require.NoError(t, err)
	ctx := context.Background()
	call := func(session string) {
		d, _ := k.Guard(ctx, intent(session))
		assert.NoError(t, d.Err())
	}
	for range 520 {
		call("old")
	}
	require.NoError(t, k.CloseSession(ctx, "old"))
	now.Add(25 * time.Hour.Milliseconds())

	var wait sync.WaitGroup
	done := make(chan struct{})
	for g := range 3 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				session := fmt.Sprintf("new-%d/%d", g, i/20)
				call(session)
				if i%20 == 19 {
					assert.NoError(t, k.CloseSession(ctx, session))
				}
			}
		}()
	}
	states := k.shared.states
	check := func() {
		_, err := k.Checkpoint(ctx)
		require.NoError(t, err)
		size, err := states.make(ctx, false)
		require.NoError(t, err)
		states.Kept(size)
	}
	for i := range 8 {
		check()
		switch i {
		case 2:
			c, err := k.Condense(ctx, time.Time{})
			require.NoError(t, err)
			require.EqualValues(t, 1040, c.Members)
		case 4, 5:
			wait.Add(1)
			go func() {
				defer wait.Done()
				_, err := k.Drop(ctx)
				assert.NoError(t, err)
			}()
		}
	}
	close(done)
	wait.Wait()
	call("last") // else the state may be of before the last Drop, and no other is due
	check()
	made, err := m.State(ctx)
	require.NoError(t, err)
	require.NoError(t, m.SaveState(ctx, nil))
	states.Kept(0)
	_, err = states.make(ctx, false)
	require.NoError(t, err)
	whole, err := m.State(ctx)
	require.NoError(t, err)
	require.True(t, bytes.Equal(whole, made), "made from states, and made from the log")
	require.NoError(t, k.Close())
	k, err = New(o)
	require.NoError(t, err)
	call("after")
	require.NoError(t, k.Close())
}

// Stacks that are put in place one after the other count together, when the epoch moves: not
// before.
func TestStacksMoveTogether(t *testing.T) {
	t.Parallel()
	before, after := new(guardian.Policy), new(guardian.Policy)
	root := &Kernel{shared: new(shared)}
	kernels := []*Kernel{root, {shared: root.shared, parent: root}}
	for _, k := range kernels {
		k.stack.Store(&stack{policy: before})
	}
	for _, k := range kernels {
		k.stack.Store(&stack{after, 1, before})
		for i, k := range kernels {
			assert.Same(t, before, k.current(), "kernel %d is ahead of the epoch", i)
		}
	}
	root.shared.epoch.Add(1)
	for i, k := range kernels {
		assert.Same(t, after, k.current(), "kernel %d did not follow", i)
	}
}

// A silent key does not answer from a moment on, until release is closed.
type silent struct {
	crypto.PrivateKey
	falls   atomic.Bool
	asked   atomic.Int64 // times since then
	release chan struct{}
}

func newSilent(t *testing.T, seed byte) *silent {
	return &silent{PrivateKey: seedKey(t, seed), release: make(chan struct{})}
}

func (s *silent) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if s.falls.Load() {
		s.asked.Add(1)
		<-s.release
	}
	return s.PrivateKey.Sign(r, msg, o)
}

// A key that never answers has 10 seconds for a state, and is not asked for the next one before it
// has answered. Meanwhile Drop does not wait, and neither does New for ever.
func TestStateOfAKeyThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"Key", "LogKey"} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			key, logKey := newSilent(t, 7), newSilent(t, 9)
			fails := map[string]*silent{"Key": key, "LogKey": logKey}[which]
			var events atomic.Int64
			k, err := New(Options{Policy: compile(t, document(allowAll)), Key: key, LogKey: logKey,
				Store: proofgraph.NewMemory(), Observe: func(_ context.Context, e Event) {
					if e.Why == "state" && errorIsSilent(e.Err) {
						events.Add(1)
					}
				}})
			require.NoError(t, err)
			s := k.shared.states
			fails.falls.Store(true)
			made := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := s.make(ctx, true)
				made <- err
			}()
			synctest.Wait()
			require.EqualValues(t, 1, fails.asked.Load(), "it is being asked")
			_, err = k.Drop(ctx)
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "Drop has waited")
			require.ErrorIs(t, <-made, keys.ErrSilent)
			require.Equal(t, keys.Patience, time.Since(began))

			_, err = s.make(ctx, true)
			require.ErrorIs(t, err, keys.ErrOverdue, which)
			require.Equal(t, 2*keys.Patience, time.Since(began))

			l, prefix, err := s.fold(ctx, 0, true)
			require.NoError(t, err)
			l.size = prefix.Size
			s.begin(ctx, l, prefix) // which New does
			require.Equal(t, 3*keys.Patience, time.Since(began))
			require.EqualValues(t, 1, events.Load())
			require.EqualValues(t, 1, fails.asked.Load(), "it is not asked again")

			close(fails.release)
			synctest.Wait()
			size, err := s.make(ctx, true)
			require.NoError(t, err)
			assert.Equal(t, prefix.Size, size)
			require.NoError(t, k.Err())
			require.NoError(t, k.Close())
		})
	}
}

func errorIsSilent(err error) bool {
	return errors.Is(err, keys.ErrSilent) || errors.Is(err, keys.ErrOverdue)
}
