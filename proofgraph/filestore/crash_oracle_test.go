//go:build unix

package filestore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// secondVerifier is the second implementation of the formats, built.
type secondVerifier struct{ bin, trust string }

// newSecondVerifier gives nil where there is none.
func newSecondVerifier(t *testing.T, dir string) *secondVerifier {
	t.Helper()
	source, err := filepath.Abs("../../../shared/oracle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(source); err != nil {
		return nil
	}
	v := &secondVerifier{filepath.Join(dir, "oracle"), filepath.Join(dir, "trust.json")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", v.bin, ".")
	build.Dir, build.Env = source, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.WriteFile(v.trust, crashTrust.Canonical(), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

// verify has a pack judged. The file stays if it is refused.
func (v *secondVerifier) verify(name string, pack []byte) error {
	if err := os.WriteFile(name, pack, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(v.bin, "verify", "-trust", v.trust, "-origin", crashOrigin, name).CombinedOutput(); err != nil {
		return fmt.Errorf("the second implementation refuses %s: %v\n%s", name, err, out)
	}
	return os.Remove(name)
}
