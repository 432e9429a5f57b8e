package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/helmkernel/helm/trust/registry"
)

// An oracle is the second implementation of the formats, with a directory for its files.
type oracle struct {
	*testing.T
	bin, dir string
}

// newOracle skips the test where there is none, and says what was not compared.
func newOracle(t *testing.T, what string) *oracle {
	t.Helper()
	return &oracle{t, shared.Oracle(t, "not compared with the second implementation: "+what), t.TempDir()}
}

// run gives the output and the exit status.
func (o *oracle) run(args ...string) (string, int) {
	o.Helper()
	cmd := exec.CommandContext(o.Context(), o.bin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.Fatal(err)
	}
	return string(out) + stderr.String(), cmd.ProcessState.ExitCode()
}

func (o *oracle) file(name string, b []byte) string {
	o.Helper()
	name = filepath.Join(o.dir, name)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		o.Fatal(err)
	}
	return name
}

// A finding is what the oracle says of a pack.
type finding struct {
	Success                           bool
	Level                             string
	History, Signer                   string
	Origin                            string
	Size, Sessions, Receipts          uint64
	Allows, Denies                    uint64
	Open, Erased                      []string
	MerkleRoot, ProofGraphHash, Trust string
	Replay                            struct{ Compared, Refusals, NotReplayable, Differing uint64 }
	Errors                            []struct {
		Check, Field, Text string
		Index              int64
	}
}

func (o *oracle) verify(pack []byte, args ...string) (f finding) {
	o.Helper()
	out, status := o.run(append(append([]string{"verify"}, args...), o.file("pack.tar", pack))...)
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		o.Fatalf("exit %d: %s", status, out)
	}
	if f.Success != (status == 0) {
		o.Errorf("exit %d, success %v", status, f.Success)
	}
	return f
}

// agrees has a pack verified by both, who must say the same of it.
func (o *oracle) agrees(pack []byte, trust *registry.State) {
	o.Helper()
	r, err := verifyBytes(o.T, pack, Options{Trust: trust, Origin: forge.Origin})
	if err != nil {
		o.Fatal(err)
	}
	theirs := o.verify(pack, "-trust", o.file("trust.json", trust.Canonical()), "-origin", forge.Origin)
	theirs.Errors = nil
	if a, b := fmt.Sprintf("%+v", found(r)), fmt.Sprintf("%+v", theirs); a != b {
		o.Errorf("ours   %s\ntheirs %s", a, b)
	}
}

// found gives a report in the oracle's words.
func found(r Report) (f finding) {
	f.Success, f.Level, f.History, f.Signer = r.Success(0), r.Level.String(), r.History.String(), r.Signer.String()
	f.Origin, f.Size, f.Sessions, f.Receipts, f.Allows, f.Denies = r.Origin, r.Size, r.Sessions, r.Receipts, r.Allows, r.Denials
	f.Open, f.Erased = []string{}, []string{}
	for _, x := range r.Open {
		f.Open = append(f.Open, x.ID)
	}
	slices.Sort(f.Open)
	for _, d := range r.Erased {
		f.Erased = append(f.Erased, d.String())
	}
	f.MerkleRoot, f.ProofGraphHash, f.Trust = r.MerkleRoot.String(), r.ProofGraphHash.String(), r.Trust.String()
	f.Replay.Compared, f.Replay.Refusals, f.Replay.NotReplayable = r.Replay.Replayed, r.Replay.KernelsOwn, r.Replay.NotReplayable
	f.Replay.Differing = r.Replay.Differing
	return f
}
