package witness

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheNoteInThePackageComment: a witness makes that line of that checkpoint under that key, and
// signs what is there as the message.
func TestTheNoteInThePackageComment(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	blocks := codeBlocks(string(source))
	message, checkpoint, keys := blocks[2], blocks[3], strings.Split(blocks[4], "\n")
	body, lines, _ := strings.Cut(checkpoint, "\n\n")
	logLine, line, _ := strings.Cut(lines, "\n")
	w := &Witness{
		Name:  "witness.example.com/w1",
		Key:   seedKey(t, 5),
		Logs:  func(string) []string { return keys[:1] },
		State: &memory{},
		Now:   func() time.Time { return time.Unix(1790000000, 0) },
	}
	got, err := w.Add(context.Background(), 0, nil, []byte(body+"\n\n"+logLine+"\n"))
	require.NoError(t, err)
	require.Equal(t, line, string(got))
	vkey, err := w.VerifierKey()
	require.NoError(t, err)
	require.Equal(t, keys[1], vkey)
	require.Equal(t, "cosignature/v1\ntime 1790000000\n"+body+"\n", message)
}

// codeBlocks returns the indented parts of a comment, each line with its end.
func codeBlocks(source string) (blocks []string) {
	var block string
	for _, l := range strings.Split(source, "\n") {
		switch text, indented := strings.CutPrefix(l, "//\t"); {
		case indented:
			block += text + "\n"
		case l == "//" && block != "":
			block += "\n" // it may go on
		case block != "":
			blocks, block = append(blocks, strings.TrimRight(block, "\n")+"\n"), ""
		}
	}
	return blocks
}
