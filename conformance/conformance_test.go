package conformance_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/helmkernel/helm/conformance"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/sandbox"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every gate that this version has is passed, and the report can be opened. The log of the test has
// the table.
func TestConformance(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(key)
	require.NoError(t, err)
	sandboxes, err := sandbox.New(sandbox.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { sandboxes.Close(context.Background()) })
	report, err := conformance.Run(t.Context(), conformance.Options{Key: key, Rerun: sandboxes.Rerun(nil),
		Sandbox: func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error) {
			return sandboxes.Load(context.Background(), wasm, name, g, sandbox.Host{})
		}})
	require.NoError(t, err)
	t.Logf("\n%s", report)
	for _, g := range report.Gates {
		assert.NotEqual(t, conformance.Failed, g.Result, "%s: %v", g.Name, g.Failed)
	}
	want := conformance.Full
	if report.Gates[10].Result == conformance.NotRun {
		want = conformance.Kernel // and the table says why
	}
	assert.Equal(t, want, report.Level)
	if want == conformance.Full {
		readme, err := os.ReadFile("../README.md")
		require.NoError(t, err)
		for line := range strings.Lines(report.String()) {
			if !strings.HasPrefix(line, "of: ") {
				assert.True(t, strings.Contains(string(readme), "    "+line), "README.md has not the line %s", line)
			}
		}
	}
	opened, err := conformance.Open(report.Envelope, public)
	require.NoError(t, err)
	assert.Equal(t, report.String(), opened.String())
}
