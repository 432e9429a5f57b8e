//go:build unix

package acceptance

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A process is killed at random.
func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	soak(t, server(t), faults(4), func(f *fleet, random *rand.Rand) {
		pause(random, 50)
		f.slots[random.IntN(slots)].kill()
	})
}

// pause waits for the load to come to some point.
func pause(random *rand.Rand, milliseconds int) {
	time.Sleep(time.Duration(random.IntN(1000*milliseconds)) * time.Microsecond)
}

// The server is ended as by pg_ctl stop -m immediate, and started again.
func TestServerEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	soak(t, s, faults(2), func(f *fleet, random *rand.Rand) {
		pause(random, 50)
		require.NoError(f, s.Stop(true))
		require.NoError(f, s.Start())
	})
}

// A process of the server is killed, so that all of them end and recover: one of a connection, or
// the one that writes the log ahead, or another one.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	soak(t, s, faults(2), func(f *fleet, random *rand.Rand) {
		pause(random, 50)
		ctx := context.Background()
		watch, err := pgx.Connect(ctx, s.URL(f.database))
		require.NoError(f, err)
		defer watch.Close(ctx)
		f.eventually("a process of the server can be killed", func() bool {
			const client = "client backend"
			kind := []string{client, client, client, "walwriter", "checkpointer"}[random.IntN(5)]
			var pid int
			err := watch.QueryRow(ctx, `SELECT coalesce((SELECT pid FROM pg_stat_activity WHERE backend_type = $1
				AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1), 0)`, kind).Scan(&pid)
			return err == nil && pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
		})
		f.eventually("the server has ended its processes", func() bool { return watch.Ping(ctx) != nil })
		f.eventually("the server has recovered", func() bool {
			conn, err := pgx.Connect(ctx, s.URL(f.database))
			return err == nil && conn.Close(ctx) == nil
		})
	})
}

// Connections are ended by the server, one or all.
func TestConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	soak(t, server(t), faults(4), func(f *fleet, random *rand.Rand) {
		pause(random, 50)
		n := []int{1, 1, 2, 100}[random.IntN(4)]
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, f.server.URL(f.database))
		require.NoError(f, err)
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT $1) x`, n)
		require.NoError(f, err)
	})
}
