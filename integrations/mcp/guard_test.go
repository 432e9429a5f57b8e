package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// starts returns how often the fake server was started.
func (g *gate) starts() int {
	b, err := os.ReadFile(filepath.Join(g.dir, "started"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(g, err)
	return strings.Count(string(b), "\n")
}

// TestGuardOfAnotherFace: a call of another face is judged, and its server gets the judged bytes.
// Sessions that no request named share a connection, and callers never do.
func TestGuardOfAnotherFace(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{Sessions: 2}, callers, nil)
	ann, bob, cid := helm.Caller{ID: "ann"}, helm.Caller{ID: "bob"}, helm.Caller{ID: "cid"}
	call := func(c helm.Caller, session, args string) (helm.Decision, helm.Receipt) {
		return f.handler.Guard(t.Context(), helm.Intent{Tool: "echo", Args: []byte(args), Caller: c, Session: session})
	}
	fresh := func(c helm.Caller, last string) string {
		return auth.SessionName(c, "p-"+strings.Repeat("a", 25)+last)
	}
	d, r := call(ann, fresh(ann, "a"), `{"text":"b","n":1.0}`)
	require.NoError(t, d.Err())
	assert.JSONEq(t, fine, string(r.Output))
	sent, err := os.ReadFile(filepath.Join(f.dir, "in"))
	require.NoError(t, err)
	assert.Contains(t, string(sent), `"arguments":{"n":1,"text":"b"}`)
	for _, last := range []string{"b", "c", "d"} {
		d, _ = call(ann, fresh(ann, last), `{}`)
		require.NoError(t, d.Err())
		assert.Equal(t, fresh(ann, last)+"/0", d.Record.ID)
	}
	assert.Equal(t, 1, f.starts())
	d, r = call(ann, fresh(ann, "a"), `{"n":1,"n":2}`)
	assert.Equal(t, contracts.ReasonArgsCanonicalization, d.Reason)
	assert.Equal(t, contracts.Denied, r.Record.Outcome)
	d, r = f.handler.Guard(t.Context(), helm.Intent{Tool: "bad", Args: []byte(`{}`), Caller: ann, Session: "s"})
	assert.ErrorIs(t, d.Err(), helm.ErrDenied)
	assert.Equal(t, contracts.Denied, r.Record.Outcome)
	assert.Equal(t, 2, f.starts(), "a session that was named shares no connection")
	d, r = call(bob, fresh(bob, "a"), `{}`)
	assert.Equal(t, contracts.ReasonFailClosedError, d.Reason, "a third connection was made, or another's was used")
	assert.Empty(t, r.Entry)
	require.NoError(t, f.handler.Drain(t.Context()))
	d, r = call(cid, "s", `{}`)
	assert.ErrorIs(t, d.Err(), helm.ErrDenied)
	assert.Empty(t, r.Entry)
}

// TestServes: a tool that a server has, or may have, is known to be one.
func TestServes(t *testing.T) {
	t.Parallel()
	one := newGate(t, nil)
	assert.True(t, one.gateway.Serves(t.Context(), "echo"))
	assert.False(t, one.gateway.Serves(t.Context(), "mail"))
	assert.False(t, one.gateway.Serves(t.Context(), "fake__echo"))
	assert.Equal(t, 1, one.starts())
	require.NoError(t, one.gateway.Close())
	assert.True(t, one.gateway.Serves(t.Context(), "mail"), "nobody knows")
	several := newGate(t, func(o *GatewayOptions) { o.Prefix, o.Govern = true, true })
	for tool, is := range map[string]bool{"fake__echo": true, "fake__none": true, "fake": true, "fake__prompts/get": true,
		"echo": false, "fakes__echo": false} {
		assert.Equal(t, is, several.gateway.Serves(t.Context(), tool), tool)
	}
	assert.Zero(t, several.starts(), "a name says it")
	down := newGate(t, func(o *GatewayOptions) { o.Servers = []Server{{Name: "fake", Command: []string{"/nowhere"}}} })
	assert.True(t, down.gateway.Serves(t.Context(), "mail"), "a server that is down may have it")
	shared := newGate(t, func(o *GatewayOptions) { o.Share, o.Govern = true, true })
	assert.False(t, shared.gateway.Serves(t.Context(), "mail"))
	assert.True(t, shared.gateway.Serves(t.Context(), "fake__resources/read"))
}
