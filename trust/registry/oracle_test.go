package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/shared"
)

// An oracle is the second implementation of the formats, with a directory for its files.
type oracle struct {
	*testing.T
	bin, dir string
}

func newOracle(t *testing.T, what string) *oracle {
	t.Helper()
	return &oracle{t, shared.Oracle(t, "not compared with the second implementation: "+what), t.TempDir()}
}

func (o *oracle) run(args ...string) (string, int) {
	o.Helper()
	cmd := exec.CommandContext(o.Context(), o.bin, args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.False(o, err != nil && !errors.As(err, &exit), err)
	return string(out), cmd.ProcessState.ExitCode()
}

func (o *oracle) path(name string) string { return filepath.Join(o.dir, name) }

func (o *oracle) write(name string, b []byte) string {
	o.Helper()
	require.NoError(o, os.WriteFile(o.path(name), b, 0o600))
	return o.path(name)
}

// A finding is the result of the oracle for a pack, as far as it is about trust.
type finding struct {
	Level, Trust string
	Errors       []struct {
		Check, Field, Text string
		Index              int
	}
}

func (o *oracle) verify(args ...string) (f finding) {
	o.Helper()
	out, _ := o.run(append([]string{"verify"}, args...)...)
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		o.Fatalf("%v: %s", err, out)
	}
	return f
}

// members returns the files of an archive.
func members(t testing.TB, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	out := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err == nil {
			out[h.Name], err = io.ReadAll(r)
		}
		require.NoError(t, err)
	}
}

// A folded is the result of folding the entries of a pack: the check that refuses an entry, if one
// does, and the number of states that were compared.
type folded struct {
	state           *State
	check, why      string
	events, digests int
	unread          []string // fields of receipts that this version does not know
}

// classOf returns the check in which an entry departs from its form.
func classOf(err error) string {
	var f *contracts.FormatError
	if !errors.As(err, &f) {
		return err.Error()
	}
	return string(f.Class)
}

// unknown are departures from the form that are features of later versions.
var unknown = map[string]string{"predicate.sandbox.grants": "unknown field"}

// unreadEntries are how many entries of the oracle's pack have them.
const unreadEntries = 4

// fold folds the entries as a verifier does, but checks only keys, trust events and fields that
// must agree with the trust state.
func fold(t testing.TB, pack map[string][]byte) (f folded) {
	t.Helper()
	refuse := func(check string, at int, err error) folded {
		f.check, f.why = check, fmt.Sprintf("entry %d: %v", at, err)
		return f
	}
	log, late := "", ""
	for i, line := range bytes.SplitAfter(bytes.TrimSuffix(pack["entries.jsonl"], []byte("\n")), []byte("\n")) {
		var r contracts.Reader
		sealed, err := r.Open(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return refuse(classOf(err), i, err)
		}
		if i == 0 {
			st, err := sealed.Statement()
			require.NoError(t, err)
			if f.state, err = ParseState(pack["blobs/"+st.Genesis.Trust.String()]); err != nil {
				return refuse("TRUST", i, err)
			}
			log = st.Genesis.Origin
		}
		key, ok := f.state.Key(sealed.KeyID, Kernel, uint64(i))
		if id, has := sealed.Key(); !ok || !has || id != sealed.KeyID {
			return refuse("KEY", i, errors.New("no kernel key"))
		}
		if !crypto.Verify(key, crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload), sealed.Sig) {
			return refuse("SIGNATURE", i, errors.New("does not verify"))
		}
		st, err := sealed.Statement()
		var bad *contracts.FormatError
		if errors.As(err, &bad) && unknown[bad.Field] == bad.What {
			f.unread = append(f.unread, bad.Field) // it changes no keys, and its key and signature are right
			continue
		}
		if err != nil {
			return refuse(classOf(err), i, err)
		}
		switch d := st.Judgement(); {
		case st.Trust != nil:
			next, err := f.state.Apply(st.Trust, log, uint64(i))
			if err != nil {
				return refuse("TRUST", i, err)
			}
			f.state = next
			f.events++
		case d == nil:
		case d.Verdict == contracts.Allow && (f.state.Frozen() ||
			d.Delegation != nil && f.state.Revoked(*d.Delegation)), d.Reason == contracts.ReasonSystemFrozen &&
			!f.state.Frozen():
			return refuse("TRUST", i, errors.New("the judgement does not agree with the state"))
		default:
			if b := pack["blobs/"+d.InputsHash.String()]; b != nil {
				var in struct {
					State struct{ Trust contracts.Digest }
				} // all else may be of a later version
				require.NoError(t, json.Unmarshal(b, &in))
				// REPLAY comes after the faults of later entries
				if in.State.Trust != f.state.Digest() && late == "" {
					late = fmt.Sprintf("entry %d: state %s, its inputs say %s", i, f.state.Digest(), in.State.Trust)
				}
				f.digests++
			}
		}
	}
	if late != "" {
		f.check, f.why = "REPLAY", late
	}
	return f
}

// TestOracleStates folds the trust entries of a pack that the oracle makes: each is taken, and the
// states are those that its inputs name.
func TestOracleStates(t *testing.T) {
	t.Parallel()
	o := newOracle(t, "states after its trust events (the twin of the tests compares them too)")
	pack := o.path("gen.tar")
	out, status := o.run("gen", pack)
	require.Equal(t, 0, status, out)
	f := fold(t, members(t, pack))
	theirs := o.verify(pack)
	if f.check != "" || f.events < 7 || f.digests < 20 || theirs.Level != "LOGGED" ||
		f.state.Digest().String() != theirs.Trust {
		t.Errorf("%s %s; %d events, %d states; ends in %s, the oracle in %s", f.check, f.why, f.events, f.digests,
			f.state.Digest(), theirs.Trust)
	}
	t.Logf("%d events, %d states of inputs, unread %v", f.events, f.digests, f.unread)
	assert.LessOrEqual(t, len(f.unread), unreadEntries)
}

// TestOracleMutations has the oracle change the trust events of its pack, one thing at a time, with
// all else signed again: the fold refuses each by the check in its list.
func TestOracleMutations(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if testing.Short() {
		t.Skip("-short: the oracle's mutations take five seconds; without it they run")
	}
	o := newOracle(t, "events that it spoils (the tests of Apply have their own)")
	in, out := o.path("gen.tar"), o.path("spoiled.tar")
	said, status := o.run("gen", in)
	require.Equal(t, 0, status, said)
	args := []string{"mutate"}
	for line := range strings.Lines(said) {
		if seed, ok := strings.CutPrefix(strings.TrimSpace(line), "seed "); ok {
			args = append(args, "-seed-hex", seed)
		}
	}
	list, _ := o.run("mutate", "-list")
	refused := map[string]int{}
	for line := range strings.Lines(list) {
		name, check := strings.Fields(line)[0], strings.Fields(line)[1]
		ours := slices.ContainsFunc([]string{"trust-", "threshold-", "root-", "freeze-", "unfreeze-", "undelegate-",
			"rotated-", "revoked-", "signed-by-"}, func(p string) bool { return strings.HasPrefix(name, p) })
		if check != "TRUST" && !ours || check == "BLOB" {
			continue
		}
		if said, status := o.run(append(slices.Clone(args), "-n", name, in, out)...); status != 0 {
			t.Errorf("%s: exit %d: %s", name, status, said)
			continue
		}
		f := fold(t, members(t, out))
		assert.Equal(t, check, f.check, "%s: %s %s", name, f.check, f.why)
		assert.LessOrEqual(t, len(f.unread), unreadEntries, name)
		refused[f.check]++
	}
	assert.True(t, refused["TRUST"] >= 50 && refused["RECORD"] >= 5 && refused["KEY"] >= 4,
		"%v: too few to say anything", refused)
	t.Logf("%v", refused)
}

// A chained is a log that consists of its genesis and trust events.
type chained struct {
	testing.TB
	start *State
	lines [][]byte
	last  contracts.Digest
}

func (c *chained) add(by string, st *contracts.Statement) {
	c.Helper()
	seq := uint64(len(c.lines))
	st.Header = contracts.Header{Key: id(c, by), Lamport: seq, Prev: c.last, Seq: seq,
		Time: contracts.Time(1767225600000 + seq)}
	payload := st.Append(nil)
	sig, err := crypto.Sign(private(c, by), crypto.AppendPAE(nil, contracts.PayloadType, payload))
	require.NoError(c, err)
	e := contracts.Entry(crypto.AppendEnvelope(nil, contracts.PayloadType, payload, st.Key, sig))
	c.lines, c.last = append(c.lines, e), e.Hash()
}

// pack returns a pack without checkpoint and manifest: the fault of an entry comes before those.
func (c *chained) pack() []byte {
	c.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range []struct {
		name string
		body []byte
	}{{"manifest.json", []byte("{}")}, {"checkpoint", []byte("none\n")},
		{"entries.jsonl", append(bytes.Join(c.lines, []byte("\n")), '\n')},
		{"blobs/" + c.start.Digest().String(), c.start.Canonical()}} {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: int64(len(m.body)), Mode: 0o644,
			Format: tar.FormatUSTAR})
		if err == nil {
			_, err = w.Write(m.body)
		}
		require.NoError(c, err)
	}
	require.NoError(c, w.Close())
	return b.Bytes()
}

// TestOracleRandomEvents applies random events, valid and not, with both implementations: they
// refuse the same one, or accept all and reach the same state.
func TestOracleRandomEvents(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "random events (the twin of the tests takes the same)")
	logs := 30
	if testing.Short() {
		logs = 15
	}
	trust := o.write("trust.json", full(t).Canonical())
	ends := map[string]int{}
	for seed := range uint64(logs) {
		w := newWild(t, 1000+seed)
		c := &chained{TB: t, start: full(t)}
		c.add("kernel",
			&contracts.Statement{Genesis: &contracts.Genesis{Nonce: strings.Repeat("0", 32), Origin: origin,
				Trust: c.start.Digest(), Version: 1}})
		now, other := c.start, twinOf(t, c.start)
		end, at := "all taken", 0
		for tries := 0; len(c.lines) < 11; tries++ {
			index := uint64(len(c.lines))
			record := w.record(other, index)
			next, err := now.Apply(record, origin, index)
			if err != nil && tries < 24 {
				continue // some of those that are refused are left out: the log would end with the first
			}
			var by string
			for _, name := range w.names {
				if _, ok := now.Key(id(t, name), Kernel, index); ok {
					by = name
				}
			}
			c.add(by, &contracts.Statement{Trust: record})
			if err != nil {
				end, at = record.Event.Type, int(index)
				break
			}
			now = next
			other.take(t, record, origin, index)
		}
		f := o.verify("-trust", trust, "-origin", origin, o.write("random.tar", c.pack()))
		require.NotEqual(t, 0, len(f.Errors), "%+v", f)
		first := f.Errors[0]
		refused := first.Check == "TRUST" || first.Check == "RECORD" && strings.Contains(first.Field, "signatures")
		unchanged := end == "root" && !refused && changesNothing(&other.Keys, other.Threshold, c.lines[at])
		switch {
		case unchanged: // the oracle takes a root event that changes nothing, which the format refuses
			end += ", changing nothing"
		case refused != (end != "all taken") || refused && first.Index != at:
			t.Errorf("log %d: ends with %s at %d; the oracle says %s at %d: %s", seed, end, at, first.Check,
				first.Index, first.Text)
		case !refused && first.Check != "MERKLE" && first.Check != "CHECKPOINT":
			t.Errorf("log %d: %+v", seed, first)
		case !refused && f.Trust != now.Digest().String():
			t.Errorf("log %d: ends in %s, the oracle in %s", seed, now.Digest(), f.Trust)
		}
		ends[end]++
	}
	assert.True(t, len(ends) >= 5 && ends["all taken"] != 0 && ends["all taken"] != logs, "%v: too few to say anything",
		ends)
	t.Log(slices.Sorted(maps.Keys(ends)), ends)
}

// changesNothing reports whether a root event lists the present roots.
func changesNothing(keys *map[contracts.Digest]*twinKey, threshold int, line []byte) bool {
	sealed, err := new(contracts.Reader).Open(line)
	if err != nil {
		return false
	}
	st, err := sealed.Statement()
	if err != nil || int(st.Trust.Event.Threshold) != threshold {
		return false
	}
	roots := 0
	for _, k := range *keys {
		if k.Role == "root" && k.Revoked == nil {
			roots++
		}
	}
	for _, k := range st.Trust.Event.Keys {
		if x := (*keys)[k.ID]; x == nil || x.Role != "root" || x.Revoked != nil {
			return false
		}
	}
	return roots == len(st.Trust.Event.Keys)
}
