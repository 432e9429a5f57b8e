package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// TestNoTool: a tool that the model names and the framework does not have is denied like anything
// else, and logged.
func TestNoTool(t *testing.T) {
	for name, want := range map[string]contracts.ReasonCode{
		"order.ship": contracts.ReasonToolNotFound,   // neither has it
		"order.find": contracts.ReasonDriverNotBound, // only the policy has it
		"":           contracts.ReasonIntentMalformed,
	} {
		k, err := newKernel()
		require.NoError(t, err)
		before := logged(t, k)
		asked := false
		once := func(string) (call, bool) {
			defer func() { asked = true }()
			return call{name, `{"number": "4711"}`}, !asked
		}
		var out bytes.Buffer
		err = loop(t.Context(), &out, once, guard(k), map[string]Tool{"order.refund": refund})
		assert.True(t, err == nil && strings.Contains(out.String(), "tool   "+string(want)+" ("), "%q: %v, %s; want %s",
			name, err, &out, want)
		if n := logged(t, k); n != before+1 {
			t.Errorf("%q: %d entries after %d: no receipt of the denial", name, n, before)
		}
		assert.NoError(t, k.Close())
	}
}

// logged returns how many entries the log has.
func logged(t *testing.T, k *helm.Kernel) uint64 {
	t.Helper()
	c, err := k.Checkpoint(t.Context())
	require.NoError(t, err)
	return c.Size
}

// TestToolError: the tool's own error is not turned into an answer.
func TestToolError(t *testing.T) {
	k, err := newKernel()
	require.NoError(t, err)
	defer k.Close()
	lost := errors.New("the database is lost")
	tool := guard(k)("order.find", func(context.Context, json.RawMessage) (string, error) { return "", lost })
	text, err := tool(t.Context(), json.RawMessage(`{"number": "4711"}`))
	assert.ErrorIs(t, err, lost, "%q", text)
}

// TestArguments: it takes none.
func TestArguments(t *testing.T) {
	for _, arg := range []string{"-x", "-h", "x", ""} {
		var out, errs bytes.Buffer
		status := start(t.Context(), []string{arg}, &out, &errs)
		assert.True(t, status == 2 && strings.Contains(errs.String(), "Usage") && out.Len() == 0, "%q: exit %d: %s%s",
			arg, status, &out, &errs)
	}
	var out, errs bytes.Buffer
	status := start(t.Context(), nil, &out, &errs)
	assert.True(t, status == 0 && out.Len() != 0 && errs.Len() == 0, "exit %d: %s%s", status, &out, &errs)
}
