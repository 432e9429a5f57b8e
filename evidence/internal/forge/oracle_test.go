package forge

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/helmkernel/helm/trust/registry"
)

// An oracle is the second implementation of the formats, with a directory for its files.
type oracle struct {
	*testing.T
	bin, dir string
}

// newOracle skips the test if there is none, and says what was not compared.
func newOracle(t *testing.T, what string) *oracle {
	t.Helper()
	return &oracle{t, shared.Oracle(t, "not compared with the second implementation: "+what), t.TempDir()}
}

// run returns the output and the exit status.
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
	require.NoError(o, os.WriteFile(name, b, 0o600))
	return name
}

// A finding is what the oracle says of a pack.
type finding struct {
	Finding
	Errors []struct {
		Check, Field, Text string
		Index              int64
	}
}

func (o *oracle) verify(pack []byte, args ...string) (f finding) {
	o.Helper()
	out, status := o.run(append(append([]string{"verify"}, args...), o.file("pack.tar", pack))...)
	require.NoError(o, json.Unmarshal([]byte(out), &f), "exit %d: %s", status, out)
	if f.Success != (status == 0) {
		o.Errorf("exit %d, success %v", status, f.Success)
	}
	return f
}

// agrees has a pack verified by both, who must say the same of it.
func (o *oracle) agrees(pack []byte, trust *registry.State) {
	o.Helper()
	r, err := verifyBytes(o.T, pack, evidence.Options{Trust: trust, Origin: Origin})
	require.NoError(o, err)
	theirs := o.verify(pack, "-trust", o.file("trust.json", trust.Canonical()), "-origin", Origin)
	require.Equal(o, FindingOf(o, r), theirs.Finding)
}

// TestOracleAgrees has both implementations verify the packs of the tests. They must say the same,
// in every word.
func TestOracleAgrees(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "reports of valid packs (TestMustStillPass verifies them by itself)")
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			o.T = t
			args := []string{"-trust", o.file("trust.json", p.trust.Canonical()), "-origin", Origin}
			if p.last != nil {
				args = append(args, "-last", o.file("last", p.last))
			}
			theirs := o.verify(p.pack, args...)
			r, err := verifyBytes(t, p.pack, evidence.Options{Trust: p.trust, Origin: Origin, Last: p.last})
			require.NoError(t, err)
			require.True(t, r.Success(0))
			require.Equal(t, FindingOf(t, r), theirs.Finding)
		})
	}
}

// TestOracleMutations has the oracle spoil the base log, one thing at a time, with all else signed
// again. Both implementations must refuse it with the check that the oracle's list names. The
// exceptions are in testdata: what the base log has nothing of, and what is another fault, or none,
// in this log, or a feature that this version refuses by name. So no mutation is passed over.
func TestOracleMutations(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if testing.Short() {
		t.Skip("-short: the oracle's mutations take ten seconds; without it they run")
	}
	o := newOracle(t, "checks that refuse the packs which it spoils (TestTamper has its own)")
	m := BaseLog(t)
	m.Checkpoint()
	trust := o.file("trust.json", m.Trust.Canonical())
	inapplicable, other := words(t, "testdata/inapplicable.txt"), map[string]string{}
	for i, list := 0, words(t, "testdata/otherwise.txt"); i+1 < len(list); i += 2 {
		other[list[i]] = list[i+1]
	}
	refused := 0
	var idle []string
	for x := range o.spoil(m.Pack(evidence.Write), nil, SeedK1, seedK2, SeedL) {
		name, check := x.name, x.check
		if x.pack == nil {
			idle = append(idle, name)
			continue
		}
		r, err := verifyBytes(t, x.pack, evidence.Options{Trust: m.Trust, Origin: Origin})
		var e *evidence.Error
		ours, theirs := "-", "-"
		if errors.As(err, &e) {
			ours = e.Check.Error()
			refused++
		}
		later := err != nil && strings.HasSuffix(err.Error(), entry.Unsupported)
		want, exception := other[name]
		delete(other, name)
		if !exception {
			want, theirs = check, check
		}
		if exception || *Full {
			if f := o.verify(x.pack, "-trust", trust, "-origin", Origin); len(f.Errors) > 0 {
				theirs = f.Errors[0].Check
				// of a blob it does not say who names it
				if e != nil && ours == theirs && !later && e.Check != evidence.ErrBlob && e.Entry != f.Errors[0].Index {
					t.Errorf("%s: %v; the oracle says that it is entry %d", name, err, f.Errors[0].Index)
				}
			}
		}
		switch {
		case ours != want || (ours == "-") != (r.Level == evidence.Logged):
			t.Errorf("%s: %s, %v; want %s", name, r.Level, err, want)
		case ours != theirs && !later:
			t.Errorf("%s: %v; the oracle says %s", name, err, theirs)
		case exception && want == check:
			t.Errorf("%s: no exception: %v", name, err)
		}
	}
	if refused < 360 {
		t.Errorf("only %d mutations were refused", refused)
	}
	t.Logf("%d mutations refused, %d inapplicable", refused, len(idle))
	if !slices.Equal(idle, inapplicable) {
		t.Errorf("the mutations that find nothing in the base log are not those of testdata/inapplicable.txt:\n%s",
			strings.Join(idle, "\n"))
	}
	if len(other) > 0 {
		t.Errorf("exceptions that are none: %v", other)
	}
}

// words are those of a file, but for lines that begin with #.
func words(t *testing.T, name string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.Fields(line)...)
		}
	}
	return out
}

// TestOracleLater: packs of features that this version does not know are refused by name.
func TestOracleLater(t *testing.T) {
	t.Parallel()
	o := newOracle(t, "packs of later features which it makes (TestTamper has its own)")
	for _, kind := range []string{"", "-condensed", "-erased"} {
		name := filepath.Join(o.dir, "gen.tar")
		args := []string{"gen", name}
		if kind != "" {
			args = []string{"gen", kind, name}
		}
		if said, status := o.run(args...); status != 0 {
			t.Fatal(said)
		}
		pack, err := os.ReadFile(name)
		require.NoError(t, err)
		theirs := o.verify(pack)
		require.Equal(t, "LOGGED", theirs.Level, "%q: the oracle finds its own pack", kind)
		r, err := verifyBytes(t, pack, evidence.Options{})
		var e *evidence.Error
		if !errors.As(err, &e) || !strings.HasSuffix(e.What, entry.Unsupported) || r.Level != evidence.Invalid {
			t.Errorf("%q: %s, %v", kind, r.Level, err)
		}
		t.Log(err)
	}
}
