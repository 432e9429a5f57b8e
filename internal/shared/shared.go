// Package shared finds test data that no public clone has: the folder ../shared, next to the
// repository, with the second implementation of the formats and the suites. Tests that need it are
// skipped without it, and say what was not compared.
package shared

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Have reports whether the folder has name.
func Have(t testing.TB, name string) bool {
	t.Helper()
	_, err := os.Stat(path(t, name))
	return err == nil
}

// Path returns the path of name in the folder. If it is not there, Path skips the test; without
// says what is then not tested.
func Path(t testing.TB, name, without string) string {
	t.Helper()
	if !Have(t, name) {
		t.Skipf("no ../shared/%s: %s", name, without)
	}
	return path(t, name)
}

// Oracle returns the second implementation of the formats as a program. It skips the test as Path
// does.
func Oracle(t testing.TB, without string) string {
	t.Helper()
	source := Path(t, "oracle-next", without)
	program, err := build(source)
	require.NoError(t, err)
	return program
}

var (
	mu    sync.Mutex // held while the oracle is built
	built string     // the program, once it was built
)

// build builds the oracle once a process, in the directory of the test binary, which go test
// removes.
func build(source string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if built != "" {
		return built, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := filepath.Join(filepath.Dir(self), "oracle")
	command := exec.Command("go", "build", "-o", program, ".")
	command.Dir = source
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", source, err, out)
	}
	built = program
	return built, nil
}

// path returns where name would be: the folder is next to the outermost module that the test is in.
func path(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	module := ""
	for up := filepath.Dir(dir); ; dir, up = up, filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			module = dir
		}
		if dir == up {
			break
		}
	}
	require.NotEmpty(t, module, "no go.mod above the test's directory")
	return filepath.Join(module, "..", "shared", filepath.FromSlash(name))
}
