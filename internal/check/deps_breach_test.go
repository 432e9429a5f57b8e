package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each breach is made in a small tree of its own, which passes without it, and must be found.
func TestImportBreaches(t *testing.T) {
	t.Parallel()
	const module = "example.org/kernel"
	list := map[string]allowed{
		"helm": {"helm/crypto": "digests", "helm/guardian": "judges", "time": "the type of a clock",
			"time.Now": "the default clock"},
		"helm/crypto":   {"crypto/sha256": "digests"},
		"helm/guardian": {"helm/crypto": "digests", "time": "durations"},
	}
	tests := allowed{"testing": "runs them"}
	good := map[string]string{
		"kernel.go": "package helm\n\nimport (\n\t\"example.org/kernel/crypto\"\n\t_ " +
			"\"example.org/kernel/guardian\"\n\t\"time\"\n)\n\nvar Now, Sum = time.Now, crypto.Sum\n",
		"crypto/sum.go": "package crypto\n\nimport \"crypto/sha256\"\n\nvar Sum = sha256.Sum256\n",
		"guardian/judge.go": "package guardian\n\nimport " +
			"(\n\t\"example.org/kernel/crypto\"\n\t\"time\"\n)\n\nfunc Judge(d time.Duration) [32]byte { return " +
			"crypto.Sum(nil) }\n",
		"guardian/g_test.go":    "package guardian\n\nimport \"testing\"\n\nfunc TestJudge(t *testing.T) {}\n",
		"testdata/broken.go":    "not Go at all",
		"cmd/helm/go.mod":       "module example.org/kernel/cmd/helm\n",
		"cmd/helm/main.go":      "package main\n\nimport \"net\"\n",
		"docs/how.md":           "import \"net\"",
		"guardian/.hidden/x.go": "package x\n\nimport \"os\"\n",
	}
	if got := checkTree(t, module, good, nil, list, tests); len(got) > 0 {
		t.Fatalf("the tree without a breach is refused:\n%s", strings.Join(got, "\n"))
	}

	cases := []struct {
		name string
		file string // added or replaced; with no text removed
		text string
		want []string
	}{
		{"net in the core", "guardian/net.go", "package guardian\n\nimport _ \"net\"\n",
			[]string{"guardian/net.go: imports net, which is not listed for helm/guardian"}},
		{"os in guardian, behind a build tag", "guardian/x_plan9.go",
			"//go:build never\n\npackage guardian\n\nimport _ \"os\"\n",
			[]string{"guardian/x_plan9.go: imports os, which is not listed for helm/guardian"}},
		{"time.Now under another name", "guardian/clock.go",
			"package guardian\n\nimport clock \"time\"\n\nfunc now() clock.Time { return clock.Now() }\n",
			[]string{"guardian/clock.go: uses time.Now, which is not listed for helm/guardian"}},
		{"time.Now as a value", "guardian/clock.go", "package guardian\n\nimport \"time\"\n\nvar now = time.Now\n",
			[]string{"guardian/clock.go: uses time.Now, which is not listed for helm/guardian"}},
		{"the clock by way of time.Since", "guardian/clock.go",
			"package guardian\n\nimport \"time\"\n\nvar age = time.Since(time.Time{})\n",
			[]string{"guardian/clock.go: uses time.Since, which is not listed for helm/guardian"}},
		{"time as its own names", "guardian/clock.go", "package guardian\n\nimport . \"time\"\n\nvar now = Now()\n",
			[]string{"guardian/clock.go: imports time into its own names"}},
		{"a goroutine at import", "guardian/run.go",
			"package guardian\n\nvar _ = func() int { go func() {}(); return 0 }()\n",
			[]string{"guardian/run.go: starts a goroutine, which is not listed for helm/guardian"}},
		{"a goroutine by a wait group", "guardian/run.go",
			"package guardian\n\nimport \"sync\"\n\nfunc run(g *sync.WaitGroup) { g.Go(func() {}) }\n",
			[]string{"guardian/run.go: imports sync, which is not listed for helm/guardian",
				"guardian/run.go: starts a goroutine by a method Go, which is not listed for helm/guardian"}},
		{"randomness", "crypto/random.go", "package crypto\n\nimport _ \"math/rand/v2\"\n",
			[]string{"crypto/random.go: imports math/rand/v2, which is not listed for helm/crypto"}},
		{"init", "crypto/start.go", "package crypto\n\nfunc init() {}\n",
			[]string{"crypto/start.go: has an init function, which is not listed for helm/crypto"}},
		{"linkname", "crypto/link.go",
			"package crypto\n\nimport _ \"crypto/sha256\"\n\n//go:linkname now time.now\nfunc now() (int64, " +
				"int32, int64)\n",
			[]string{"crypto/link.go: go:linkname reaches what no import shows"}},
		{"an import against the arrows", "crypto/back.go",
			"package crypto\n\nimport _ \"example.org/kernel/guardian\"\n",
			[]string{"crypto/back.go: imports helm/guardian, which is not listed for helm/crypto"}},
		{"an unlisted package", "internal/more/more.go", "package more\n",
			[]string{"internal/more/more.go: package helm/internal/more is not listed"}},
		{"an unlisted library in a test", "guardian/h_test.go", "package guardian\n\nimport _ \"example.com/assert\"\n",
			[]string{"guardian/h_test.go: imports example.com/assert, which is not listed for tests"}},
		{"an entry no longer used", "guardian/judge.go",
			"package guardian\n\nimport \"time\"\n\nfunc Judge(d time.Duration) {}\n",
			[]string{"helm/guardian: helm/crypto is listed and not used"}},
		{"an effect no longer used", "kernel.go",
			"package helm\n\nimport (\n\t_ \"example.org/kernel/crypto\"\n\t_ " +
				"\"example.org/kernel/guardian\"\n\t\"time\"\n)\n\nvar Now func() time.Time\n",
			[]string{"helm: time.Now is listed and not used"}},
		{"a package no longer there", "guardian/judge.go", "",
			[]string{"helm/guardian: listed, but there is no such package"}},
		{"an unparsable file", "crypto/half.go", "package crypto\n\nfunc {",
			[]string{"crypto/half.go: cannot be parsed: 3:6: expected 'IDENT', found '{'"}},
	}
	for _, c := range cases {
		got := checkTree(t, module, good, map[string]string{c.file: c.text}, list, tests)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		t.Logf("%s\n\t%s", c.name, strings.Join(got, "\n\t"))
	}

	list["helm/crypto"]["crypto/sha256"] = ""
	if got := checkTree(t, module, good, nil, list, tests); !slices.Equal(got,
		[]string{"helm/crypto: crypto/sha256 is listed without a reason"}) {
		t.Errorf("an entry without a reason: %q", got)
	}
	if got := checkTree(t, module, nil, nil, nil, nil); !slices.Equal(got,
		[]string{"the tree: no Go files were seen: nothing was checked"}) {
		t.Errorf("an empty tree: %q", got)
	}
	got := checkImports(filepath.Join(t.TempDir(), "nowhere"), module, nil, nil)
	assert.Len(t, got, 2, "a tree that is not there")
}

func checkTree(t *testing.T, module string, files, changed map[string]string, list map[string]allowed,
	tests allowed) []string {
	t.Helper()
	root := t.TempDir()
	for _, set := range []map[string]string{files, changed} {
		for name, text := range set {
			file := filepath.Join(root, filepath.FromSlash(name))
			if text == "" {
				require.NoError(t, os.Remove(file))
				continue
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
		}
	}
	return checkImports(root, module, list, tests)
}
