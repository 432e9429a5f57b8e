package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// What a reader of docs/mcp.md has besides helm.
var besides = map[string]string{
	"notes_cases.yaml": `helm: cases/v1
policy: [notes.yaml]
cases:
  - {name: a note is added, call: add_note, args: {text: milk}, want: ALLOW, rule: P1:notes:notes}
  - {name: notes are read, call: read_notes, args: {}, want: ALLOW, rule: P1:notes:notes}
  - {name: nothing is deleted, call: delete_notes, args: {}, want: DENY, reason: NO_POLICY_DEFINED}
`,
	"script": "list\ncall add_note {\"text\":\"milk\"}\ncall delete_notes {}\ncall read_notes {}\n",
}

// varies is what another run says otherwise: digests, keys, names of logs, times.
var varies = regexp.MustCompile(`[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|[A-Za-z0-9+/_-]{40,}=*`)

// TestBegin runs the commands of docs/mcp.md, from an empty directory on. Each says what stands
// there.
func TestBegin(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const name = "../../docs/mcp.md"
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	dir := t.TempDir()
	for file, text := range besides {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	var got strings.Builder
	inside, n := false, 0
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case inside && !strings.HasPrefix(line, "$ "):
			continue // what it said before
		case inside:
			got.WriteString(line)
			c := exec.Command("bash", "-c", strings.TrimPrefix(line, "$ "))
			c.Dir = dir
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s%s", line, out)
			got.WriteString(strings.ReplaceAll(string(out), dir, "."))
			n++
			continue
		}
		got.WriteString(line)
	}
	require.Greater(t, n, 10)
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got.String()), 0o644))
		return
	}
	assert.Equal(t, varies.ReplaceAllString(string(b), "…"), varies.ReplaceAllString(got.String(), "…"),
		"go test . -run TestBegin -update, in cmd/helm")
}
