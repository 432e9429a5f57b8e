package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// calledIn finds what a line of a page runs: helm, by any path, and its arguments up to what is the
// shell's.
var calledIn = regexp.MustCompile(`(?:^\s*|\$ |&& |sudo -u helm )(?:\./|\.\./)?helm ((?:'[^']*'|"[^"]*"|[^'"#>|&\n])+)`)

// inline finds commands within a sentence.
var inline = regexp.MustCompile("`helm ([a-z][^`]*)`")

// TestPagesCallCommands: each command that README and the pages of docs call is one that there is,
// with its flags and as many arguments as it takes; each that a sentence names is there.
func TestPagesCallCommands(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	calls, names := 0, 0
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		block, usage := false, filepath.Base(page) == "cli.md" // whose blocks say how commands are called
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "```") {
				block = !block
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				if m[1] == "checkpoint" || strings.HasPrefix(m[1], "sandbox ") { // names in formats
					continue
				}
				c, _, err := (&app{}).root().Find(strings.Fields(m[1]))
				require.NoError(t, err, "%s: %s", page, m[1])
				assert.NotEqual(t, "helm", c.Name(), "%s: %s", page, m[1])
				names++
			}
			if !block && !strings.HasPrefix(line, "    ") || usage && !strings.Contains(line, "helm.yaml") {
				continue
			}
			for _, m := range calledIn.FindAllStringSubmatch(line, -1) {
				words := shellWords(m[1])
				require.NotEmpty(t, words, "%s: %s", page, line)
				isCommand(t, words)
				calls++
			}
		}
	}
	assert.GreaterOrEqual(t, calls, 12)
	assert.GreaterOrEqual(t, names, 12)
}

// shellWords splits a line where a shell does.
func shellWords(line string) (words []string) {
	for _, w := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|\S)+`).FindAllString(line, -1) {
		words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(w))
	}
	return words
}
