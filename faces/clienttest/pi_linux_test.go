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

// piCommands permits pi its commands, but for one.
const piCommands = `helm: policy/v1
layer: P1
bundle: {name: pi, version: 1}
tools:
  bash: {effect: destructive, input: {type: object, required: [command], properties: {command: {type: string}}}}
rules:
  - {id: never, deny: bash, when: {arg: /command, suffix: denied}}
  - {id: most, allow: bash}
`

// TestPi does with pi, which speaks the messages API, what TestCodex does with codex.
func TestPi(t *testing.T) {
	dir, inside := agentIn(t, "HELM_PI", "@mariozechner/pi-coding-agent")
	if !inside {
		return
	}
	p := newProvider(t)
	w := newWorld(t, p, piCommands)
	files, said := pi(t, dir, p.url)
	assert.Equal(t, []string{"allowed", "denied", "last"}, files, "%s", said)
	assert.Contains(t, said, "done.")
	assert.Greater(t, len(objects(p.last["tools"])), 1, "or it would not be known that tools are removed")

	files, said = pi(t, dir, w.url)
	assert.Equal(t, []string{"allowed", "last"}, files, "%s", said)
	assert.Contains(t, said, "done.")
	assert.Len(t, objects(p.last["tools"]), 1, "what the policy does not have was not offered")
	request, err := json.Marshal(p.last["messages"])
	require.NoError(t, err)
	assert.Contains(t, string(request), "[helm] bash was denied: ")
	outcomes, _ := w.outcomes(0)
	assert.Equal(t, map[string]int{"bash EXECUTED": 2, "bash DENIED": 1}, outcomes)
	assert.Empty(t, w.verify().Open)
}

// pi runs pi in a new directory, and returns the files that are there then, and what it said.
func pi(t *testing.T, dir, url string) (files []string, said string) {
	home, work := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "models.json"), fmt.Appendf(nil, `{"providers": {"local": {
		"baseUrl": %q, "api": "anthropic-messages", "apiKey": "sk-none",
		"models": [{"id": "pi", "contextWindow": 200000, "maxTokens": 8192}]}}}`, url), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/node"),
		filepath.Join(dir, "node_modules/@mariozechner/pi-coding-agent/dist/cli.js"),
		"--provider", "local", "--model", "pi", "--no-session", "--no-context-files", "-p", "Touch the files.")
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PI_CODING_AGENT_DIR=" + home, "PI_OFFLINE=1"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return names(t, work), string(out)
}
