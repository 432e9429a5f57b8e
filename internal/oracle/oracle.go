// Package oracle builds the second implementation of the formats, for tests that compare with it. It stands beside the repository, in
// ../shared/oracle, and whoever has cloned the repository alone does not have it.
package oracle

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build gives the program, which is there until the test ends. It is false where there is nothing to build: the test says then what it does
// not compare.
func Build(t testing.TB) (program string, ok bool) {
	t.Helper()
	source := filepath.Join(root(t), "..", "shared", "oracle")
	if _, err := os.Stat(source); err != nil {
		return "", false
	}
	program = filepath.Join(t.TempDir(), "oracle")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = source, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", source, err, out)
	}
	return program, true
}

// root is the directory of the module that the test is in.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = up
	}
}
