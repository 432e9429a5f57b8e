package guardian

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Tools lists what the bundles declare, from both bundles in one order, with the schemas as they
// are written and nothing that is shared with the policy.
func TestTools(t *testing.T) {
	t.Parallel()
	digest, err := crypto.ParseDigest(pin)
	require.NoError(t, err)
	other := `{"helm":"policy/v1","layer":"P1","bundle":{"name":"a","version":1},"tools":{
		"s":{"effect":"write","risk":"high","connector":"mail","input":{"type":"object","properties":{"n":{"type":"integer","default":1}}},
		"output":{"type":"string"}},"z":{"effect":"destructive","input":{"type":"object"}}},"rules":[{"id":"all","allow":["s","z"]}]}`
	floor := `{"helm":"policy/v1","layer":"P0","name":"f","version":1,"profile":{"effects":["read","write"],"sandbox":{"write":"wasi"}},"sandboxes":{"wasi":{}}}`
	p := mustCompile(t, pinned, other, floor)
	want := []Tool{
		{Name: "s", Effect: contracts.Write, Risk: "high", Connector: "mail", Sandbox: "wasi",
			Input:  []byte(`{"properties":{"n":{"default":1,"type":"integer"}},"type":"object"}`),
			Output: []byte(`{"type":"string"}`)},
		{Name: "t", Effect: contracts.Read, Risk: "low", Connector: "remote", Definition: digest,
			Input: []byte(`{"type":"object"}`)},
		{Name: "u", Effect: contracts.Read, Risk: "low", Connector: "remote", Input: []byte(`{"type":"object"}`)},
		{Name: "z", Effect: contracts.Destructive, Risk: "high", Connector: "a", Input: []byte(`{"type":"object"}`)},
	}
	got := p.Tools()
	assert.Equal(t, want, got)
	got[0].Input[0] = 'x'
	assert.Equal(t, want, p.Tools())
	assert.Empty(t, (*Policy)(nil).Tools())
	assert.Empty(t, new(Policy).Tools())
}
