//go:build unix

package acceptance

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

var (
	kills = flag.Int("kills", 0, "how many faults of each kind; 0: a few")
	seed  = flag.Uint64("seed", 1, "of the faults and of the load")
)

// The server of all tests but those that stop it.
var common struct {
	sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(ordersVariable); ok {
		var o orders
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(o.run())
	}
	code := m.Run()
	if common.server != nil {
		common.server.Close()
	}
	os.Exit(code)
}

const connections = "max_connections=300"

// server returns the common server, or skips the test.
func server(t testing.TB) *pgtest.Server {
	t.Helper()
	common.Do(func() { common.server, common.err = pgtest.Start(connections) })
	return started(t, common.server, common.err)
}

// ownServer returns a server of this test alone.
func ownServer(t testing.TB) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start(connections)
	s = started(t, s, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func started(t testing.TB, s *pgtest.Server, err error) *pgtest.Server {
	t.Helper()
	if errors.Is(err, pgtest.ErrAbsent) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return s
}

// late reports whether the time of a test is nearly over that was to make as many faults as it can.
func late(t *testing.T) bool {
	end, ok := t.Deadline()
	return *kills > 0 && ok && time.Until(end) < 90*time.Second
}

// faults returns how many faults of a kind there are to be: few, unless more are asked for.
func faults(few int) int {
	if *kills > 0 {
		return *kills
	}
	return few
}
