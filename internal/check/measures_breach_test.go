package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tree that breaks every bound has each breach reported, and a tree on the bounds has none.
func TestMeasureBreaches(t *testing.T) {
	t.Parallel()
	widest := "var W = `" + strings.Repeat("x", columns-10) + "`\n"
	wider := strings.Replace(widest, "x", "xx", 1)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string][]string
	}{
		{"on the bounds", merged(
			many("file%d", "", maxRoot-maxRootCode-maxRootTests-1), // and go.mod
			many("c%d.go", "package house\n", maxRootCode),
			many("c%d_test.go", "package house\n", maxRootTests),
			ring("guardian", 8), ring("evidence/graph", 8), ring("other", 11), ring("internal/jsonschema", 12),
			map[string]string{
				"contracts/records.go": "package contracts\n\n" + structure("DecisionRecord", maxFields+1),
				"fields/fields.go":     "package fields\n\n" + structure("Fields", maxFields),
				"guardian/long.go":     "package guardian\n" + strings.Repeat("var _ = 0\n", maxCore-1-8*4),
				"wide/wide.go": "package wide\n\n" + widest + "// " + strings.Repeat("y",
					commentColumns-3) + "\n",
				"wide/wide_test.go": "package wide\n\n" + strings.Repeat("var _ = 0\n", 99-maxRootTests) + wider,
				"errors/errors.go":  "package errors\n\nfunc F(any, func() error) error { return nil }\n",
			},
		), map[string][]string{}},
		{"over them", merged(
			many("file%d", "", maxRoot-maxRootCode-maxRootTests-3),
			many("c%d.go", "package house\n", maxRootCode+1),
			many("c%d_test.go", "package house\n", maxRootTests+1),
			ring("guardian", 9), ring("other", 12), methods("methods", maxMethodFiles+1),
			map[string]string{
				"contracts/records.go": "package contracts\n\n" + structure("DecisionRecord", 1),
				"fields/fields.go":     "package fields\n\n" + structure("Fields", maxFields+1),
				"guardian/long.go":     "package guardian\n" + strings.Repeat("var _ = 0\n", maxCore-9*4),
				"wide/wide.go": "package wide\n\n" + wider + "// " + strings.Repeat("y",
					commentColumns-2) + "\n",
				"wide/wide_test.go": "package wide\n\n" + strings.Repeat("var _ = 0\n", 97-maxRootTests) + wider,
				"words/words.go": "package words\n\n// F gives what\n// it is\n// asked, behind a " +
					"wall.\nfunc F() {}\n",
				"README.md":       "# House\n\n```\ngives\n```\n\nIt tells\nwhether.\n",
				"words/bank.yaml": "# whoever bears it anew, lest he ask somebody\n# where there is none, beside it\n",
				"errors/errors.go": "package errors\n\ntype E struct{}\n\n" +
					"func (*E) Error() string { return \"\" }\n\nfunc (*E) F() *E { return nil }\n\n" +
					"func G(func([]interface{ Close() })) {}\n",
			},
		), map[string][]string{
			gateRoot: {"19 files of code in the root, of 18 at most", "19 tests in the root, of 18 at most",
				"47 files in the root, of 46 at most"},
			gateCircle: {
				"guardian: 9 files use each other, of 8 at most: r0.go r1.go r2.go r3.go r4.go r5.go r6.go r7.go r8.go",
				"other: 12 files use each other, of 11 at most: " +
					"r0.go r1.go r10.go r11.go r2.go r3.go r4.go r5.go r6.go r7.go r8.go r9.go",
			},
			gateCore:    {"1851 code lines in guardian, of 1850 at most"},
			gateMethods: {"methods/methods.T: methods in 8 files, of 7 at most"},
			gateFields: {
				"contracts/records.go: contracts.DecisionRecord has 1 fields: it needs no exemption",
				"fields/fields.go: fields.Fields has 21 fields, of 20 at most",
			},
			gateWide:     {"wide/wide.go:3: 121 columns"},
			gateTestWide: {"wide/wide_test.go:82: 121 columns"},
			gateComments: {"wide/wide.go:4: 101 columns"},
			gateWords: {`README.md:7: "tells\nwhether": write reports whether`,
				`words/bank.yaml:1: "anew": write again`, `words/bank.yaml:1: "bears": write holds, has`,
				`words/bank.yaml:1: "he": write they`, `words/bank.yaml:1: "lest": write so that not`,
				`words/bank.yaml:1: "somebody": write a caller, a user`,
				`words/bank.yaml:1: "whoever": write the caller, who`,
				`words/words.go:3: "gives": write returns`,
				`words/words.go:4: "it is\n asked": write the active voice`},
			gateDoubtful: {`words/bank.yaml:2: "beside": write and, with, next to`,
				`words/bank.yaml:2: "where there": write if`, `words/words.go:5: "behind": write after`},
			gateErrors:    {"errors: E.F returns a concrete error type: return error"},
			gateInterface: {"errors: G has an interface without a name"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.files["go.mod"] = "module example.org/house\n\ngo 1.25\n"
			found := measure(t, written(t, c.files)).breaches
			for _, lines := range found {
				slices.Sort(lines)
			}
			assert.Equal(t, c.want, found)
		})
	}
}

// written writes a tree of files and returns its directory.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	}
	return dir
}

func merged(sets ...map[string]string) map[string]string {
	all := make(map[string]string)
	for _, set := range sets {
		for name, text := range set {
			all[name] = text
		}
	}
	return all
}

// many returns n files with the same text.
func many(name, text string, n int) map[string]string {
	files := make(map[string]string)
	for i := range n {
		files[fmt.Sprintf(name, i)] = text
	}
	return files
}

// ring returns a package of n files, each of which uses the next, with 4 code lines each.
func ring(dir string, n int) map[string]string {
	files := make(map[string]string)
	for i := range n {
		files[fmt.Sprintf("%s/r%d.go", dir, i)] = fmt.Sprintf("package %s\n\nfunc f%d() {\n\tf%d()\n}\n",
			filepath.Base(dir), i, (i+1)%n)
	}
	return files
}

// methods returns a package with a type that has methods in n files.
func methods(dir string, n int) map[string]string {
	files := map[string]string{dir + "/t.go": "package " + dir + "\n\ntype T[P any] struct{}\n"}
	for i := range n {
		files[fmt.Sprintf("%s/m%d.go", dir, i)] = fmt.Sprintf("package %s\n\nfunc (*T[P]) m%d() {}\n", dir, i)
	}
	return files
}

// structure returns a struct type of n fields, two of them in one line.
func structure(name string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "type %s struct {\n", name)
	for i := range n / 2 {
		fmt.Fprintf(&b, "\tA%d, B%d int\n", i, i)
	}
	b.WriteString(strings.Repeat("\tstring\n", n%2))
	b.WriteString("}\n")
	return b.String()
}
