package helm_test

import (
	"os"
	"strings"
	"testing"
)

// departures are the lines in which a page of docs/ says otherwise than the specification that it was taken from. RATIONALE.md has the reasons.
var departures = map[string][]string{
	"FORMATS.md": {"bad roles as the one role"},
	"POLICY.md":  {"How a call is judged: the eight conditions"},
}

// The pages in docs/ are the specification, but for the lines listed.
func TestSpecification(t *testing.T) {
	if _, err := os.Stat("../shared"); err != nil {
		t.Skip("no ../shared: docs/ is not compared with the specification that it was taken from")
	}
	for name, except := range departures {
		ours, err := os.ReadFile("docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile("../shared/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines, departed := map[string]bool{}, 0
		for line := range strings.Lines(string(ours)) {
			lines[strings.TrimSpace(line)] = true
		}
		for line := range strings.Lines(string(theirs)) {
			if line = strings.TrimSpace(line); lines[line] {
				continue
			}
			for _, s := range except {
				if strings.Contains(line, s) {
					departed++
					line = ""
				}
			}
			if line != "" {
				t.Errorf("docs/%s lacks: %.120s", name, line)
			}
		}
		if departed != len(except) || len(lines) < 80 {
			t.Errorf("docs/%s: %d departures of %d, %d lines", name, departed, len(except), len(lines))
		}
	}
}
