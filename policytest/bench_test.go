package policytest

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The figures that docs/TESTING.md states.

// BenchmarkCases runs 1,000 cases with coverage: a kernel each, and its log verified with replay.
func BenchmarkCases(b *testing.B) {
	var cases strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&cases, "  - {name: c%d, caller: ann, call: list_payments, args: {last: 5}, want: ALLOW}\n", i)
	}
	benchmark(b, suiteOf(b, cases.String()), 1000, Options{})
}

// BenchmarkRows runs 10,000 rows of one case.
func BenchmarkRows(b *testing.B) {
	var cases strings.Builder
	cases.WriteString("  - name: rows\n    caller: ann\n    call: list_payments\n    want: ALLOW\n    each:\n")
	for i := range 10000 {
		fmt.Fprintf(&cases, "      - {args: {last: %d}}\n", i%100+1)
	}
	benchmark(b, suiteOf(b, cases.String()), 10000, Options{})
}

// BenchmarkMutants runs the mutants of the bank's three documents under 200 cases. Those that
// notice the changes come last.
func BenchmarkMutants(b *testing.B) {
	text, err := os.ReadFile("testdata/stack_cases.yaml")
	require.NoError(b, err)
	files := fstest.MapFS{}
	for _, name := range []string{"floor.yaml", "bank.yaml", "task.yaml"} {
		doc, err := fs.ReadFile(os.DirFS("testdata"), name)
		require.NoError(b, err)
		files[name] = &fstest.MapFile{Data: doc}
	}
	var more strings.Builder
	more.WriteString("cases:\n")
	s, err := Load(os.DirFS("testdata"), "stack_cases.yaml")
	require.NoError(b, err)
	for i := range 200 - len(s.cases) {
		fmt.Fprintf(&more, "  - {name: more %d, caller: ann, before: [{call: list_payments}], call: send_money, "+
			"args: {to: GB29NWBK60161331926819, amount: 5}, want: ALLOW}\n", i)
	}
	files["c.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(string(text), "cases:\n", more.String(), 1))}
	s, err = Load(files, "c.yaml")
	require.NoError(b, err)
	benchmark(b, s, 200, Options{Mutate: true})
}

// BenchmarkReplay judges a transcript of 1,000 messages, 500 of which are calls.
func BenchmarkReplay(b *testing.B) {
	var calls [][3]string
	for range 500 {
		calls = append(calls, [3]string{"list_payments", "{}", paid})
	}
	s, err := transcribed(b, talk(calls...), "")
	require.NoError(b, err)
	benchmark(b, s, 1, Options{})
}

func benchmark(b *testing.B, s *Suite, cases int, o Options) {
	b.Helper()
	for b.Loop() {
		if r := mustRun(b, s, o); len(r.Cases) != cases || !r.OK() {
			b.Fatal(r.String())
		}
	}
}
