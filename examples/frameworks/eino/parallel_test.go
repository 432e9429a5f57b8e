package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// TestSideBySide makes calls of one answer, which Eino runs side by side: a denial does not touch
// the results of the others.
func TestSideBySide(t *testing.T) {
	o, err := office.Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	config, err := tools(o, office.Bob(), "bob/chat-1")
	require.NoError(t, err)
	node, err := compose.NewToolNode(t.Context(), &config)
	require.NoError(t, err)
	var calls []schema.ToolCall
	const n = 32
	for i := range n {
		call := schema.FunctionCall{Name: "invoice_find", Arguments: fmt.Sprintf(`{"number":"%d"}`, i)}
		if i%2 == 1 {
			call.Name = "invoice_delete"
		}
		calls = append(calls, schema.ToolCall{ID: fmt.Sprint(i), Function: call})
	}
	results, err := node.Invoke(t.Context(), schema.AssistantMessage("", calls))
	require.NoError(t, err)
	require.Len(t, results, n)
	for i, r := range results {
		want := fmt.Sprintf(`{"number":"%d","total":120}`, i)
		if i%2 == 1 {
			want = "invoice_delete was denied: DENY_TOOL_NOT_FOUND. " +
				"There is no such tool. Use one of the tools you were given. (no bundle declares the tool)"
		}
		assert.Equal(t, want, r.Content)
	}
	assert.Len(t, o.Shop.Ran(), n/2)
	require.NoError(t, o.Audit(t.Context()))
	assert.EqualValues(t, n, o.Report.Receipts)
}
