package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const adaptersFile = root + "/docs/adapters.md"

// TestAdapterDocument composes the marked parts of docs/adapters.md: the tables of the suite, of
// the adapters that the mark names, files, and what the example of a file of tests prints. They are
// changed by
//
//	go test ./internal/check -run TestAdapterDocument -update
func TestAdapterDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(adaptersFile)
	require.NoError(t, err)
	named := map[string]bool{}
	composed := marks.ReplaceAllStringFunc(string(text), func(part string) string {
		m := marks.FindStringSubmatch(part)
		var body string
		switch m[1] {
		case "table":
			for _, name := range strings.Fields(m[2]) {
				named[name] = true
			}
			body = suiteTable(t, strings.Fields(m[2]))
		case "file":
			body = sourceBlock(t, m[2])
		case "output":
			body = outputBlock(t, m[2])
		}
		return fmt.Sprintf("<!-- %s: %s -->\n\n%s\n<!-- end -->", m[1], m[2], body)
	})
	assert.GreaterOrEqual(t, strings.Count(composed, "<!-- end -->"), 3, "marks of docs/adapters.md")
	tables, err := filepath.Glob(root + "/integrations/*/testdata/suite.txt")
	require.NoError(t, err)
	for _, file := range tables {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		assert.True(t, named[name], "integrations/%s has a table that the mark in docs/adapters.md does not name", name)
	}
	if composed == string(text) {
		return
	}
	if *update {
		require.NoError(t, os.WriteFile(adaptersFile, []byte(composed), 0o666))
		return
	}
	t.Errorf("docs/adapters.md is not composed of what it names; if that is meant: " +
		"go test ./internal/check -run TestAdapterDocument -update")
}

var marks = regexp.MustCompile(`(?s)<!-- (table|file|output): ([^>]*?) -->\n.*?<!-- end -->`)

// suiteTable joins the tables of adapters: a row for each attack, and below it the reasons.
func suiteTable(t *testing.T, names []string) string {
	t.Helper()
	var rows []string
	outcomes, reasons := map[string][]string{}, []string{}
	for _, name := range names {
		file := root + "/integrations/" + name + "/testdata/suite.txt"
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		seen := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			fields := strings.Fields(line)
			require.GreaterOrEqual(t, len(fields), 2, "%s: %q", file, line)
			attack, outcome := fields[0], fields[1]
			if attacksOf[attack] == "" {
				t.Errorf("%s: no attack is called %s", file, attack)
			}
			require.NotEqual(t, "broken", outcome, "%s: %s", file, line)
			if len(outcomes[attack]) == 0 {
				rows = append(rows, attack)
			}
			outcomes[attack] = append(outcomes[attack], outcome)
			seen++
			if outcome == "lacks" {
				reasons = append(reasons, fmt.Sprintf("- %s, %s: %s", name, attack, strings.Join(fields[2:], " ")))
			}
		}
		assert.Equal(t, len(attacksOf), seen, "%s: rows", file)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| attack | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, attack := range rows {
		fmt.Fprintf(&b, "| `%s` %s | %s |\n", attack, attacksOf[attack], strings.Join(outcomes[attack], " | "))
	}
	if len(reasons) > 0 {
		fmt.Fprintf(&b, "\nWhat they lack, and why:\n\n%s\n", strings.Join(reasons, "\n"))
	}
	return b.String()
}

// attacksOf has the attacks of helmtest.AdapterSuite.
var attacksOf = map[string]string{
	"01-kinds":    "tools of each kind",
	"02-changed":  "arguments that a later hook changes",
	"03-defaults": "defaults that a later hook fills in",
	"04-keys":     "keys that are duplicate, unknown, of other letter case",
	"05-numbers":  "9007199254740993, 1e400, a lone surrogate",
	"06-unknown":  "tools that do not exist",
	"07-alias":    "tools by another name",
	"08-streams":  "streams that are cut short",
	"09-parallel": "32 calls in one answer",
	"10-siblings": "one denial among several calls",
	"11-approval": "approvals of other calls, and of nobody",
	"12-context":  "time limits, a host that leaves",
	"13-panic":    "a tool that panics",
	"14-repeat":   "calls that are repeated",
	"15-ways":     "other ways to the tool",
	"16-nested":   "a tool that makes calls",
	"17-bytes":    "the released bytes, exactly",
	"18-late":     "tools that are added later",
	"story":       "a support agent, audited",
}

// sourceBlock returns a file: all of a policy, and of Go what follows the package clause and the
// clause itself.
func sourceBlock(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/" + file)
	require.NoError(t, err)
	if filepath.Ext(file) == ".yaml" {
		return "```yaml\n" + string(text) + "```\n"
	}
	at := strings.Index("\n"+string(text), "\npackage ")
	require.GreaterOrEqual(t, at, 0, "%s has no package clause", file)
	return "```go\n" + string(text[at:]) + "```\n"
}

// outputBlock returns the output of the one example of a file, which go test compares with what it
// prints.
func outputBlock(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/" + file)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n\t// Output:\n")
	require.True(t, found, "%s has no example with an output", file)
	block, _, found := strings.Cut(after, "\n}")
	require.True(t, found, "%s: the end of the example", file)
	var b strings.Builder
	for line := range strings.Lines(block + "\n") {
		told, found := strings.CutPrefix(line, "\t// ")
		require.True(t, found, "%s: %q", file, line)
		b.WriteString(told)
	}
	return "```text\n" + b.String() + "```\n"
}

// TestAdapterExamples counts the programs that put an agent of a framework under guard: each has at
// most 30 lines of code, besides imports and comments.
func TestAdapterExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(root + "/integrations/*/example/main.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, code, found := strings.Cut(string(text), "\nimport (")
		require.True(t, found, "%s: imports", file)
		_, code, _ = strings.Cut(code, "\n)\n")
		n := 0
		for line := range strings.Lines(code) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "//") {
				n++
			}
		}
		assert.LessOrEqual(t, n, 30, "%s: lines of code", file)
		assert.Positive(t, n, "%s: lines of code", file)
	}
}
