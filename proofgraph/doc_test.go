package proofgraph

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

// The checkpoint in the package comment is one.
func TestTheCheckpointInThePackageComment(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(source), "This one\n//\n")
	text, rest, _ := strings.Cut(rest, "//\n// verifies under this key")
	var lines []string
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(l, "//"), "\t"))
	}
	_, key, _ := strings.Cut(rest, "//\t")
	key, _, _ = strings.Cut(key, "\n")
	verifier, err := note.NewVerifier(key)
	require.NoError(t, err)
	msg := strings.Join(lines, "\n") + "\n"
	n, err := note.Open([]byte(msg), note.VerifierList(verifier))
	require.True(t, err == nil && len(n.Sigs) == 1, "%v\n%s", err, msg)
	c, _, err := ParseCheckpoint([]byte(msg))
	assert.True(t, err == nil && c.Size == 2 && c.Origin == verifier.Name(), "%v %v", c, err)
}
