//go:build unix

package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/shared"
)

// A secondVerifier is the second implementation of the formats, built.
type secondVerifier struct{ bin, trust string }

// newSecondVerifier returns nil if the second implementation is not there.
func newSecondVerifier(t *testing.T, dir string) *secondVerifier {
	t.Helper()
	if !shared.Have(t, "oracle-next") {
		return nil
	}
	v := &secondVerifier{shared.Oracle(t, ""), filepath.Join(dir, "trust.json")}
	require.NoError(t, os.WriteFile(v.trust, trustState.Canonical(), 0o600))
	return v
}

// verify runs it on a pack. It leaves the file if the pack is refused.
func (v *secondVerifier) verify(name string, pack []byte) error {
	if err := os.WriteFile(name, pack, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(v.bin, "verify", "-trust", v.trust, "-origin", origin,
		name).CombinedOutput(); err != nil {
		return fmt.Errorf("the second implementation refuses %s: %v\n%s", name, err, out)
	}
	return os.Remove(name)
}
