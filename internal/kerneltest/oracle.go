package kerneltest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/shared"
)

// mustAgree has the second implementation verify the log.
func (w *World) MustAgree(report evidence.Report) {
	w.T.Helper()
	if !shared.Have(w.T, "oracle") {
		w.T.Log("no ../shared/oracle: the pack is not compared with the second implementation")
		return
	}
	program := shared.Oracle(w.T, "")
	dir := w.T.TempDir()
	var pack bytes.Buffer
	if err := evidence.Write(context.Background(), &pack, w.Store.Store, w.Key.PrivateKey); err != nil {
		w.T.Fatal(err)
	}
	for name, b := range map[string][]byte{"pack.tar": pack.Bytes(), "trust.json": w.Kernel.Trust().Canonical()} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			w.T.Fatal(err)
		}
	}
	verify := exec.CommandContext(w.T.Context(), program, "verify", "-trust", "trust.json", "-origin", Origin, "pack.tar")
	verify.Dir = dir
	out, err := verify.CombinedOutput()
	if err != nil || !strings.Contains(string(out), report.MerkleRoot.String()) || !strings.Contains(string(out), `"LOGGED"`) {
		w.T.Errorf("the second implementation: %v\n%s", err, out)
	}
}
