package main

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// TestSessionsEnd: of a caller who has more sessions than the configuration lets them have, one is
// closed in the kernel.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, state.Create(dir, state.CreateOptions{}))
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	conf.Limits.Sessions = 1
	s, err := state.Open(t.Context(), conf, state.Options{})
	require.NoError(t, err)
	defer s.Close(t.Context())
	who, err := whoAsks(conf, s, nil, nil)
	require.NoError(t, err)
	reason := func(session string) contracts.ReasonCode {
		defer who.Use(helm.Caller{}, session)()
		d, _ := s.Kernel().Guard(t.Context(), helm.Intent{Tool: "none", Args: []byte("{}"), Session: session})
		return d.Reason
	}
	assert.Equal(t, contracts.ReasonToolNotFound, reason("a"))
	assert.Equal(t, contracts.ReasonToolNotFound, reason("b"))
	assert.Equal(t, contracts.ReasonToolNotFound, reason("b"))
	assert.Equal(t, contracts.ReasonSessionClosed, reason("a"))
}

// A cutting handler has drained when its time is over: what it served was cut by another.
type cutting struct{ http.Handler }

func (cutting) Drain(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// TestCutAtTheEnd: calls that are cut when the time of the drain is over may have ended by the time
// that is noticed, and are said to have been cut all the same.
func TestCutAtTheEnd(t *testing.T) {
	t.Parallel()
	l, err := auth.Listen(t.Context(), auth.ListenOptions{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &held{ends: time.Now().Add(10 * time.Millisecond)}
	assert.ErrorIs(t, h.overWeb(ctx, l, cutting{http.NotFoundHandler()}), errCut)
}
