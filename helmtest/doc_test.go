package helmtest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The code in the package comment is code of tests, line by line.
func TestTheCodeInThePackageComment(t *testing.T) {
	t.Parallel()
	trimmed := func(file string) (lines []string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "t.Parallel()" { // the test's own business
				lines = append(lines, line)
			}
		}
		return lines
	}
	tests := "\n" + strings.Join(append(trimmed("../proofgraph/contract_test.go"),
		append(trimmed("../proofgraph/filestore/contract_test.go"),
			append(trimmed("example_test.go"), trimmed("../examples/adapter/guard_test.go")...)...)...), "\n") + "\n"
	blocks := 0
	var block []string
	for _, line := range trimmed("doc.go") {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			block = append(block, strings.TrimSpace(code))
			continue
		}
		if len(block) > 0 && !strings.Contains(tests, "\n"+strings.Join(block, "\n")+"\n") {
			t.Errorf("no test reads\n%s", strings.Join(block, "\n"))
		}
		if len(block) > 0 {
			blocks++
		}
		block = nil
	}
	assert.Equal(t, 4, blocks, "%d pieces of code in the package comment, want 4", blocks)
}
