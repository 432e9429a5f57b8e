package clienttest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commands permits codex its commands, but for one.
const commands = `helm: policy/v1
layer: P1
bundle: {name: codex, version: 2}
tools:
  exec_command: {effect: destructive, input: {type: object, required: [cmd], properties: {cmd: {type: string}}}}
rules:
  - {id: never, deny: exec_command, when: {arg: /cmd, suffix: denied}}
  - {id: most, allow: exec_command}
`

// TestCodex has codex, without a terminal and in a network that is the loopback alone, run the
// commands of a model: both without the proxy, and the allowed one through it.
func TestCodex(t *testing.T) {
	dir, inside := agentIn(t, "HELM_CODEX", "@openai/codex")
	if !inside {
		return
	}
	p := newProvider(t)
	w := newWorld(t, p, commands)
	files, said := codex(t, dir, p.url)
	assert.Equal(t, []string{"allowed", "denied"}, files, "%s", said)
	assert.Contains(t, said, "done.")
	request, err := json.Marshal(p.last)
	require.NoError(t, err)
	require.Contains(t, string(request), `"web_search"`, "or it would not be known that it is removed")
	require.Contains(t, string(request), `"namespace"`)
	require.Contains(t, p.last, "client_metadata")

	files, said = codex(t, dir, w.url)
	assert.Equal(t, []string{"allowed"}, files, "%s", said)
	assert.Contains(t, said, "[helm] exec_command was denied: ")
	assert.Contains(t, said, "done.")
	assert.Len(t, p.last["tools"], 1, "what the policy does not have was not offered")
	assert.NotContains(t, p.last, "client_metadata")
	outcomes, _ := w.outcomes(0)
	assert.Equal(t, map[string]int{"exec_command EXECUTED": 1, "exec_command DENIED": 1}, outcomes)
	assert.Empty(t, w.verify().Open)
}

// codex runs codex in a new directory, and returns the files that are there then, and what it said.
func codex(t *testing.T, dir, url string) (files []string, said string) {
	home, work := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, `
model = "codex"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, url), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/node"),
		filepath.Join(dir, "node_modules/@openai/codex/bin/codex.js"),
		"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "Touch the files.")
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return names(t, work), string(out)
}
