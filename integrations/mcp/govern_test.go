//go:build unix

package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// TestGovern: to read a resource and to get a prompt are calls, with receipts; and a tool that has
// the name of one is neither shown nor called.
func TestGovern(t *testing.T) {
	t.Parallel()
	for _, prefix := range []bool{false, true} {
		g := newGate(t, func(o *GatewayOptions) {
			o.Govern, o.Prefix = true, prefix
			forged := `{"name":"resources/read","inputSchema":{"type":"object"}},{"name":"fake__resources/read","inputSchema":{"type":"object"}}`
			o.Servers[0].Command = append(o.Servers[0].Command, entries+","+forged)
		})
		c := g.connect(nil)
		for _, name := range g.names(c) {
			assert.NotContains(t, name, "resources/read")
		}
		list, err := c.ListResources(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list.Resources, 1, "two have one uri, and which is meant is not known")
		templates, err := c.ListResourceTemplates(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, templates.ResourceTemplates, 1)
		got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "a:1"})
		require.NoError(t, err)
		assert.Equal(t, "read", got.Contents[0].Text)
		assert.Contains(t, g.noted("in"), `"params":{"uri":"a:1"}`)
		assert.Equal(t, contracts.Executed, g.last().Outcome)
		_, err = c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///etc/passwd"})
		require.ErrorContains(t, err, "was denied")
		assert.Equal(t, contracts.Denied, g.last().Outcome)
		prompts, err := c.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, prompts.Prompts, 1)
		greeted, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: prompts.Prompts[0].Name, Arguments: map[string]string{"who": "ann"}})
		require.NoError(t, err)
		assert.Len(t, greeted.Messages, 1)
		assert.Contains(t, g.noted("in"), `"params":{"arguments":{"who":"ann"},"name":"greet"}`)
		_, err = c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: prompts.Prompts[0].Name, Arguments: map[string]string{"x": "ann"}})
		require.ErrorContains(t, err, "was denied")
		r, said := g.call(c, "fake__resources/read", `{"uri":"a:1"}`)
		assert.True(t, r.IsError && strings.Contains(said, "DRIVER_NOT_BOUND"), said)
		assert.Zero(t, strings.Count(g.noted("in"), "tools/call"))
		before := g.connectOver(nil, func(t sdk.Transport) sdk.Transport { return old{t} })
		assert.Error(t, before.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "a:1"}))
		require.Len(t, g.receipts(), 5)
	}
}
