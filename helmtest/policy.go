package helmtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmkernel/helm/policytest"
)

// Policy runs files of cases (package [policytest]): each file is a subtest, and each case and row
// one of it. pattern is that of [filepath.Glob], like *_cases.yaml; if no file matches it the test
// fails. There are no options or one.
//
// What is covered is logged, so go test -v prints it. Coverage below Options.Min, and a mutant that
// survives Options.Mutate, fail the file. Under -v failures show values of the calls.
func Policy(t *testing.T, pattern string, o ...policytest.Options) {
	t.Helper()
	var all policytest.Options
	if len(o) > 0 {
		all = o[0]
	}
	if len(o) > 1 {
		t.Fatalf("helmtest: %d options for one run", len(o))
	}
	all.Values = all.Values || testing.Verbose()
	runFiles(subtest{t}, pattern, all)
}

// A caseT is the part of a testing.T that Policy uses, so that its own tests can record complaints.
type caseT interface {
	Helper()
	Context() context.Context
	Run(name string, f func(caseT)) bool
	Log(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

type subtest struct{ *testing.T }

func (t subtest) Run(name string, f func(caseT)) bool {
	return t.T.Run(name, func(t *testing.T) { f(subtest{t}) })
}

func runFiles(t caseT, pattern string, o policytest.Options) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("helmtest: %s: %v", pattern, err)
	}
	if len(files) == 0 {
		t.Fatalf("helmtest: no file matches %s", pattern)
	}
	for _, file := range files {
		t.Run(filepath.ToSlash(file), func(t caseT) { runFile(t, file, o) })
	}
}

func runFile(t caseT, file string, o policytest.Options) {
	s, err := policytest.Load(os.DirFS(filepath.Dir(file)), filepath.Base(file))
	if err != nil {
		t.Fatalf("%v", err)
	}
	r, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		t.Run(c.Name, func(t caseT) {
			switch {
			case c.Skipped != "":
				t.Skip(c.Skipped)
			case c.Failed():
				t.Errorf("%s:%d: %s", file, c.Line, c)
			case c.Weak:
				t.Log("weak: it wants DENY for any reason: state reason or rule")
			case c.Verdicts != nil:
				t.Log("\n" + c.Verdicts.String())
			}
		})
	}
	for _, m := range r.Mutants {
		if m.Survived {
			t.Errorf("%s: survived, and %d cases touched it: %s", file, m.Cases, m)
		}
	}
	for _, f := range r.Faults {
		t.Errorf("%s", f)
	}
	t.Log(file + "\n" + r.Coverage.String())
}
