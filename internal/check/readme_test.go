package check

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

// The program in README compiles, prints what README says that it prints, and continues its log
// when it runs again.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 1, "programs in README")
	source, err := os.MkdirTemp(filepath.Join(root, "testdata"), "readme-") // inside the module
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(source) })
	require.NoError(t, os.WriteFile(filepath.Join(source, "main.go"), []byte(blocks[0][1]), 0o600))
	dir := t.TempDir()
	program := filepath.Join(dir, "readme")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for run := range 2 {
		command := exec.CommandContext(t.Context(), program)
		command.Dir = dir
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, lines, 2)
		if run == 0 {
			for _, line := range lines {
				assert.Contains(t, string(text), "`"+line+"`", "what README says that it prints")
			}
			continue
		}
		assert.Equal(t, []string{`ALLOW ALLOW "sent" receipt 6`, "DENY DESTINATION_NOT_ALLOWED  receipt 7"}, lines)
	}
}
