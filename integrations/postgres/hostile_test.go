//go:build unix

package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/kerneltest"
)

// A caller's context that panics does so in the caller's goroutine, which can contain that, and not
// in one of the driver.
func TestHostileContext(t *testing.T) {
	t.Parallel()
	s := newBase(t, server(t)).store()
	ended, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for n := range int64(40) {
		s.pool.Reset() // so that a connection is made
		func() {
			defer func() {
				if x := recover(); x != nil {
					require.Equal(t, "the context", fmt.Sprint(x))
				}
			}()
			_, _ = s.Size(kerneltest.Hostile(ended, n))
		}()
	}
	got, err := s.Size(context.Background())
	require.NoError(t, err)
	require.Zero(t, got)
}
