package clienttest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNPM has each client of npm/clients.mjs do everything.
func TestNPM(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HELM_NPM")
	for _, c := range []client{
		{"runTools", true, true, nil},
		{"chatStream", false, true, nil},
		{"responses", true, true, nil},
		{"responsesKept", true, true, nil},
		{"anthropic", true, true, nil},
		{"sdkChat", true, true, nil},
		{"sdkResponses", true, true, nil},
		{"sdkResponsesKept", true, true, nil},
		{"agentsChat", true, true, nil},
		{"agentsResponses", true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if dir == "" {
				t.Skip("HELM_NPM does not name the directory of the clients; make clients does")
			}
			t.Parallel()
			c.do = node(t, dir, c.name)
			drive(t, c)
		})
	}
}

// node starts a client, and returns what has it do a job.
func node(t *testing.T, dir, name string) func(testing.TB, job) result {
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/node"), "npm/clients.mjs", name)
	cmd.Env = append(os.Environ(), "HELM_NPM="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	return func(t testing.TB, j job) (r result) {
		line, err := json.Marshal(j)
		require.NoError(t, err)
		_, err = in.Write(append(line, '\n'))
		require.NoError(t, err)
		line, err = lines.ReadBytes('\n')
		require.NoError(t, err, "the client ended")
		require.NoError(t, json.Unmarshal(line, &r))
		return r
	}
}
