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
	"strings"
	"testing"
)

// An oracle is the second implementation of the formats, built.
type oracle struct {
	*testing.T
	bin, dir string
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(root, "../shared/oracle")
	if _, err := os.Stat(src); err != nil {
		t.Skip("no ../shared/oracle: packs are not compared with the second implementation")
	}
	o := &oracle{t, filepath.Join(t.TempDir(), "oracle"), t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", o.bin, ".")
	build.Dir, build.Env = src, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return o
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
	Errors                            []struct{ Check, Field, Text string }
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

// TestOracleAgrees has both implementations verify the packs of the tests. They must say the same, in every word.
func TestOracleAgrees(t *testing.T) {
	o := newOracle(t)
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			o.T = t
			args := []string{"-trust", o.file("trust.json", p.trust.Canonical()), "-origin", testOrigin}
			if p.last != nil {
				args = append(args, "-last", o.file("last", p.last))
			}
			theirs := o.verify(p.pack, args...)
			r, err := verifyBytes(t, p.pack, Options{Trust: p.trust, Origin: testOrigin, Last: p.last})
			if err != nil {
				t.Fatal(err)
			}
			ours := found(r)
			theirs.Errors = nil
			if a, b := fmt.Sprintf("%+v", ours), fmt.Sprintf("%+v", theirs); a != b || !ours.Success {
				t.Errorf("ours   %s\ntheirs %s", a, b)
			}
		})
	}
}

// TestOracleMutations has the oracle spoil the base log, one thing at a time, with all else signed anew. Both implementations must refuse it
// with the check that the oracle's list names. What the base log has nothing of is listed in testdata, so that no mutation is forgotten.
func TestOracleMutations(t *testing.T) {
	o := newOracle(t)
	m := baseLog(t)
	m.checkpoint()
	pack, trust := m.pack(), m.trust
	in := o.file("base.tar", pack)
	out := filepath.Join(o.dir, "spoiled.tar")
	b, err := os.ReadFile("testdata/inapplicable.txt")
	if err != nil {
		t.Fatal(err)
	}
	inapplicable := strings.Fields(string(b))
	list, _ := o.run("mutate", "-list")
	refused := 0
	var idle []string
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) != 2 {
			t.Fatalf("mutate -list: %q", line)
		}
		name, check := f[0], f[1]
		args := []string{"mutate", "-n", name}
		for _, seed := range []byte{seedK1, seedK2, seedL} {
			args = append(args, "-seed-hex", strings.Repeat(fmt.Sprintf("%02x", seed), 32))
		}
		said, status := o.run(append(args, in, out)...)
		if status == 3 {
			idle = append(idle, name)
			continue
		}
		if status != 0 {
			t.Errorf("%s: exit %d: %s", name, status, said)
			continue
		}
		spoiled, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		refused++
		r, err := verifyBytes(t, spoiled, Options{Trust: trust, Origin: testOrigin})
		var e *Error
		if !errors.As(err, &e) || e.Check.Error() != check || r.Level != Invalid {
			t.Errorf("%s: %s, %v; want %s", name, r.Level, err, check)
		}
	}
	if refused < 200 {
		t.Errorf("only %d mutations were tried", refused)
	}
	t.Logf("%d mutations refused, %d inapplicable", refused, len(idle))
	if !slices.Equal(idle, inapplicable) {
		t.Errorf("the mutations that find nothing in the base log are not those of testdata/inapplicable.txt:\n%s", strings.Join(idle, "\n"))
	}
}
