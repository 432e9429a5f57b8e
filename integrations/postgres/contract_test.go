//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s := server(t)
	helmtest.Shared(t, func(t *testing.T) func() proofgraph.Shared {
		b := newBase(t, s)
		return func() proofgraph.Shared {
			s, err := Open(context.Background(), b.url(), Options{})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			return mortal{s, b}
		}
	})
}

// A mortal is a store with writers that can be killed.
type mortal struct {
	*Store
	base base
}

func (m mortal) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	w, err := m.Store.Join(ctx, origin)
	if err != nil {
		return nil, err
	}
	return &victim{w.(*writer), m.base}, nil
}

type victim struct {
	*writer
	base base
}

// Kill ends the writer's connection, and lets it make no other until another has fenced it: the
// process that it stands for has ended.
func (v *victim) Kill() {
	w := v.writer
	w.cutting.Lock()
	defer w.cutting.Unlock()
	before := w.store.connecting
	w.store.connecting = func(x *writer) {
		if x != w && before != nil {
			before(x)
		}
		for x == w && !one[bool](v.base, "SELECT fenced FROM writer WHERE id = $1", w.id) {
			time.Sleep(time.Millisecond)
		}
	}
	v.base.terminate(w.line.pid)
}

// terminate ends a connection at the server.
func (b base) terminate(pid int32) {
	b.Helper()
	require.True(b, one[bool](b, "SELECT coalesce(bool_and(pg_terminate_backend(pid, 10000)), true) FROM pg_stat_activity WHERE pid = $1",
		pid))
}
