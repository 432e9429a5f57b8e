package policytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// TestTutorial runs the tutorial of docs/TESTING.md in an empty directory, block by block: what a
// block prints has the lines that stand below it, in their order. Only go get is replaced, by this
// module.
func TestTutorial(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if testing.Short() {
		t.Skip("it builds another module")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh: the tutorial is not run")
	}
	page, err := os.ReadFile("../docs/TESTING.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "\n## Ten minutes")
	text, _, _ = strings.Cut(text, "\n## ")
	script, wants := tutorial(text)
	module, err := filepath.Abs("..")
	require.NoError(t, err)
	const get = "go get github.com/helmkernel/helm\n"
	require.Equal(t, 1, strings.Count(script, get))
	script = strings.Replace(script, get, fmt.Sprintf("go mod edit -require=github.com/helmkernel/helm@v0.0.0 "+
		"-replace=github.com/helmkernel/helm=%q\ncp %q .\n", module, filepath.Join(module, "go.sum")), 1)
	cmd := exec.Command(sh)
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(script)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, _ := cmd.CombinedOutput() // some of the blocks fail, and say so
	parts := strings.Split(string(out), border+"\n")
	require.Len(t, parts, len(wants)+1, "%s", out)
	compared := 0
	for i, want := range wants {
		rest := parts[i]
		for _, line := range want {
			_, after, found := strings.Cut(rest, line)
			if !assert.True(t, found, "block %d does not print, in this order: %s\n%s", i+1, line, parts[i]) {
				break
			}
			rest, compared = after, compared+1
		}
	}
	assert.Greater(t, compared, 20)
}

const border = "---- next ----"

// tutorial returns the blocks of commands as one script, which prints a border after each, and the
// lines that stand below each.
func tutorial(text string) (script string, wants [][]string) {
	for i, block := range strings.Split(text, "\n```") {
		commands, ok := strings.CutPrefix(block, "sh\n")
		switch {
		case i%2 == 0:
		case ok:
			script += commands + "\necho '" + border + "'\n"
			wants = append(wants, nil)
		default:
			n := len(wants) - 1
			wants[n] = append(wants[n], strings.Split(strings.TrimSpace(block), "\n")...)
		}
	}
	return script, wants
}
