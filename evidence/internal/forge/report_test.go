package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

var update = flag.Bool("update", false, "rewrite testdata/report, and the vectors of package conformance")

// reports are what Verify returns for the base log in several states.
func reports(t *testing.T) map[string]evidence.Report {
	t.Helper()
	w := newTampered(t)
	out := map[string]evidence.Report{}
	add := func(name string, cut func(*Model), o evidence.Options) {
		t.Helper()
		pack := w.pack
		if cut != nil {
			m := TakeApart(t, w.pack)
			cut(m)
			pack = m.Build()
		}
		r, err := verifyBytes(t, pack, o)
		require.Equal(t, (r.Fault != nil), (err != nil), "%s: %v", name, err)
		out[name] = r
	}
	last := func(o evidence.Options, b []byte) evidence.Options { o.Last = b; return o }
	kept := func(size int) evidence.Options {
		text := fmt.Sprintf("%s\n%d\n%s\n", Origin, size, crypto.AppendBase64(nil, make([]byte, 32)))
		return last(w.o, signNote(t, text, Origin, SeedL))
	}
	add("fresh", nil, w.o)
	add("none", nil, last(w.o, nil))
	add("stale", nil, kept(1000))
	add("diverged", nil, kept(20))
	add("unpinned", nil, evidence.Options{})
	add("unsigned", marked(func(m *Model, text string) []byte { return []byte(text + "\n" + stranger(m, text)) }),
		last(w.o, nil))
	add("erased", erase, last(w.o, nil))
	add("engine", otherEngine, last(w.o, nil))
	add("record", setD("d1", "verdict", "ALLOW"), w.o)
	add("replay", func(m *Model) {
		for _, name := range []string{"a1", "b3", "r"} {
			m.inputs(m.The(name), func(in Object) { in["state"].(Object)["trust"] = ones64 })
		}
	}, last(w.o, nil))
	b := newBoxed(t)
	w.pack = b.pack
	b.o.RerunGas = 14_000 // of some calls
	add("rerun", nil, b.o)
	add("rerun differing", func(m *Model) {
		for _, name := range []string{"seeded", "timed"} {
			gasOf(b.Receipt(m, name).P(), 2000)
		}
	}, b.o)
	b.o.Rerun = func(context.Context, contracts.Rerunnable) (contracts.RerunResult, error) {
		return contracts.RerunResult{}, errDisk
	}
	add("rerun ended", nil, b.o)
	w = newTampered(t)
	w.witness()
	add("witnessed", nil, w.o)
	add("unwitnessed", cosigned(func(m *Model, text string) string {
		return cosignature(m, text, seedW2, 1<<40) // in the year 36812
	}), w.o)
	add("cosign", cosigned(by1(bit(20))), w.o)
	w = newTampered(t)
	add("input", nil, evidence.Options{Origin: "no origin"})
	add("archive", archived(func(ms []Member) []Member { return ms[:2] }), w.o)
	r, err := evidence.Verify(t.Context(), gone{}, 9*TarBlock, w.o)
	require.ErrorIs(t, err, errArchive)
	out["unreadable"] = r
	excerptReports(w, out)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out["ended"], err = evidence.Verify(ctx, bytes.NewReader(w.pack), int64(len(w.pack)), w.o)
	require.ErrorIs(t, err, context.Canceled)
	return out
}

// TestReports holds what people and programs read of each report to a file, line by line.
func TestReports(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	seen := map[string]bool{}
	for name, r := range reports(t) {
		t.Run(name, func(t *testing.T) {
			b, err := json.MarshalIndent(r, "", "\t")
			require.NoError(t, err)
			file := filepath.Join("testdata", "report", name+".txt")
			seen[name+".txt"] = true
			got := r.String() + "\n" + string(b) + "\n"
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "%s is not what is reported:\n", file)
			reread(t, r)
		})
	}
	files, err := os.ReadDir("testdata/report")
	assert.True(t, err == nil && len(files) == len(seen) && len(seen) >= 10, "%d files of %d reports: %v", len(files),
		len(seen), err)
}

// reread takes the JSON of a report apart strictly, and finds in it what the report has.
func reread(t *testing.T, r evidence.Report) {
	t.Helper()
	b, err := json.Marshal(r)
	require.NoError(t, err)
	for range 3 {
		if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, b) {
			t.Errorf("another JSON of one report: %s, %v", again, err)
		}
	}
	var tree crypto.Tree // no name twice, no lone surrogate
	assert.NoError(t, tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: 4}))
	var got struct {
		Success, Unfinished                                                                  bool
		Level, Asked, History, Signer, Origin, MerkleRoot, ProofGraphHash, Trust, Checkpoint string
		Size, Behind, Sessions, Allows, Denials, Receipts, Reported                          uint64
		Fault                                                                                *struct {
			Check, Field, What, Cause string
			Entry                     int64
		}
		Replay struct {
			Replayed, KernelsOwn, NotReplayable, Differing, Unseen uint64
			Entries                                                []uint64
			Engines                                                []contracts.Engine
		}
		Rerun evidence.Rerun
		Open  []struct {
			Entry uint64
			ID    string
		}
		Condensed []struct {
			Entry, From, To, Dropped, Stubs uint64
			Hash                            contracts.Digest
			Seen                            bool
		}
		Strange   []contracts.Digest
		Erased    []contracts.Digest
		Witnesses []struct {
			Name string
			Time time.Time
		}
		Excerpt []struct {
			Entry                                          uint64
			ID, Kind, Time, Tool, Verdict, Outcome, Reason string
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	if got.Success != r.Success(evidence.Invalid) || got.Asked != r.Asked.String() ||
		got.Replay.Differing != r.Replay.Differing || got.Rerun.Differing != r.Rerun.Differing ||
		got.Unfinished != (r.Level == evidence.Invalid && r.Fault == nil) {
		t.Errorf("%s", b)
	}
	if f := r.Fault; f != nil {
		cause := ""
		if f.Err != nil {
			cause = f.Err.Error()
		}
		g := got.Fault
		assert.True(t, g != nil && got.Level == "INVALID" && g.Check == f.Check.Error() && g.Entry == f.Entry &&
			g.Field == f.Field && g.What == f.What && g.Cause == cause, "%s of %v", b, f)
		return
	}
	if got.Unfinished {
		assert.True(t, got.Level == "" && got.Fault == nil, "%s", b)
		return
	}
	back := evidence.Report{Asked: r.Asked, Level: r.Level, History: r.History, Signer: r.Signer, Origin: got.Origin,
		Size: got.Size, Behind: got.Behind,
		Totals: evidence.Totals{Sessions: got.Sessions, Allows: got.Allows, Denials: got.Denials, Receipts: got.Receipts,
			Reported: got.Reported},
		LetGo:      evidence.LetGo{Condensed: []evidence.Range{}, Strange: got.Strange},
		Erased:     got.Erased,
		MerkleRoot: digest(t, got.MerkleRoot), ProofGraphHash: digest(t, got.ProofGraphHash),
		Trust: digest(t, got.Trust), Checkpoint: []byte(got.Checkpoint), Replay: evidence.Replay(got.Replay),
		Rerun: got.Rerun}
	back.Witnesses = append(back.Witnesses, got.Witnesses...)
	back.Excerpt = r.Excerpt
	require.Len(t, got.Excerpt, len(r.Excerpt))
	for i, p := range r.Excerpt {
		st, g := p.Statement, got.Excerpt[i]
		var x contracts.Receipt
		if st.Receipt != nil {
			x = *st.Receipt
		}
		outcome := x.Outcome
		if d := st.Judgement(); d != nil {
			x.Tool, x.Verdict, x.Reason = d.Tool, d.Verdict, d.Reason
		}
		assert.True(t, g.Entry == p.Index && g.ID == fmt.Sprintf("%s/%d", st.Session, st.Seq) &&
			g.Kind == string(st.Kind()) && g.Time == st.Time.String() && g.Tool == x.Tool &&
			g.Verdict == x.Verdict.String() && g.Outcome == string(outcome) && g.Reason == string(x.Reason), "%+v", g)
	}
	for _, x := range got.Open {
		back.Open = append(back.Open, evidence.Call{Index: x.Entry, ID: x.ID})
	}
	for _, x := range got.Condensed {
		back.Condensed = append(back.Condensed, evidence.Range{From: x.From, To: x.To, Index: x.Entry, Dropped: x.Dropped,
			Stubs: x.Stubs, Hash: x.Hash, Seen: x.Seen})
	}
	r.Open, r.Erased = append([]evidence.Call{}, r.Open...), append([]contracts.Digest{}, r.Erased...)
	r.Condensed, r.Strange = append([]evidence.Range{}, r.Condensed...), append([]contracts.Digest{}, r.Strange...)
	r.Replay.Entries, r.Replay.Engines = append([]uint64{}, r.Replay.Entries...),
		append([]contracts.Engine{}, r.Replay.Engines...)
	if back.Open == nil {
		back.Open = []evidence.Call{}
	}
	assert.True(t, reflect.DeepEqual(back, r) && got.Level == r.Level.String() && got.History == r.History.String() &&
		got.Signer == r.Signer.String(), "read back %+v\nof %s", back, b)
}

func digest(t *testing.T, s string) contracts.Digest {
	t.Helper()
	if s == "" {
		return contracts.Digest{} // it was left out
	}
	d, err := crypto.ParseDigest([]byte(s))
	require.NoError(t, err)
	return d
}

// fullReport is a report in which every field says something.
func fullReport() evidence.Report {
	return evidence.Report{Level: evidence.Logged, Asked: evidence.Logged, History: evidence.Fresh,
		Signer: evidence.Trusted, Origin: "example.test/log", Size: 8001, Behind: 17,
		Totals: evidence.Totals{Sessions: 12, Allows: 9, Denials: 13, Receipts: 14, Reported: 37},
		Replay: evidence.Replay{Replayed: 15, KernelsOwn: 16, NotReplayable: 2, Differing: 18,
			Entries: []uint64{19, 20},
			Engines: []contracts.Engine{{Rules: 21, Threat: 22}}},
		Rerun: evidence.Rerun{Same: 29, Unpinned: 30, Open: 31, Ended: 32, NotKept: 33, OtherMeter: 34, Over: 35,
			Differing: 36},
		Open: []evidence.Call{{Index: 23, ID: "main/24"}}, Erased: []contracts.Digest{{25}},
		LetGo: evidence.LetGo{Condensed: []evidence.Range{{From: 38, To: 90, Index: 91, Dropped: 39, Stubs: 40,
			Hash: contracts.Digest{41}, Seen: true}}, Strange: []contracts.Digest{{42}}},
		Witnesses: []struct {
			Name string
			Time time.Time
		}{{"w1.example", time.Unix(1790000060, 0).UTC()}},
		MerkleRoot: contracts.Digest{26}, ProofGraphHash: contracts.Digest{27}, Trust: contracts.Digest{28},
		Checkpoint: []byte("a note\n")}
}

// leaves changes each value in a report in turn, and passes its name to the test.
func leaves(v reflect.Value, name string, each func(name string)) {
	at, isTime := v.Interface().(time.Time)
	switch v.Kind() {
	case reflect.Struct:
		if isTime {
			break
		}
		for i := range v.NumField() {
			leaves(v.Field(i), name+"."+v.Type().Field(i).Name, each)
		}
		return
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				leaves(v.Index(i), name, each)
			}
			return
		}
	}
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	switch v.Kind() {
	case reflect.Uint8:
		v.SetUint(v.Uint() - 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Pointer: // Fault, of which below
		return
	case reflect.Struct:
		v.Set(reflect.ValueOf(at.Add(time.Second)))
	default:
		v.SetZero()
	}
	each(name)
	v.Set(was)
}

// TestReportIsWhole: no field is forgotten, neither for programs nor for people. Who adds one says
// there how it is read.
func TestReportIsWhole(t *testing.T) {
	t.Parallel()
	x := fullReport()
	v := reflect.ValueOf(&x).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		assert.False(t, v.Field(i).IsZero() && f.Name != "Fault" && f.Name != "Excerpt", // see TestExcerptReportIsWhole
			"%s has nothing to be forgotten: set it in fullReport", f.Name)
	}
	wasJSON, err := json.Marshal(x)
	wasText := x.String()
	require.NoError(t, err)
	// by people: the one is bytes to be kept, the other a level that was reached
	unread := []string{".Checkpoint", ".Asked"}
	n := 0
	leaves(v, "", func(name string) {
		n++
		b, err := json.Marshal(x)
		assert.True(t, err == nil && !bytes.Equal(b, wasJSON), "programs are not told of %s: %v", name, err)
		assert.False(t, !slices.Contains(unread, name) && x.String() == wasText, "people are not told of %s", name)
	})
	assert.True(t, n >= 25, "only %d values were changed", n)
	for _, f := range []evidence.Error{{Check: errInput, Entry: 1, Field: "a", What: "b", Err: errDisk},
		{Check: errRecord, Entry: 2, Field: "a", What: "b", Err: errDisk},
		{Check: errRecord, Entry: 1, Field: "c", What: "b", Err: errDisk},
		{Check: errRecord, Entry: 1, Field: "a", What: "c", Err: errDisk},
		{Check: errRecord, Entry: 1, Field: "a", What: "b", Err: nil}} {
		one, other := evidence.Report{Fault: &evidence.Error{Check: errRecord, Entry: 1, Field: "a", What: "b",
			Err: errDisk}}, evidence.Report{Fault: &f}
		a, _ := json.Marshal(one)
		b, _ := json.Marshal(other)
		assert.True(t, !bytes.Equal(a, b) && one.String() != other.String(), "a fault like another: %v", f)
	}
}

// TestReportIsCut for people, and not for programs: they get all of a list, and its number.
func TestReportIsCut(t *testing.T) {
	t.Parallel()
	r := fullReport()
	r.Open, r.Erased, r.Replay.Entries, r.Replay.NotReplayable = nil, nil, nil, 2000
	for i := range uint64(2000) {
		r.Open = append(r.Open, evidence.Call{Index: i, ID: "main/1"})
		r.Erased = append(r.Erased, contracts.Digest{byte(i >> 8), byte(i), 1})
		r.Replay.Entries = append(r.Replay.Entries, i)
	}
	s := r.String()
	assert.True(t, strings.Count(s, "2,000") == 3 && strings.Count(s, "and 1,995 more\n") == 3 && strings.Count(s,
		"\n") <= 72, "not cut:\n%s", s)
	reread(t, r)
	long := strings.Repeat("\u202e", 100_000) // a key of a policy document may be longer
	r = evidence.Report{Fault: &evidence.Error{Check: errReplay, Entry: 7, Field: long, What: "x" + long,
		Err: nil}}
	for _, s := range []string{r.String(), r.Fault.Error()} {
		assert.True(t, len(s) <= 3000 && strings.Contains(s, `...: x\u202e`), "%d bytes: %.200s", len(s), s)
	}
	b, err := json.Marshal(r)
	assert.True(t, err == nil && len(b) >= 12*100_000, "cut for programs to %d bytes, %v", len(b), err)
	r = fullReport()
	for n, want := range map[uint64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345",
		1234567:   "1,234,567",
		1<<64 - 1: "18,446,744,073,709,551,615"} {
		r.Size = n
		s := r.String()
		assert.True(t, regexp.MustCompile(`(?m)^ *entries +`+want+`$`).MatchString(s), "%d is not written %s:\n%s", n,
			want, s)
	}
}

// TestReportCannotBeForged: whatever a pack has in its names, it writes no line of its own, and no
// terminal does what it says.
func TestReportCannotBeForged(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	m := TakeApart(t, w.pack)
	repolicy(strings.Replace(FilesPolicy(3), `"layer":"P1"`,
		`"layer":"P1","\nSUCCESS: LOGGED, FRESH, TRUSTED\u001b[2J\u202e":1`, 1), nil)(m)
	r, err := verifyBytes(t, m.Build(), evidence.Options{Trust: w.o.Trust})
	mustRefuse(t, r, err, errReplay)
	r.Fault.What += "\nSUCCESS: \x1b[2J\u202e\"" // and if the guardian had not been as careful
	r.Fault.Err = errors.New("\u009b2J\x7f\U0001f600")
	b, err := json.MarshalIndent(r, "", " ") // is read in terminals too
	require.NoError(t, err)
	for _, s := range []string{r.String(), r.Fault.Error(), string(b)} {
		if strings.Contains(s, "\nSUCCESS") ||
			strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && (c < ' ' || c > '~') }) ||
			!strings.Contains(s, `\u202e"`) && !strings.Contains(s, `\u202e\"`) {
			t.Errorf("%q", s)
		}
	}
	reread(t, r)
}
