package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/stretchr/testify/require"
)

// MustAgree has the second implementation verify the log, which must come to the same root. Without
// that implementation MustAgree says so in the test's log.
func (w *World) MustAgree(report evidence.Report) {
	w.T.Helper()
	if !shared.Have(w.T, "oracle-next") {
		w.T.Log("no ../shared/oracle-next: the pack is not compared with the second implementation")
		return
	}
	dir := w.T.TempDir()
	for name, b := range map[string][]byte{"pack.tar": w.Pack(), "trust.json": w.Kernel.Trust().Canonical()} {
		require.NoError(w.T, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	verify := exec.CommandContext(w.T.Context(), shared.Oracle(w.T, ""),
		"verify", "-trust", "trust.json", "-origin", Origin, "pack.tar")
	verify.Dir = dir
	out, err := verify.CombinedOutput()
	s := string(out)
	if err != nil || !strings.Contains(s, report.MerkleRoot.String()) || !strings.Contains(s, `"LOGGED"`) {
		w.T.Errorf("the second implementation: %v\n%s", err, s)
	}
}
