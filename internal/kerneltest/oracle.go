package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/require"
)

// MustAgree has the second implementation verify the log, which must come to the same root. Without
// that implementation MustAgree says so in the test's log.
func (w *World) MustAgree(report evidence.Report) {
	w.T.Helper()
	MustAgree(w.T, w.Pack(), w.Kernel.Trust(), report)
}

// MustAgree has the second implementation verify a pack of a log with the origin of worlds, as the
// method of a World does.
func MustAgree(t testing.TB, pack []byte, trust *registry.State, report evidence.Report) {
	t.Helper()
	if !shared.Have(t, "oracle-next") {
		t.Log("no ../shared/oracle-next: the pack is not compared with the second implementation")
		return
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"pack.tar": pack, "trust.json": trust.Canonical()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	verify := exec.CommandContext(t.Context(), shared.Oracle(t, ""),
		"verify", "-trust", "trust.json", "-origin", Origin, "pack.tar")
	verify.Dir = dir
	out, err := verify.CombinedOutput()
	s := string(out)
	if err != nil || !strings.Contains(s, report.MerkleRoot.String()) || !strings.Contains(s, `"LOGGED"`) {
		t.Errorf("the second implementation: %v\n%s", err, s)
	}
}
