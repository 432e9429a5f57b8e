package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The inspector of the protocol sees over stdio what the policy allows, and is denied another call,
// with a receipt. A tool that is not listed it does not call. make suite fetches it.
func TestSuiteInspector(t *testing.T) {
	t.Parallel()
	suite := os.Getenv("HELM_MCP_SUITE")
	if suite == "" {
		t.Skip("needs the inspector and Node: make suite fetches them")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"notes.yaml": "helm: policy/v1\nlayer: P1\nbundle: {name: notes, version: 1}\ntools:\n" +
			"  add_note: {effect: write, input: {type: object, properties: {text: {type: string}}}}\n" +
			"  delete_notes: {effect: write, input: {type: object}}\n" +
			"rules: [{id: milk, allow: add_note, when: {arg: /text, eq: milk, absent: false}}]\n",
		"mcp.json": `{"mcpServers": {"notes": {"command": "helm", "args": ["mcp", "wrap", "--", "notes"]}}}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(name string, args ...string) string {
		c := exec.Command(name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir)
		out, _ := c.CombinedOutput() // a tool that fails is an exit of its own
		return string(out)
	}
	run("helm", "init", ".")
	run("sed", "-i", "s/^policy: .*/policy: [notes.yaml]/", "helm.yaml")
	inspect := func(args ...string) string {
		return run(filepath.Join(suite, "node_modules/node"), append([]string{
			filepath.Join(suite, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
			"--cli", "--config", "mcp.json", "--server", "notes"}, args...)...)
	}
	listed := inspect("--method", "tools/list")
	assert.Contains(t, listed, `"add_note"`)
	assert.NotContains(t, listed, `"delete_notes"`)
	assert.NotContains(t, listed, `"read_notes"`)
	denied := inspect("--method", "tools/call", "--tool-name", "add_note", "--tool-arg", "text=beer")
	assert.Contains(t, denied, "NO_POLICY_DEFINED")
	assert.Contains(t, run("helm", "log", "show", "state"), "receipt  add_note  DENY  DENIED  NO_POLICY_DEFINED")
}
