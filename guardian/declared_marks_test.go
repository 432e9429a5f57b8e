package guardian

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What receipts bring is read of documents alone, whatever else they say, and in whatever form.
func TestReadMarks(t *testing.T) {
	t.Parallel()
	m, err := ReadMarks(
		[]byte(`{"helm":"policy/v9","layer":"P0","threat":{"outputs":{"secrets":["secret"],`+
			`"suspect":["nul","control"]}}}`),
		[]byte(`{"layer":"P0","threat":{"outputs":["secret"]},"tools":{"x":{"labels":["never"]}}}`),
		[]byte(`{"layer":"P1","tools":{"t":{"trusted":true},"u":{"labels":["web","pii","web"]},`+
			`"v":{"labels":["suspect"],"threat":{"outputs":{"mine":["nul"],"web":["control","nul"]}},"trusted":"yes"}}}`),
		[]byte(`{"layer":"P1","tools":{"w":{"labels":"pii","threat":[1]},"x":7}}`),
		[]byte(`{"layer":"P1","tools":[1]}`),
		[]byte(`{"layer":"P2","threat":{"outputs":{"late":["nul"]}},"tools":{"t":{"labels":["late"]}}}`),
		[]byte(`{}`))
	require.NoError(t, err)
	for _, c := range []struct {
		tool    string
		signals []string
		taints  bool
		labels  []string
	}{
		{tool: "t"},
		{tool: "t", signals: []string{"bidi-override"}},
		{tool: "t", signals: []string{"control", "secret"}, labels: []string{"secrets", "suspect"}},
		{tool: "u", taints: true, labels: []string{"pii", "web"}},
		{tool: "u", signals: []string{"secret"}, taints: true, labels: []string{"pii", "secrets", "web"}},
		{tool: "v", taints: true, labels: []string{"suspect"}},
		{tool: "v", signals: []string{"nul"}, taints: true, labels: []string{"mine", "suspect", "web"}},
		{tool: "v", signals: []string{"control"}, taints: true, labels: []string{"suspect", "web"}},
		{tool: "w", taints: true},
		{tool: "x", taints: true},
		{tool: "nobody's", taints: true},
	} {
		taints, labels := m.Marks(c.tool, c.signals)
		assert.Equal(t, c.taints, taints, "%s", c.tool)
		assert.Equal(t, c.labels, labels, "%s, %v", c.tool, c.signals)
	}
	_, err = ReadMarks([]byte(`{`))
	assert.Error(t, err)
}

// A policy says of marks what its documents do.
func TestPolicyMarks(t *testing.T) {
	t.Parallel()
	const bundle = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"labels":["pii","web"],"tools":{
		"t":{"effect":"read","input":{"type":"object"},"trusted":true},
		"u":{"effect":"read","input":{"type":"object"},"labels":["web","pii"]}},"rules":[{"id":"a","allow":["t","u"]}]}`
	p := mustCompile(t, bundle)
	m, err := ReadMarks(canonical(t, bundle))
	require.NoError(t, err)
	for _, tool := range []string{"t", "u", "nobody's"} {
		taints, labels := p.Marks(tool, nil)
		wantTaints, wantLabels := m.Marks(tool, nil)
		assert.Equal(t, wantTaints, taints, tool)
		assert.Equal(t, wantLabels, labels, tool)
	}
	taints, labels := (*Policy)(nil).Marks("t", nil)
	assert.True(t, taints && labels == nil, "of no policy")
}
