package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
	"github.com/helmkernel/helm/examples/frameworks/internal/officetest"
)

func TestTranscript(t *testing.T) { officetest.CheckRefund(t, office.Open, play) }

func TestOddCalls(t *testing.T) { officetest.CheckOdd(t, office.Open, play, false) }

// TestUser expects that a user of ADK whom the host does not know has no rights.
func TestUser(t *testing.T) {
	o, err := office.Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	o.Script.Calls = o.Script.Calls[:1]
	require.NoError(t, converse(t.Context(), o, scripted{o.Script}, "eve"))
	assert.Equal(t, []string{"DENY invoice_find NO_POLICY_DEFINED: no rule matches the call"}, o.Events)
	assert.Empty(t, o.Shop.Ran())
}

// TestStopStreaming holds what README.md says: ADK answers this name itself. If it fails, ADK no
// longer does, and the sentence goes.
func TestStopStreaming(t *testing.T) {
	o, err := office.Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	o.Script.Calls = []office.Call{{Tool: "stop_streaming", Args: `{"function_name":"invoice_refund"}`}}
	require.NoError(t, play(t.Context(), o))
	assert.Len(t, o.Script.Told, 1)
	assert.Empty(t, o.Events)
}
