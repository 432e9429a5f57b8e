package forge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
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
	require.False(o, err != nil && !errors.As(err, &exit), "%v", err)
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
	assert.Equal(o, (status == 0), f.Success, "exit %d, success", status)
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
// in this log. What is of a form that was withdrawn is refused for that.
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
	inapplicable := words(t, "testdata/inapplicable.txt")
	other := answers(t, "testdata/otherwise.txt")
	refused, later := 0, 0
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
		if withdrawn(err) {
			later++
			continue
		}
		want, exception := other[name]
		delete(other, name)
		if !exception {
			want, theirs = check, check
		}
		if exception || *Full {
			if f := o.verify(x.pack, "-trust", trust, "-origin", Origin); len(f.Errors) > 0 {
				theirs = f.Errors[0].Check
				// of a blob it does not say who names it
				if e != nil && ours == theirs && e.Check != errBlob && e.Entry != f.Errors[0].Index {
					t.Errorf("%s: %v; the oracle says that it is entry %d", name, err, f.Errors[0].Index)
				}
			}
		}
		switch {
		case ours != want || (ours == "-") != (r.Level == evidence.Logged):
			t.Errorf("%s: %s, %v; want %s", name, r.Level, err, want)
		case ours != theirs:
			t.Errorf("%s: %v; the oracle says %s", name, err, theirs)
		case exception && want == check:
			t.Errorf("%s: no exception: %v", name, err)
		}
	}
	assert.True(t, refused >= 395, "only %d mutations were refused", refused)
	t.Logf("%d mutations refused, %d of them of withdrawn forms, %d inapplicable", refused, later, len(idle))
	if !slices.Equal(idle, inapplicable) {
		t.Errorf("the mutations that find nothing in the base log are not those of testdata/inapplicable.txt:\n%s",
			strings.Join(idle, "\n"))
	}
	assert.Empty(t, other, "exceptions that are none")
}

// answers are the pairs of a file: mutations, and the check that answers, or - for no fault.
func answers(t *testing.T, name string) map[string]string {
	t.Helper()
	out, list := map[string]string{}, words(t, name)
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
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

// TestOracleLater: of the packs that the second implementation makes, the one whose policies cannot
// be judged by is accepted, and the one with gaps, which were withdrawn, is refused.
func TestOracleLater(t *testing.T) {
	t.Parallel()
	o := newOracle(t, "packs of later features which it makes (TestTamper has its own)")
	for _, kind := range []string{"-condensed", "-erased"} {
		name := filepath.Join(o.dir, "gen.tar")
		if said, status := o.run("gen", kind, name); status != 0 {
			t.Fatal(said)
		}
		pack, err := os.ReadFile(name)
		require.NoError(t, err)
		theirs := o.verify(pack)
		require.Equal(t, "LOGGED", theirs.Level, "%q: the oracle finds its own pack", kind)
		r, err := verifyBytes(t, pack, evidence.Options{})
		if kind == "-erased" {
			require.NoError(t, err)
			require.Equal(t, FindingOf(t, r), theirs.Finding)
			continue
		}
		var e *evidence.Error
		assert.True(t, errors.As(err, &e) && r.Level == evidence.Invalid && withdrawn(err),
			"%q: %s, %v", kind, r.Level, err)
		t.Log(err)
	}
}

// withdrawn reports whether a pack was refused for a gap or a condense entry of the form that was
// withdrawn before anything wrote one. The second implementation knows these.
func withdrawn(err error) bool {
	var e *evidence.Error
	return errors.As(err, &e) && (e.Check == errEnvelope && e.Field == "gap" ||
		e.Check == errRecord && e.Field == "predicate.carry")
}

// A mutant is a pack in which the oracle changed one thing and made all else right again, so that
// one check refuses it.
type mutant struct {
	name, check string
	pack        []byte // nil: it has nothing that could be changed so
}

// spoil has the oracle spoil a pack in each way that it knows, but for those that are not asked
// about, with the keys of these seeds.
func (o *oracle) spoil(pack []byte, about func(name string) bool, seeds ...byte) iter.Seq[mutant] {
	var keys []string
	for _, s := range seeds {
		keys = append(keys, "-seed-hex", fmt.Sprintf("%x", longSeed(s)))
	}
	return func(yield func(mutant) bool) {
		o.Helper()
		in, out := o.file("whole.tar", pack), filepath.Join(o.dir, "spoiled.tar")
		list, _ := o.run("mutate", "-list")
		for line := range strings.Lines(list) {
			f := strings.Fields(line)
			require.Len(o, f, 2, "mutate -list: %q", line)
			if about != nil && !about(f[0]) {
				continue
			}
			x := mutant{name: f[0], check: f[1]}
			switch said, status := o.run(append(append([]string{"mutate", "-n", x.name}, keys...), in,
				out)...); status {
			case 0:
				var err error
				x.pack, err = os.ReadFile(out)
				require.NoError(o, err)
			case 3:
			default:
				o.Errorf("%s: exit %d: %s", x.name, status, said)
				continue
			}
			if !yield(x) {
				return
			}
		}
	}
}
