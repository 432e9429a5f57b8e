package conformance_test

import (
	"testing"

	"github.com/helmkernel/helm/conformance"
	"github.com/helmkernel/helm/crypto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every gate that this version has is passed, and the report can be opened. The log of the test has
// the table.
func TestConformance(t *testing.T) {
	t.Parallel()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(key)
	require.NoError(t, err)
	report, err := conformance.Run(t.Context(), conformance.Options{Key: key})
	require.NoError(t, err)
	t.Logf("\n%s", report)
	for _, g := range report.Gates {
		assert.NotEqual(t, conformance.Failed, g.Result, "%s: %v", g.Name, g.Failed)
	}
	opened, err := conformance.Open(report.Envelope, public)
	require.NoError(t, err)
	assert.Equal(t, report.String(), opened.String())
}
