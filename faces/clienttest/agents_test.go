package clienttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAgentsOfNPM runs the agents of docs/agents.md as they stand there. What was allowed they
// run, and nothing else.
func TestAgentsOfNPM(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/agents.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\n```(js|sh)\n(.*?)\n```\n").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 3)
	for i, name := range []string{"chat", "responses", "curl"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newProvider(t), rules)
			cmd := agent(t, blocks[i][1], blocks[i][2])
			cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+w.url+"/v1", "OPENAI_API_KEY=sk-none", "MODEL=mixed")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "I look first.")
			assert.Contains(t, string(out), "mail was denied")
			assert.Contains(t, string(out), "done.")
			var ran []string
			for line := range strings.Lines(string(out)) {
				if at := strings.Index(line, "run look"); at >= 0 {
					ran = append(ran, strings.TrimSpace(line[at:]))
				}
				assert.NotContains(t, line, "run mail")
			}
			assert.Equal(t, []string{`run look {"at":1}`, `run look {"at":2}`}, ran)
			outcomes, _ := w.outcomes(0)
			assert.Equal(t, map[string]int{"look EXECUTED": 2, "mail DENIED": 1}, outcomes)
		})
	}
}

// agent returns the command that runs a program, or skips the test.
func agent(t *testing.T, language, text string) *exec.Cmd {
	t.Helper()
	if language == "sh" {
		for _, tool := range []string{"curl", "jq", "bash"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("%s is not there", tool)
			}
		}
		return exec.CommandContext(t.Context(), "bash", "-c", text)
	}
	dir := os.Getenv("HELM_NPM")
	if dir == "" {
		t.Skip("HELM_NPM does not name the directory of the clients; make clients does")
	}
	own, err := os.MkdirTemp(dir, "agent") // below the modules that it imports
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	name := filepath.Join(own, "agent.mjs")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/node"), name)
}
