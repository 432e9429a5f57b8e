package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// manyPacks are those that must still pass, and others with budgets, the past, people, grants, and
// inputs that are gone.
func manyPacks(t testing.TB) map[string]testPack {
	t.Helper()
	packs := testPacks(t)
	logs := map[string]*Maker{"budgets": BudgetLog(t), "desk": FixtureLog(t).Maker, "grants": NewMaker(t),
		"events": NewMaker(t), "wandering": NewMaker(t)}
	for name, m := range logs {
		switch name {
		case "grants":
			Grants(m)
		case "events":
			everyEvent(m)
		case "wandering":
			m.Use(FilesPolicy(1))
			Wander(m, 200, true)
		}
		m.Checkpoint()
		packs[name] = testPack{pack: m.Pack(evidence.Write), trust: m.Trust}
	}
	n := 0
	years(t, 5, func(o *host) {
		pack, options := o.pack()
		n++
		packs[fmt.Sprint("office ", n)] = testPack{pack: pack, trust: options.Trust}
	})
	return packs
}

// stacksIn are the policies of a pack, compiled from the documents in it.
func stacksIn(t testing.TB, p testPack) (all []*guardian.Policy) {
	t.Helper()
	m := TakeApart(t, p.pack)
	for _, n := range m.Nodes {
		if n.Kind() != "policy" ||
			slices.ContainsFunc(all, func(x *guardian.Policy) bool { return x.Hash().String() == n.Text("policy") }) {
			continue
		}
		var docs []string
		for _, d := range n.P()["documents"].([]any) {
			docs = append(docs, string(m.Blobs[d.(Object)["digest"].(string)]))
		}
		all = append(all, Compiled(t, docs...))
	}
	return all
}

var versions = regexp.MustCompile(`("bundle":\{"name":"[a-z]+","version":)\d+`)

// TestBackTestOfItself: a stack changes nothing of what it judged, and neither does the same stack
// of a later version, but that people would have to be asked again, since they approved another
// policy.
func TestBackTestOfItself(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	judged, approved, unjudged := uint64(0), 0, 0
	for name, p := range manyPacks(t) {
		o := evidence.Options{Trust: p.trust, Origin: Origin}
		log := DecisionsIn(t, p.pack)
		want, err := verifyBytes(t, p.pack, o)
		require.NoError(t, err, name)
		for _, stack := range stacksIn(t, p) {
			d, changes := backTested(t, p.pack, o, stack)
			for _, c := range changes {
				assert.NotEqual(t, stack.Hash(), log[c.Index].PolicyHash, "%s: %s", name, c)
			}
			assert.Equal(t, want, d.Report, "%s: %+v, and without the candidate", name, d.Report)
			var next []string
			for _, doc := range stack.Documents() {
				next = append(next, versions.ReplaceAllString(string(doc.Canonical), "${1}99"))
			}
			d, changes = backTested(t, p.pack, o, Compiled(t, next...))
			anew := map[uint64]bool{}
			for _, c := range changes {
				x := log[c.Index]
				assert.False(t, x.PolicyHash == stack.Hash() && (!c.Anew || len(x.Approvals) == 0), "%s: %s", name, c)
				anew[c.Index] = c.Anew
			}
			gone := map[uint64]bool{}
			for _, at := range d.Unjudged {
				gone[at] = true
			}
			for at, x := range log {
				if x.PolicyHash == stack.Hash() && len(x.Approvals) > 0 && x.Verdict == contracts.Allow && !gone[at] {
					if approved++; !anew[at] {
						t.Errorf("%s: entry %d was approved", name, at)
					}
				}
			}
			for _, at := range want.Replay.Entries {
				assert.True(t, gone[at], "%s: entry %d is judged", name, at)
				delete(gone, at)
			}
			for at := range gone { // a kernel that could not read the past either
				if x := log[at]; x.Reason != contracts.ReasonFailClosedError {
					t.Errorf("%s: entry %d is not judged: %+v", name, at, x)
				}
			}
			judged, unjudged = judged+d.Judged, unjudged+len(d.Unjudged)
		}
	}
	assert.True(t, judged >= 1000 && approved >= 20 && unjudged >= 100,
		"%d calls judged, %d that were approved, %d not judged", judged, approved, unjudged)
}

func untoldTo(t testing.TB) func(evidence.Change) error {
	return func(c evidence.Change) error {
		t.Errorf("told %s", c)
		return nil
	}
}

// TestBackTestInvalid: of a pack that does not verify there is the verifier's error, and nothing is
// told.
func TestBackTestInvalid(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := BaseLog(t)
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust, Origin: Origin}
	candidate := Compiled(t, MailPolicy) // nearly all is a change
	d, changes := backTested(t, pack, o, candidate)
	require.True(t, len(changes) >= 10 && d.Denied >= 5, "%+v", d)
	r := rand.New(rand.NewPCG(1, 1))
	checks := map[string]int{}
	try := func(pack []byte) {
		t.Helper()
		want, wrong := verifyBytes(t, pack, o)
		d, err := evidence.BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, candidate, untoldTo(t))
		assert.True(t, wrong != nil && err != nil && err.Error() == wrong.Error() && reflect.DeepEqual(d,
			evidence.Differences{Report: want}), "%+v, %v, want %v", d, err, wrong)
		var f *evidence.Error
		if errors.As(err, &f) {
			checks[f.Check.Error()]++
		}
	}
	for range 80 {
		bad := bytes.Clone(pack)
		bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		try(bad)
	}
	for range 10 {
		try(pack[:r.IntN(len(pack))])
	}
	for _, cut := range []func(*Model){ // what is found in the last entry, and what is found after it
		func(m *Model) { m.The("o").D()["rule"] = "P1:files:writers" },
		func(m *Model) { m.Blobs[m.The("o").D()["inputsHash"].(string)][0] ^= 1 },
		func(m *Model) { m.note = func(string) []byte { return signNote(m, "x\n", Origin, SeedL) } },
		func(m *Model) { m.Manifest = func(p Object) { p["size"] = 1 } },
		func(m *Model) { m.blob([]byte("nobody names it")) },
	} {
		x := TakeApart(t, pack)
		cut(x)
		try(x.Build())
	}
	for _, check := range []string{"ARCHIVE", "ENCODING", "SIGNATURE", "BLOB", "MANIFEST", "CHECKPOINT", "REPLAY"} {
		assert.NotEqual(t, 0, checks[check], "no pack failed by %s: %v", check, checks)
	}
}

// TestBackTestAsked: faults of the arguments.
func TestBackTestAsked(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := BaseLog(t)
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust, Origin: Origin}
	candidate := Compiled(t, MailPolicy)
	whole, changes := backTested(t, pack, o, candidate)
	run := func(ctx context.Context, o evidence.Options, p *guardian.Policy,
		each func(evidence.Change) error) (evidence.Differences, error) {
		return evidence.BackTest(ctx, bytes.NewReader(pack), int64(len(pack)), o, p, each)
	}
	for _, none := range []*guardian.Policy{nil, {}} {
		d, err := run(t.Context(), o, none, untoldTo(t))
		assert.True(t, errors.Is(err, errInput) && strings.Contains(err.Error(), "candidate") &&
			d.Report.Fault != nil && d.Report.Level == evidence.Invalid, "%+v, %v", d, err)
	}
	var none context.Context // what a caller might give: it never ends
	if d, err := run(none, o, candidate, nil); err != nil || !reflect.DeepEqual(d, whole) {
		t.Errorf("told to nobody: %+v, %v", d, err)
	}
	if d, err := run(t.Context(), evidence.Options{}, candidate, nil); err != nil ||
		d.Report.Success(evidence.Intact) || d.Denied != whole.Denied {
		t.Errorf("unpinned: %+v, %v", d, err)
	}
	if _, err := evidence.BackTest(t.Context(), nil, 0, o, candidate, untoldTo(t)); !errors.Is(err, errInput) {
		t.Error(err)
	}
	for stop := range changes { // at each of them
		enough, n := errors.New("enough"), 0
		d, err := run(t.Context(), o, candidate, func(c evidence.Change) error {
			assert.Equal(t, changes[n], c, "%s, before it was", c)
			if n++; n > stop {
				return enough
			}
			return nil
		})
		assert.True(t, err == enough && n == stop+1 && reflect.DeepEqual(d, evidence.Differences{}),
			"stopped at %d of %d: %+v, %v", n, stop, d, err)
	}
	ended, end := context.WithCancel(t.Context())
	d, err := run(ended, o, candidate, func(evidence.Change) error { end(); return nil })
	assert.True(t, err == context.Canceled && reflect.DeepEqual(d, evidence.Differences{}), "ended while told: %+v, %v",
		d, err)
	d, err = run(ended, o, candidate, untoldTo(t))
	assert.True(t, errors.Is(err, context.Canceled) && d.Report.Level == evidence.Invalid, "ended before: %+v, %v", d, err)
}

// A swapped reader returns the bytes of another pack, from some moment on.
type swapped struct {
	io.ReaderAt
	to io.ReaderAt
}

func (s *swapped) ReadAt(b []byte, at int64) (int, error) {
	if s.to != nil {
		return s.to.ReadAt(b, at)
	}
	return s.ReaderAt.ReadAt(b, at)
}

// TestBackTestChanging: when the pack changes after it was verified, nothing is told of what it
// became.
func TestBackTestChanging(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := NewMaker(t)
	m.Use(FilesPolicy(1))
	for i := range 60 { // more than a window reads at once
		m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: fmt.Sprintf(`{"path":"/srv/%d"}`, i),
			Who: Reader}).Ran(`{"text":"t"}`)
	}
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust}
	candidate := Compiled(t, MailPolicy)
	_, changes := backTested(t, pack, o, candidate)
	for _, x := range []io.ReaderAt{gone{}, bytes.NewReader(make([]byte, len(pack))),
		bytes.NewReader(bytes.ReplaceAll(pack, []byte("A"), []byte("B")))} {
		r := &swapped{ReaderAt: bytes.NewReader(pack)}
		n := 0
		d, err := evidence.BackTest(t.Context(), r, int64(len(pack)), o, candidate, func(c evidence.Change) error {
			assert.Equal(t, changes[n], c)
			n, r.to = n+1, x
			return nil
		})
		fault := d.Report.Fault
		d.Report = (evidence.Report{})
		assert.True(t, errors.Is(err, errArchive) && fault == err && n != 0 && n != len(changes) &&
			reflect.DeepEqual(d, evidence.Differences{}), "%d of %d were told: %+v, %v", n, len(changes), d, err)
	}
}

// TestChangeString is how people read it.
func TestChangeString(t *testing.T) {
	t.Parallel()
	allow := evidence.Judged{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, Condition: 8,
		Rule: "P1:files:write"}
	no := func(reason contracts.ReasonCode, condition int, rule string) evidence.Judged {
		return evidence.Judged{Verdict: contracts.Deny, Reason: reason, Condition: condition, Rule: rule}
	}
	for want, c := range map[string]evidence.Change{
		"entry 12 main/4 fs.write: ALLOW (P1:files:write) → DENY POLICY_VIOLATION (P1:files:no-etc)": {Index: 12,
			ID: "main/4", Tool: "fs.write", Then: allow,
			Now: no("POLICY_VIOLATION", 5, "P1:files:no-etc"), Anew: false},
		"entry 3 s/0 t: DENY NO_POLICY_DEFINED → ALLOW (P1:files:write)": {Index: 3, ID: "s/0", Tool: "t",
			Then: no("NO_POLICY_DEFINED", 5, ""), Now: allow, Anew: false},
		"entry 0 s/0 t: DENY FAIL_CLOSED_ERROR (condition 2) → DENY FAIL_CLOSED_ERROR (condition 5)": {Index: 0,
			ID: "s/0", Tool: "t", Then: no("FAIL_CLOSED_ERROR", 2, ""),
			Now: no("FAIL_CLOSED_ERROR", 5, ""), Anew: false},
		"entry 1 s/0 t: ALLOW (P1:files:write) → DENY APPROVAL_INVALID (P0:a:b), to be approved anew": {Index: 1,
			ID: "s/0", Tool: "t", Then: allow,
			Now: no("APPROVAL_INVALID", 4, "P0:a:b"), Anew: true},
	} {
		if got := c.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
